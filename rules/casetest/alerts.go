package casetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"paramedic/internal/text"
)

// alertJSON is an alert in the format of a webhook.
type alertJSON struct {
	Labels       map[string]string `json:"labels" jsonschema:"required" jsonschema_description:"Labels, alertname among them."`
	Annotations  map[string]string `json:"annotations" jsonschema_description:"Annotations for people. An Xid is read from them."`
	GeneratorURL string            `json:"generatorURL" jsonschema_description:"Prometheus' link; its g0.expr is the rule's expression. It classifies alerts whose names are unknown."`
	After        string            `json:"after" jsonschema_description:"The delay from the first alert, as a duration such as 9m."`
}

// unread are the keys of alerts in Alertmanager's webhook and API that cases ignore.
var unread = []string{"status", "startsAt", "endsAt", "fingerprint", "receivers", "updatedAt"}

// begins returns the alerts' start times. The last one starts at least two minutes before the time
// of the case.
func begins(alerts []alertJSON) []time.Time {
	out, longest := make([]time.Time, len(alerts)), time.Duration(0)
	for i, a := range alerts {
		after, _ := a.after() // alerts has reported errors
		longest = max(longest, after)
		out[i] = caseTime.Add(-2*time.Minute + after + time.Duration(i)*time.Second)
	}
	for i := range out {
		out[i] = out[i].Add(-longest)
	}
	return out
}

func (a alertJSON) after() (time.Duration, error) {
	if a.After == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(a.After)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("after is %q: it must be a duration such as 9m", a.After)
	}
	return d, nil
}

// alerts parses the alerts of a case. A case without alerts must have evidence or pages, and an
// alert must have labels.
func (k *caseRun) alerts(files map[string]string) []alertJSON {
	raw, ok := files["alerts.json"]
	if !ok {
		if files["evidence"]+files["pages"] == "" {
			k.fail("the case has no alerts.json, no evidence and no pages: add one of these files")
		}
		return nil
	}
	var alerts []alertJSON
	if err := json.Unmarshal([]byte(raw), &alerts); err != nil {
		k.fail("alerts.json: %s", jsonText(err))
		return nil
	}
	k.alertKeys([]byte(raw))
	for i, a := range alerts {
		if len(a.Labels) == 0 {
			k.fail(`alerts.json: alert %d has no labels: give it at least {"labels": {"alertname": "…"}}`, i+1)
		}
		if _, err := a.after(); err != nil {
			k.fail("alerts.json: alert %d: %v", i+1, err)
		}
	}
	return alerts
}

// jsonText describes an error in alerts.json without the names of Go types.
func jsonText(err error) string {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !ok:
		return err.Error()
	case wrong.Field == "":
		return fmt.Sprintf("it must be a list of alerts, [{…}, {…}], and is %s: from a webhook's body copy the value of "+
			"\"alerts\"", wrong.Value)
	case strings.HasPrefix(wrong.Field, "labels") || strings.HasPrefix(wrong.Field, "annotations"):
		return fmt.Sprintf("%s wants texts in quotes, as {\"severity\": \"warning\"}, and there is %s", wrong.Field,
			wrong.Value)
	}
	return fmt.Sprintf("%s wants a text in quotes, and there is %s", wrong.Field, wrong.Value)
}

// alertKeys reports keys that neither cases nor Alertmanager use, and alerts that are resolved.
func (k *caseRun) alertKeys(raw []byte) {
	known := slices.Clone(unread)
	for f := range reflect.TypeFor[alertJSON]().Fields() {
		known = append(known, f.Tag.Get("json"))
	}
	var alerts []map[string]json.RawMessage
	_ = json.Unmarshal(raw, &alerts) // alerts has decoded it already
	for i, a := range alerts {
		for _, key := range slices.Sorted(maps.Keys(a)) {
			if !slices.ContainsFunc(known, func(name string) bool { return strings.EqualFold(name, key) }) {
				k.fail("alerts.json: alert %d has an unknown key %s; %s", i+1, key,
					text.DidYouMean(key, known))
			}
			if strings.EqualFold(key, "status") && string(a[key]) == `"resolved"` {
				k.fail("alerts.json: alert %d is resolved, and a case takes only firing alerts: remove it", i+1)
			}
		}
	}
}
