package alertmanager_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/webhook/alertmanager"
	"paramedic/webhook/hooktest"
	"paramedic/webhook/httpio"
)

// An alert of a cluster that is not configured must not get another cluster's evidence or first
// aid. With a single cluster, every alert belongs to it.
func TestAlertOfUnknownClusterKeepsItsCluster(t *testing.T) {
	body := []byte(hooktest.Payload(hooktest.Alert("atlantis", 1), strings.Replace(hooktest.Alert("x", 2), `"cluster":"x"`, `"zone":"x"`, 1)))
	for _, c := range []struct {
		clusters []string
		want     string
	}{{[]string{"prod", "edge"}, "atlantis prod"}, {[]string{"prod"}, "prod"}} {
		p, err := alertmanager.Decode(body, c.clusters, hooktest.Start)
		var got []string
		for _, in := range p.Inputs {
			got = append(got, in.Cluster)
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("with %v: %v, %v", c.clusters, got, err)
		}
	}
}

func TestBatchesFitMessageLimit(t *testing.T) {
	heavy := make([]string, 60)
	for i := range heavy {
		heavy[i] = strings.Replace(hooktest.Alert("prod", i), `"full"`, `"`+strings.Repeat("<&>", 1300)+`"`, 1)
	}
	p, err := alertmanager.Decode([]byte(hooktest.Payload(heavy...)), []string{"default", "prod"}, hooktest.Start)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Inputs) < 2 {
		t.Error("it was not split")
	}
	for _, in := range p.Inputs {
		data, err := json.Marshal(in)
		if err != nil || len(data) > 1<<20 {
			t.Errorf("a part of %d bytes (%v)", len(data), err)
		}
	}
}

func TestHAPairMakesTheSameInputs(t *testing.T) {
	alerts := hooktest.Alerts("prod", 3)
	one := hooktest.Payload(alerts...)
	other := strings.Replace(hooktest.Payload(alerts[2], alerts[0], alerts[1]), "am-1", "am-2", 1)
	other = strings.Replace(other, `"version":"4"`, `"notification_reason":"repeat interval elapsed","version":"4"`, 1)
	ids := func(body string, at time.Time) (out []string) {
		p, err := alertmanager.Decode([]byte(body), []string{"prod"}, at)
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range p.Inputs {
			out = append(out, in.ID)
		}
		return out
	}
	a, b := ids(one, hooktest.Start), ids(other, hooktest.Start.Add(time.Second))
	if fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("%v and %v", a, b)
	}
	for name, changed := range map[string]string{
		"resolved":    strings.Replace(one, "firing", "resolved", 1),
		"new episode": strings.Replace(one, "02:59:00Z", "02:59:01Z", 1),
		"new label":   strings.Replace(one, "vllm-1", "vllm-9", 1),
	} {
		if fmt.Sprint(ids(changed, hooktest.Start)) == fmt.Sprint(a) {
			t.Errorf("%s: same ID", name)
		}
	}
}

// Templates get the labels that Alertmanager grouped by, within bounds.
func TestGroupLabelsAreKept(t *testing.T) {
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf(`"l%d":"v"`, i))
	}
	for group, want := range map[string]int{`{"alertname":"HighKV","cluster":"prod"}`: 2, `{}`: 0, `{` + strings.Join(many, ",") + `}`: 32, `{"a":"` + strings.Repeat("x", 5000) + `"}`: 1} {
		p, err := alertmanager.Decode([]byte(`{"version":"4","groupLabels":`+group+`,"alerts":[`+hooktest.Alert("prod", 1)+`]}`), []string{"prod"}, hooktest.Start)
		if err != nil {
			t.Fatal(err)
		}
		got := p.Inputs[0].Alerts.GroupLabels
		if len(got) != want || len(got["a"]) > 1024 {
			t.Errorf("%.60s: %d labels, want %d", group, len(got), want)
		}
	}
}

