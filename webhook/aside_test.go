package webhook_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/webhook"
	"paramedic/webhook/hooktest"
	"paramedic/webhook/httpio"
)

// One alert that cannot be taken costs no other alert of its payload, and the answer explains it.
func TestBadAlertIsSetAsideAndOthersAccepted(t *testing.T) {
	big := strings.Repeat("x", 20<<10)
	many := make([]string, 0, 10_000)
	for i := range 10_000 {
		many = append(many, fmt.Sprintf(`"l%d":"v"`, i))
	}
	good := hooktest.Alert("prod", 1)
	bad := func(old, new string) string { return strings.Replace(hooktest.Alert("prod", 2), old, new, 1) }
	for name, c := range map[string]struct{ alert, reason, says string }{
		"no labels":            {bad(`{"alertname":"HighKV","cluster":"prod","pod":"vllm-2"}`, `{}`), "no_labels", "no labels"},
		"labels are null":      {bad(`{"alertname":"HighKV","cluster":"prod","pod":"vllm-2"}`, `null`), "no_labels", "no labels"},
		"null":                 {`null`, "status", "status must be"},
		"a number":             {`7`, "malformed", "not an Alertmanager alert"},
		"label is not text":    {bad(`"vllm-2"`, `1`), "malformed", "not an Alertmanager alert"},
		"no startsAt":          {bad(`"startsAt":"2026-11-21T02:59:00Z",`, ``), "time", "startsAt is missing"},
		"startsAt not a time":  {bad(`2026-11-21T02:59:00Z`, `yesterday`), "time", "startsAt is not"},
		"zero startsAt":        {bad(`2026-11-21T02:59:00Z`, `0001-01-01T00:00:00Z`), "time", "startsAt is not"},
		"endsAt not a time":    {strings.Replace(bad(`"endsAt":"0001-01-01T00:00:00Z"`, `"endsAt":"soon"`), `"firing"`, `"resolved"`, 1), "time", "endsAt is not"},
		"unknown status":       {bad(`"firing"`, `"burning"`), "status", "status must be"},
		"fingerprint is a key": {bad(`0000000000000002`, `../*.>`), "fingerprint", "fingerprint is not a hash"},
		"NUL in a label":       {bad(`vllm-2`, `a\u0000b`), "control_character", `value of label \"pod\" has control characters`},
		"escape in a label":    {bad(`vllm-2`, `\u001b[2J`), "control_character", "control characters"},
		"control in a name":    {bad(`"pod"`, `"po\u0007d"`), "control_character", "control characters"},
		"nameless label":       {bad(`"pod"`, `""`), "label_name", "a label has no name"},
		"huge label":           {bad(`vllm-2`, big), "labels_too_large", "its labels have"},
		"many labels":          {bad(`"pod":"vllm-2"`, strings.Join(many, ",")), "too_many_labels", "10002 labels, and the limit is 128"},
	} {
		t.Run(name, func(t *testing.T) {
			w := hooktest.NewWorld()
			counted := map[string]uint64{}
			s, _ := hooktest.Serve(t, w,
				func(c *webhook.Config) { c.ObserveAside = func(reason string, n uint64) { counted[reason] += n } })
			got := hooktest.Do(s, "POST", "/webhook/alertmanager", hooktest.Payload(good, c.alert, hooktest.Alert("prod", 3)))
			hooktest.Expect(t, got, 200, `"accepted":2`, `"set_aside":1`, c.says)
			if strings.Contains(got.Body.String(), `"problems":[": `) {
				t.Errorf("the answer names an empty alert: %s", got.Body)
			}
			if len(w.Inputs) != 1 || len(w.Inputs[0].Alerts.Alerts) != 2 {
				t.Fatalf("taken: %+v", w.Inputs)
			}
			if len(counted) != 1 || counted[c.reason] != 1 {
				t.Errorf("counted %v, want one of %s", counted, c.reason)
			}
			status := hooktest.Do(s, "GET", "/api/v1/status", "")
			hooktest.Expect(t, status, 200, `"total":1`, `"reason":"`+c.reason+`"`, `"receiver":"paramedic"`, c.says)
			if status.Body.Len() > 4<<10 || httpio.HasControl(status.Body.String(), true) {
				t.Errorf("the status has %d bytes: %.300q", status.Body.Len(), status.Body)
			}
		})
	}
}

// The end of a firing alert is not used, so an invalid one costs nothing.
func TestEndOfFiringAlertIsIgnored(t *testing.T) {
	w := hooktest.NewWorld()
	s, _ := hooktest.Serve(t, w, nil)
	body := hooktest.Payload(strings.Replace(hooktest.Alert("prod", 1), `"endsAt":"0001-01-01T00:00:00Z"`, `"endsAt":"soon"`, 1))
	hooktest.Expect(t, hooktest.Do(s, "POST", "/webhook/alertmanager", body), 200, `"accepted":1}`)
}

// Alerts that cannot be taken count against the limit, because each takes memory before it is
// checked.
func TestTooManyBadAlertsAreRefused(t *testing.T) {
	w := hooktest.NewWorld()
	s, _ := hooktest.Serve(t, w, nil)
	most := s.Limits.Alerts
	for _, bad := range []string{"{}", "7", "null"} {
		body := hooktest.Payload(strings.Repeat(bad+",", most) + bad)
		hooktest.Expect(t, hooktest.Do(s, "POST", "/webhook/alertmanager", body), 413,
			fmt.Sprintf("the payload has %d alerts, and the limit is %d", most+1, most))
	}
	hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/status", ""), 200, `"reason":"payload_too_large"`, `"receiver":"paramedic"`)
	hooktest.Expect(t, hooktest.Do(s, "POST", "/webhook/alertmanager", hooktest.Payload(strings.Repeat("{},", most-1)+"{}")), 200, `"accepted":0`, fmt.Sprintf(`"set_aside":%d`, most))
}

