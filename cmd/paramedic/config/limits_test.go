package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"paramedic/remediate/policy"
)

// A limit without effect is refused, and the error says what to write instead.
func TestIneffectiveLimitsAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"limits: {cooldown: 5m, approval_expires: 1h}":                  "",
		"limits: {cooldown: 5m}, policies: [{limits: {cooldown: 10m}}]": "",
		"policies: [{limits: {cooldown: 30m}}]":                         "", // what holds anyway
		"policies: [{limits: {cooldown: 5m}}]": "remediate.policies[0].limits.cooldown: " +
			"5m has no effect, because a policy only tightens and remediate.limits.cooldown is 30m: set that to 5m, or " +
			"remove this",
		"policies: [{limits: {approval_expires: 1h}}]": "remediate.policies[0].limits.approval_expires: 1h has no effect, because a " +
			"policy only tightens and remediate.limits.approval_expires is 15m: set that to 1h",
		"limits: {approval_expires: 1h}, policies: [{limits: {approval_expires: 2h}}]": "2h has no effect, because a policy " +
			"only tightens and remediate.limits.approval_expires is 1h",
		"limits: {per_incident: 0}": "remediate.limits.per_incident: must be " +
			"from 1 to 6, and is 0; to stop all writes of first aid, set mode: suggest",
		"policies: [{limits: {cooldown: 0s}}]": "remediate.policies[0].limits.cooldown: " +
			"must be from 5m to 24h, and is 0s",
		"limits: {cooldown: 1m}": "remediate.limits.cooldown: must be from " +
			"5m to 24h, and is 1m",
		"limits: {max_load: .nan}": "remediate.limits.max_load: must be from " +
			"0.1 to 0.95, and is NaN",
		"limits: {floor: 512, ceiling: 256}": "remediate.limits.floor: 512 is above " +
			"the ceiling of 256",
		"limits: {ceiling: 256}, policies: [{limits: {floor: 512}}]": "remediate.policies[0].limits.floor: " +
			"with this policy the floor of 512 is above the ceiling of 256",
		"mode: suggest, policies: [{mode: auto}]": "remediate.policies[0].mode: auto has " +
			"no effect: a policy can only tighten remediate.mode, which is suggest. Set remediate.mode to auto and the stricter mode " +
			"in policies, or remove this line",
		"mode: auto, policies: [{mode: approve}, {mode: auto}]": "",
		"mode: approve, policies: [{limits: {ready_percent: 70, signals: 2, " +
			"human_edit: 5m}}]": "remediate.policies[0].limits.human_edit: 5m has no effect",
	} {
		_, err := Parse("paramedic.yaml", []byte("remediate: {"+text+"}\n"))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), "paramedic.yaml:1: ") || err != nil &&
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// Every limit has a key and reaches the guards. The reference and the schema have its bounds and
// default.
func TestLimitsMatchKeysBoundsAndDocs(t *testing.T) {
	limits := reflect.TypeFor[LimitsConfig]()
	if limits.NumField() != len(policy.AllLimits) || reflect.TypeFor[policy.Limits]().NumField() != len(policy.AllLimits) {
		t.Fatalf("%d keys, %d limits", limits.NumField(), len(policy.AllLimits))
	}
	for i, l := range policy.AllLimits {
		f := limits.Field(i)
		if f.Tag.Get("yaml") != l.Key {
			t.Errorf("the key %s stands where %s belongs", f.Tag.Get("yaml"), l.Key)
		}
		if meaning, want := f.Tag.Get("jsonschema_description"), l.Text(l.Least)+" to "+l.Text(l.Most); !strings.Contains(meaning, want) ||
			!strings.HasSuffix(meaning, " Default: "+l.Text(l.Default)+".") {
			t.Errorf("%s is explained as %q, and it is %s, by default %s", l.Key, meaning, want, l.Text(l.Default))
		}
		if want := fmt.Sprintf("minimum=%s,maximum=%s", l.Text(l.Least), l.Text(l.Most)); f.Type != reflect.TypeFor[Duration]() &&
			f.Tag.Get("jsonschema") != want {
			t.Errorf("the schema has %q of %s, want %q", f.Tag.Get("jsonschema"), l.Key, want)
		}
		for _, v := range []float64{l.Least, l.Most} {
			cfg, err := Parse("paramedic.yaml", fmt.Appendf(nil, "state: {retain: 720h}\nremediate: {limits: {%s: %s}}\n", l.Key,
				l.Text(v)))
			if l.Key == "ceiling" && v < 1024 || l.Key == "floor" {
				err = nil // they have to fit each other, which is said elsewhere
			}
			if got := l.Get(cfg.Remediate.Limits.limits()); err != nil || got != v {
				t.Errorf("%s: %s gives %v: %v", l.Key, l.Text(v), got, err)
			}
		}
	}
}

// The state must be kept for as long as the guards look back.
func TestRetainCoversTheGuardsWindows(t *testing.T) {
	for text, want := range map[string]string{
		"state: {retain: 24h}": "",
		"state: {retain: 23h}": "paramedic.yaml:1: state.retain: must be at least 24h, because the guards of first aid look back that far",
		"state: {retain: 47h}\nremediate: {limits: {rollout_window: 48h}}":               "must be at least 48h",
		"state: {retain: 48h}\nremediate: {limits: {rollout_window: 48h}}":               "",
		"state: {retain: 47h}\nremediate: {policies: [{limits: {rollout_window: 48h}}]}": "must be at least 48h",
		// counted from the run's end
		"state: {retain: 24h}\nremediate: {policies: [{limits: {cooldown: 24h}}]}": "must be at least 25h37m",
	} {
		_, err := Parse("paramedic.yaml", []byte(text+"\n"))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// First aid uses the limits, policies and times of the file.
func TestConfiguredLimitsReachFirstAid(t *testing.T) {
	cfg, err := Parse("paramedic.yaml", []byte("remediate: {mode: approve, limits: {approval_expires: 1h}, policies: [{limits: "+
		"{cooldown: 2h}}], verify: {window: 20m}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	aid := cfg.Remediation(policy.Timing{})
	if aid.Mode != policy.Approve || aid.Limits != (policy.Limits{ApprovalTTL: time.Hour}) || len(aid.Policies) != 1 ||
		aid.Policies[0].Limits.Cooldown != 2*time.Hour || aid.Timing.Window != 20*time.Minute {
		t.Errorf("%+v", aid)
	}
}

func TestAccountWithoutItsNamespaceIsRefused(t *testing.T) {
	for account, ok := range map[string]bool{"paramedic/paramedic-first-aid": true, "paramedic-first-aid": false, "a/b/c": false,
		"system:serviceaccount:a:b": false} {
		_, err := Parse("paramedic.yaml", []byte("clusters: [{name: a, kubernetes: {first_aid_account: \""+account+"\"}}]\n"))
		if (err == nil) != ok {
			t.Errorf("%s: %v", account, err)
		}
		if err != nil && !strings.Contains(err.Error(), "paramedic.yaml:1: clusters[0].kubernetes.first_aid_account") {
			t.Error(err)
		}
	}
}