func FuzzDecodeAlertmanager(f *testing.F) {
	f.Add([]byte(hooktest.Payload(hooktest.Alerts("prod", 3)...)))
	f.Add([]byte(`{"version":"4","truncatedAlerts":3,"alerts":[{"status":"firing","labels":{"a":1},"startsAt":"2026-11-21T02:59:00Z"},null,{"status":"firing","labels":{"a\u0007":"\u202e"}}]}`))
	f.Add([]byte(`{"version":"4","alerts":[{"status":"resolved","labels":{"a":"b"},"startsAt":"9999-12-31T23:59:59-23:59"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := alertmanager.Decode(body, []string{"default", "prod"}, hooktest.Start)
		hooktest.Refusal(t, err)
		for _, a := range p.Aside {
			if a.Reason == "" || a.Text == "" || a.Count == 0 || len(a.Alert) > 1000 || httpio.HasControl(a.Alert+a.Text, false) {
				t.Fatalf("set aside %+v", a)
			}
		}
		for _, in := range p.Inputs {
			if n := len(in.Alerts.Alerts); n == 0 || n > state.MaxBatch || in.ID == "" {
				t.Fatalf("a part of %d alerts", n)
			}
			for _, a := range in.Alerts.Alerts {
				if a.Fingerprint == "" || a.StartsAt.IsZero() || len(a.Labels) == 0 {
					t.Fatalf("incomplete alert %+v", a)
				}
			}
			if _, err := json.Marshal(in); err != nil {
				t.Fatalf("it cannot be kept: %v", err)
			}
		}
	})
}

func BenchmarkDecodeAlertmanager(b *testing.B) {
	for _, n := range []int{1, 50, 500} {
		body := []byte(hooktest.Payload(hooktest.Alerts("prod", n)...))
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := alertmanager.Decode(body, []string{"default", "prod"}, hooktest.Start); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "alerts/s")
		})
	}
}

// Group fields of an unexpected type cost no alert.
func TestInvalidGroupFieldsLoseNoAlert(t *testing.T) {
	for _, field := range []string{`"groupLabels":{"a":1}`, `"commonLabels":[]`, `"commonAnnotations":"x"`, `"status":7`, `"routeLabels":{"a":{}}`, `"notification_reason":1`} {
		body := `{"version":"4",` + field + `,"receiver":"r","alerts":[` + hooktest.Alert("prod", 1) + `]}`
		p, err := alertmanager.Decode([]byte(body), []string{"prod"}, hooktest.Start)
		if err != nil || len(p.Inputs) != 1 || len(p.Inputs[0].Alerts.Alerts) != 1 || len(p.Aside) != 0 {
			t.Errorf("%s: %v, %+v", field, err, p)
		}
	}
	if _, err := alertmanager.Decode([]byte(`{"version":"4","receiver":{},"alerts":[`+hooktest.Alert("prod", 1)+`]}`), []string{"prod"}, hooktest.Start); err == nil {
		t.Error("a receiver that is no text is taken")
	}
}

// The members of a pair, and a bot of another version, make the same ID of the same alerts.
func TestInputIDStaysTheSame(t *testing.T) {
	alerts := []string{hooktest.Alert("prod", 1), hooktest.Alert("prod", 2)}
	other := strings.ReplaceAll(hooktest.Alert("prod", 3), `"pod"`, `"node"`)
	more := strings.Replace(hooktest.Alert("prod", 4), `"labels":{`, `"labels":{"zone":"a",`, 1)
	for range 2 {
		p, err := alertmanager.Decode([]byte(hooktest.Payload(append(alerts, other, more, hooktest.Alert("prod", 5))...)), []string{"prod"}, hooktest.Start)
		if err != nil || len(p.Inputs) != 1 {
			t.Fatal(p, err)
		}
		if got := p.Inputs[0].ID; got != "91b8888f5339d65f56186bd8" {
			t.Errorf("the ID is %s", got)
		}
		slices.Reverse(alerts)
	}
}

// A payload is decoded into the room of the one before.
func TestPayloadHasNothingOfTheOneBefore(t *testing.T) {
	const one = `{"version": "4", "receiver": "r", "groupKey": "g", "truncatedAlerts": 3, "groupLabels": {"a": "b"}, "alerts": [
		{"status": "resolved", "labels": {"alertname": "A", "pod": "p"}, "annotations": {"summary": "s"}, "startsAt": "2026-11-30T12:00:00Z",
		 "endsAt": "2026-11-30T12:01:00Z", "generatorURL": "http://prometheus", "fingerprint": "0123456789abcdef"}]}`
	const other = `{"version": "4", "alerts": [{"status": "resolved", "labels": {"alertname": "B"}, "startsAt": "2026-11-30T12:00:00Z"}]}`
	read := func(body string) string {
		p, err := alertmanager.Decode([]byte(body), []string{"default"}, time.Unix(0, 0).UTC())
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	first, second := read(other), read(one)
	for range 3 {
		if got := read(other); got != first {
			t.Fatalf("read after another payload:\n%s\nwant\n%s", got, first)
		}
		if got := read(one); got != second {
			t.Fatalf("read after another payload:\n%s\nwant\n%s", got, second)
		}
	}
}
