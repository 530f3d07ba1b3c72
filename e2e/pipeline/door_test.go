package pipeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"paramedic/e2e/bot"
	"paramedic/lab/alerting"
)

// samples returns the recorded payloads of real Alertmanagers, which lie beside the repository.
func samples(t *testing.T) []string {
	t.Helper()
	for dir, err := os.Getwd(); err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if files, _ := filepath.Glob(filepath.Join(dir, "shared", "data", "alertmanager", "*.json")); len(files) > 0 {
			return files
		}
	}
	t.Skip("SKIPPED: shared/data/alertmanager is not beside the repository: the payloads that real Alertmanagers sent are not posted")
	return nil
}

// deliver posts a body to the webhook as Alertmanager does.
func deliver(t *testing.T, b *bot.Bot, body []byte, header map[string]string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, b.URL()+"/webhook/alertmanager", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+intakeToken)
	for k, v := range header {
		req.Header.Set(k, v)
	}
	status, answer, err := b.Send(req, nil)
	if err != nil {
		t.Fatal(err)
	}
	return status, answer
}

// text returns a payload as Alertmanager encodes it.
func text(t *testing.T, p alerting.Webhook) string {
	raw, err := json.Marshal(p)
	if err != nil {
		t.Error(err)
	}
	return string(raw)
}

func TestRecordedPayloadsAreAccepted(t *testing.T) {
	t.Parallel()
	for _, file := range samples(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			chats, b := newChats(t), bot.New(t)
			configure(b, chats, nil)
			b.Start()
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var sent struct {
				Alerts []struct{ Status, Fingerprint string }
			}
			if err := json.Unmarshal(raw, &sent); err != nil {
				t.Fatal(err)
			}
			firing := map[string]bool{}
			for _, a := range sent.Alerts {
				if a.Status == "firing" {
					firing[a.Fingerprint] = true
				}
			}
			if status, answer := deliver(t, b, raw, nil); status != http.StatusOK {
				t.Fatalf("%d %s", status, answer)
			}
			if status, answer := deliver(t, b, raw, nil); status != http.StatusOK {
				t.Fatalf("the second time: %d %s", status, answer)
			}
			bot.Eventually(t, soon, "every firing alert is in an incident, once", func() error {
				n := 0
				list, err := b.Incidents()
				for _, in := range own(list) {
					n += in.AlertCount
				}
				if err == nil && n != len(firing) {
					err = fmt.Errorf("%d alerts in %d incidents, %d were sent", n, len(list), len(firing))
				}
				return err
			})
			bot.Eventually(t, soon, "Slack and PagerDuty are notified",
				func() error { return chats.notified(own(b.MustIncidents()), "triggered") })
			chats.clean(t)
		})
	}
}