// A payload without any valid alert is answered with 200: Alertmanager would drop it otherwise, and
// the list shows it.
func TestPayloadWithOnlyBadAlertsIsCounted(t *testing.T) {
	w := hooktest.NewWorld()
	s, _ := hooktest.Serve(t, w, nil)
	hooktest.Expect(t, hooktest.Do(s, "POST", "/webhook/alertmanager", hooktest.Payload(`{}`, `{"labels":{}}`)), 200, `"accepted":0`, `"set_aside":2`)
	if w.Calls != 0 {
		t.Error("something was appended")
	}
}

// The list shows alerts that Alertmanager left out, and payloads that were refused as a whole.
func TestTruncatedAndRefusedAlertsAreCounted(t *testing.T) {
	w := hooktest.NewWorld()
	s, _ := hooktest.Serve(t, w, func(c *webhook.Config) { c.Limits.Alerts = 3 })
	hooktest.Expect(t, hooktest.Do(s, "POST", "/webhook/alertmanager", strings.Replace(hooktest.Payload(hooktest.Alert("prod", 1)), `"truncatedAlerts":0`, `"truncatedAlerts":40`, 1)), 200, `{"accepted":1}`)
	hooktest.Expect(t, hooktest.Do(s, "POST", "/webhook/alertmanager", hooktest.Payload(hooktest.Alerts("prod", 4)...)), 413)
	hooktest.Expect(t, hooktest.Do(s, "POST", "/webhook/alertmanager", hooktest.Payload("{}", "{}", "{}", hooktest.Alert("prod", 1))), 413)
	hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/status", ""), 200, `"total":48`, `"reason":"truncated"`, "max_alerts", `"reason":"payload_too_large"`, "group_by")
}

// The log reports each reason and receiver once, however many alerts come.
func TestSetAsideAlertsAreLoggedOnce(t *testing.T) {
	w := hooktest.NewWorld()
	var log bytes.Buffer
	s, clock := hooktest.Serve(t, w, func(c *webhook.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	for n := range 30 {
		alerts := []string{hooktest.Alert("prod", n)}
		for i := range 20 {
			alerts = append(alerts, strings.Replace(hooktest.Alert("prod", i), `HighKV`, fmt.Sprintf(`\u001b[31mRule%d`, 20*n+i), 1))
		}
		hooktest.Expect(t, hooktest.Do(s, "POST", "/webhook/alertmanager", hooktest.Payload(alerts...)), 200, `"set_aside":20`)
		clock.Advance(time.Minute)
	}
	if n := strings.Count(log.String(), "sets an alert aside"); n != 1 || strings.Contains(log.String(), "\x1b") {
		t.Errorf("logged %d times: %.600s", n, log.String())
	}
	var got webhook.StatusJSON
	if err := json.Unmarshal(hooktest.Do(s, "GET", "/api/v1/status", "").Body.Bytes(), &got); err != nil || got.SetAside.Total != 600 ||
		len(got.SetAside.Alerts) != 50 {
		t.Fatalf("%d of %d listed, %v", len(got.SetAside.Alerts), got.SetAside.Total, err)
	}
	if first := got.SetAside.Alerts[0].Alert; !strings.Contains(first, "Rule599") {
		t.Errorf("the newest is %s", first)
	}
	for name := range 1000 {
		payload := strings.Replace(hooktest.Payload(`{}`), `"paramedic"`, fmt.Sprintf(`"receiver-%d"`, name), 1)
		hooktest.Expect(t, hooktest.Do(s, "POST", "/webhook/alertmanager", payload), 200)
	}
	if n := strings.Count(log.String(), "sets an alert aside"); n > 256 {
		t.Errorf("logged %d times", n)
	}
}

// An alert that is set aside is counted once its payload is durable, not at each failed attempt.
func TestSetAsideIsCountedAfterTheAppend(t *testing.T) {
	w := hooktest.NewWorld()
	w.Err = state.ErrUnavailable
	s, _ := hooktest.Serve(t, w, nil)
	body := hooktest.Payload(hooktest.Alert("prod", 1), `{}`)
	for range 3 {
		hooktest.Expect(t, hooktest.Do(s, "POST", "/webhook/alertmanager", body), 503)
	}
	w.Err = nil
	hooktest.Expect(t, hooktest.Do(s, "POST", "/webhook/alertmanager", body), 200)
	hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/status", ""), 200, `"total":1`)
}

// The answer names the wrong field as the sender knows it, without Go's types.
func TestDecodingErrorsNameTheField(t *testing.T) {
	s, _ := hooktest.Serve(t, hooktest.NewWorld(), nil)
	for body, want := range map[string]string{
		`[1]`: "the value must be an object, not array",
		`{"version":"4","receiver":7,"alerts":[{}]}`:                                                             "receiver must be a string, not number",
		`{"version":"4","alerts":[{"labels":{"a\u001b[31m` + strings.Repeat("b", 1000) + `":7}}]}`:               "it is not an Alertmanager alert: labels.a [31mbbb",
		`{"version":"4","truncatedAlerts":-1,"alerts":[{}]}`:                                                     "truncatedAlerts must be a number in range, not number -1",
		strings.Replace(hooktest.Payload(hooktest.Alert("prod", 1)), `"alertname":"HighKV"`, `"alertname":7`, 1): "labels.alertname must be a string, not number",
	} {
		answer := hooktest.Do(s, "POST", "/webhook/alertmanager", body).Body.String()
		if !strings.Contains(answer, ": "+want) || len(answer) > 500 {
			t.Errorf("%s is answered %s, want %q", body, answer, want)
		}
	}
}
