package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"paramedic/notify/slack/slacktest"
)

// logLine matches one line of the log: time, level and message, then other keys. A value with
// anything but printable characters without spaces is quoted.
var logLine = regexp.MustCompile(`^time=\S+ level=(DEBUG|INFO|WARN|ERROR) msg=` + logged + `( [A-Za-z][\w.-]*=` + logged + `)*$`)

const logged = `("(?:[^"\\[:cntrl:]]|\\.)*"|[^\s"[:cntrl:]]*)`

// hostile breaks lines and terminals wherever it is written as it is.
const hostile = "x\ntime=2026-01-01T00:00:00Z level=error msg=forged\r\n\x1b[2J\x1b]0;forged\x07 level=error msg=\"forged\" \u2028\u0085\u202eforged\x00"

// printable is hostile without what the intake refuses.
const printable = `x level=error msg="forged" time=2026-01-01T00:00:00Z \n level=error`

// delivered matches a metric of a delivery to Slack.
var delivered = regexp.MustCompile(`paramedic_effect_duration_seconds_count\{channel="slack",kind="\w+",outcome="\w+"\} [1-9]`)

// A person who can fire an alert or reach the port cannot forge a line of the log, or move the
// cursor of the terminal that shows it.
func TestForeignTextStaysWithinItsLogLine(t *testing.T) {
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Error", printable)
		http.Error(w, hostile, http.StatusBadRequest)
	}))
	defer down.Close()
	dir := t.TempDir()
	put(t, dir, "secret", []byte(onCallSecret))
	p := serveProcess(t, dir, fmt.Sprintf(`
listen: 127.0.0.1:0
state: {dir: %[1]s/data}
clusters: [{name: prod, prometheus: {url: %[2]q}, alertmanager: {url: %[2]q}, engines: [%[2]q]}]
triage: {settle: 10ms}
notify:
  console: false
  slack: {token_file: %[1]s/secret, signing_secret_file: %[1]s/secret, api_url: %[3]q}
  pagerduty: {routing_key_file: %[1]s/secret, events_url: %[2]q}
`, dir, down.URL, down.URL+"/"))

	for i, text := range []string{hostile, printable} {
		for place, change := range map[string]func(alert, payload map[string]any){
			"label":        func(a, _ map[string]any) { a["labels"].(map[string]any)["pod"] = text },
			"label's name": func(a, _ map[string]any) { a["labels"].(map[string]any)[text] = "v" },
			"alertname":    func(a, _ map[string]any) { a["labels"].(map[string]any)["alertname"] = text },
			"cluster":      func(a, _ map[string]any) { a["labels"].(map[string]any)["cluster"] = text },
			"annotation":   func(a, _ map[string]any) { a["annotations"] = map[string]any{"summary": text, "runbook_url": text} },
			"generatorURL": func(a, _ map[string]any) { a["generatorURL"] = "http://p/graph?g0.expr=" + text },
			"status":       func(a, _ map[string]any) { a["status"] = text },
			"start":        func(a, _ map[string]any) { a["startsAt"] = text },
			"fingerprint":  func(a, _ map[string]any) { a["fingerprint"] = text },
			"receiver": func(_, p map[string]any) {
				p["receiver"], p["externalURL"], p["groupKey"], p["groupLabels"] = text, text, text, map[string]any{text: text}
			},
			"version": func(_, p map[string]any) { p["version"] = text },
		} {
			labels := map[string]any{}
			for k, v := range kvFull {
				labels[k] = v
			}
			alert := map[string]any{"status": "firing", "labels": labels, "annotations": map[string]any{}, "generatorURL": "",
				"startsAt": time.Now().UTC(), "fingerprint": fmt.Sprintf("%015x%d", len(place), i)}
			payload := map[string]any{"version": "4", "status": "firing", "receiver": "r", "groupKey": "g", "alerts": []any{alert}}
			change(alert, payload)
			raw, err := json.Marshal(payload)
			if err != nil {
				t.Fatal(err)
			}
			p.ask(http.MethodPost, "/webhook/alertmanager", string(raw), nil)
		}
		p.ask(http.MethodPost, "/webhook/alertmanager", text, nil)
		p.ask(http.MethodGet, "/api/v1/incidents/"+url.PathEscape(text), "", http.Header{"X-Forwarded-For": {printable}, "User-Agent": {printable}})
		command := url.Values{"command": {text}, "text": {"ack " + text}, "user_id": {text}, "user_name": {text}, "channel_name": {text},
			"response_url": {"https://hooks.slack.com/" + text}}.Encode()
		header := slacktest.Sign(onCallSecret, []byte(command), time.Now())
		p.ask(http.MethodPost, "/webhook/slack/command", command, header)
		p.ask(http.MethodPost, "/webhook/slack/interaction", command, header)
		unsigned := maps.Clone(header)
		unsigned["X-Slack-Signature"] = []string{printable}
		p.ask(http.MethodPost, "/webhook/slack/command", command, unsigned)
	}
	p.await("deliveries are tried", func() bool {
		page, _ := p.ask(http.MethodGet, "/metrics", "", nil)
		return delivered.MatchString(page) && strings.Contains(p.stderr.String(), "evidence gathered")
	})
	p.stop()

	lines := strings.Split(strings.TrimSuffix(p.stderr.String(), "\n"), "\n")
	foreign := 0
	for _, line := range lines {
		if !logLine.MatchString(line) {
			t.Errorf("no record of the log: %q", line)
		}
		if strings.Contains(line, "forged") {
			foreign++
		}
	}
	if foreign == 0 {
		t.Errorf("none of %d lines has foreign text, so nothing is proved: see %s", len(lines), filepath.Join(dir, "data"))
	}
}