func TestBadPayloadsLeaveNoIncident(t *testing.T) {
	t.Parallel()
	chats, b := newChats(t), bot.New(t)
	configure(b, chats, nil)
	b.Start()
	now := time.Now().UTC()
	good := func(more map[string]string) alerting.Webhook {
		labels := map[string]string{"alertname": "VLLMKVCacheExhaustion", "severity": "critical", "namespace": "llm",
			"pod": "vllm-llama-7d9f8b6c5-2xkqp"}
		maps.Copy(labels, more)
		return payload("firing", []alerting.WebhookAlert{alert(labels, now, time.Time{})})
	}
	raw := func(p alerting.Webhook, edits ...string) []byte {
		return []byte(strings.NewReplacer(edits...).Replace(text(t, p)))
	}
	many := map[string]string{}
	for i := range 200 {
		many[fmt.Sprint("label_", i)] = "x"
	}
	for _, c := range []struct {
		name   string
		body   []byte
		header map[string]string
		want   int
		says   string
	}{
		{"nothing", nil, nil, 400, ""},
		{"not JSON", []byte("alertname=Boom"), nil, 400, "payload"},
		{"half of a payload", raw(good(nil))[:100], nil, 400, ""},
		{"two payloads", append(raw(good(nil)), raw(good(nil))...), nil, 400, ""},
		{"a list", []byte("[" + string(raw(good(nil))) + "]"), nil, 400, ""},
		{"deeply nested JSON", []byte(strings.Repeat("[", 100000)), nil, 400, ""},
		{"not UTF-8", raw(good(map[string]string{"x": "\xff"}), `\ufffd`, "\xff"), nil, 400, "UTF-8"},
		{"version 3", raw(good(nil), `"version":"4"`, `"version":"3"`), nil, 400, "version"},
		{"a number as version", raw(good(nil), `"version":"4"`, `"version":4`), nil, 400, "version"},
		{"no version", raw(good(nil), `"version":"4",`, ``), nil, 400, "version"},
		{"no alerts", raw(payload("firing", good(nil).Alerts[:1]), `"alerts":[{`, `"alerts":[],"was":[{`), nil, 400, "no alerts"},
		{"an unknown status", raw(good(nil), `"status":"firing","labels"`, `"status":"on fire","labels"`), nil, 200, "status must be"},
		{"a time that is none", raw(good(nil), `"startsAt":"2`, `"startsAt":"x2`), nil, 200, "startsAt"},
		{"labels that are no text", raw(good(map[string]string{"n": "1"}), `"n":"1"`, `"n":1`), nil, 200, "set_aside"},
		{"200 labels", raw(good(many)), nil, 200, "labels"},
		{"a label of 20 kB", raw(good(map[string]string{"x": strings.Repeat("a", 20<<10)})), nil, 200, "labels"},
		{"a terminal's commands in a label", raw(good(map[string]string{"x": "\x1b]0;boom\x07"})), nil, 200, "control"},
		{"a NUL in a label's name", raw(good(map[string]string{"x\x00y": "z"})), nil, 200, "control"},
		{"a path as fingerprint", raw(good(nil), `"fingerprint":"`, `"fingerprint":"../../`), nil, 200, "fingerprint"},
		{"9 MiB", bytes.Repeat([]byte(" "), 9<<20), nil, 413, "larger"},
		{"60000 alerts", []byte(`{"version":"4","alerts":[` + strings.Repeat("{},", 60000) + `{}]}`), nil, 413, "the limit is"},
		{"no credentials", raw(good(nil)), map[string]string{"Authorization": ""}, 401, "authenticated"},
		{"a wrong token", raw(good(nil)), map[string]string{"Authorization": "Bearer guess"}, 401, "authenticated"},
		{"the token as basic authentication", raw(good(nil)), map[string]string{"Authorization": "Basic " + intakeToken}, 401,
			"authenticated"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, answer := deliver(t, b, c.body, c.header)
			if status != c.want || !strings.Contains(answer, c.says) {
				t.Errorf("answered %d %s, want %d and %q", status, answer, c.want, c.says)
			}
			if strings.Contains(answer, intakeToken) || len(answer) > 1000 {
				t.Errorf("the answer reveals too much: %.2000s", answer)
			}
		})
	}
	if status, _, err := b.Do(http.MethodGet, "/webhook/alertmanager", nil, nil); err != nil || status/100 != 4 {
		t.Errorf("GET is answered with %d, %v", status, err)
	}

	// Refused payloads and alerts leave no incident: the next alert makes incident number one, also
	// after a restart.
	b.Kill()
	b.Start()
	hostile := map[string]string{"pod": "", "model_name": `<script>alert(1)</script>*_~<!channel>{{ .Secret }}$(reboot)'";--`, "namespace": "../../etc"}
	if status, answer := deliver(t, b, raw(good(hostile)), nil); status != http.StatusOK {
		t.Fatalf("an unusual but valid label is refused: %d %s", status, answer)
	}
	bot.Eventually(t, soon, "Slack and PagerDuty are notified", func() error {
		list := b.MustIncidents()
		if len(list) != 1 || list[0].Number != 1 || list[0].AlertCount != 1 {
			return fmt.Errorf("%d incidents: %+v", len(list), list)
		}
		return chats.notified(list, "triggered")
	})
	in := b.MustIncidents()[0]
	if in.Scope.Model != hostile["model_name"] {
		t.Errorf("the model was changed to %q", in.Scope.Model)
	}
	for _, page := range []string{"/", "/incidents/" + string(in.ID)} {
		if status, html, err := b.Do(http.MethodGet, page, nil, nil); err != nil || status != http.StatusOK ||
			strings.Contains(html, "<script>alert") {
			t.Errorf("%s: %d %v, or a label became markup", page, status, err)
		}
	}
	for _, m := range chats.slack.Messages() {
		var blocks any
		if err := json.Unmarshal(m.Blocks, &blocks); err != nil {
			t.Error(err)
		}
		for _, markup := range append(markupIn(blocks), m.Text) {
			if strings.Contains(markup, "<!channel>") || strings.Contains(markup, "<script>") {
				t.Errorf("a label became Slack markup: %s", markup)
			}
		}
	}
	if strings.Contains(b.Output(), intakeToken) || strings.Contains(b.Output(), slackToken) || strings.Contains(b.Output(), routingKey) {
		t.Error("a secret was printed")
	}
	if i := strings.IndexByte(b.Output(), 0x1b); i >= 0 {
		t.Errorf("an escape sequence reached the terminal at %d", i)
	}
	chats.clean(t)
}

// markupIn returns the texts of a message that Slack parses as markup.
func markupIn(v any) []string {
	var out []string
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			out = append(out, markupIn(x)...)
		}
	case map[string]any:
		if text, ok := v["text"].(string); ok && v["type"] == "mrkdwn" {
			out = append(out, text)
		}
		for _, x := range v {
			out = append(out, markupIn(x)...)
		}
	}
	return out
}
