package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
)

// ownWords returns a bot with the operator's templates.
func ownWords(t *testing.T, templates string) *onCall {
	t.Helper()
	dir := t.TempDir()
	put(t, dir, "own.tmpl", []byte(templates))
	o := newOnCallAs(t, "10ms", "", fmt.Sprintf("  templates: [%q]\n", filepath.Join(dir, "*.tmpl")))
	return o
}

const ownTemplates = `{{ define "paramedic.slack.title" }}{{ .CommonLabels.team }}: {{ .Incident.Title }}{{ end }}
{{ define "paramedic.slack.text" }}*own words* {{ range .Alerts }}{{ .Annotations.summary }} {{ .Labels.evil }}{{ end }} <{{ template "__alertmanagerURL" . }}|Alertmanager>{{ end }}
{{ define "paramedic.slack.footer" }}group {{ .GroupLabels.SortedPairs.Values | join "," }}{{ end }}
{{ define "paramedic.pagerduty.summary" }}own page of {{ .CommonLabels.team }}{{ end }}
{{ define "paramedic.pagerduty.details" }}{{ dict "runbook" "https://r.example" | toJson }}{{ end }}
{{ define "paramedic.links" }}https://grafana.example/d/1 Dashboard{{ end }}`

// The operator's templates apply in Slack and PagerDuty, and after a restart they get the same
// data.
func TestOwnTemplatesAreUsed(t *testing.T) {
	o := ownWords(t, ownTemplates)
	labels := maps.Clone(kvFull)
	labels["team"], labels["evil"] = "ml", "<!channel> <https://evil.example|x>"
	o.alert(labels)
	o.await("paged and posted", o.paged)
	o.settled()
	told := func() {
		t.Helper()
		m := o.slack.Messages()[0]
		says(t, m.Text, "#1 critical: ml: ")
		says(t, unescaped(string(m.Blocks)), "🔴 #1 ml: ",
			"*own words* KV cache is almost full &lt;!channel&gt; &lt;https://evil.example|x&gt; "+
				"<https://alerts.another-team.example/#/alerts?receiver=", "group VLLMKVCacheExhaustion", "https://grafana.example/d/1",
			"paramedic.open")
		if strings.Contains(string(m.Blocks), "What is wrong") {
			t.Errorf("the built-in words stand beside the operator's: %s", m.Blocks)
		}
	}
	told()
	page := o.pager.Incidents()[0]
	if page.Summary != "#1 own page of ml" || page.Details["runbook"] != "https://r.example" || page.Details["incident"] == nil ||
		page.Links[0]["href"] != "https://grafana.example/d/1" {
		t.Errorf("the page says %q, %v, %v", page.Summary, page.Details, page.Links)
	}
	o.stop()
	o.start()
	edits := o.slack.Messages()[0].Edits
	t.Setenv("PARAMEDIC_TOKEN", "0123456789abcdef0123456789abcdef")
	ask(t, exitOK, "ack", "1", "--server", o.url)
	o.await("the message is edited", func() bool { return o.slack.Messages()[0].Edits > edits })
	o.settled()
	told()
	for _, f := range append(o.slack.Failures(), o.pager.Failures()...) {
		t.Error(f)
	}
}

// If a template fails on real data, the message uses the built-in words and says so.
func TestFailedTemplateFallsBack(t *testing.T) {
	o := ownWords(t, `{{ define "paramedic.slack.text" }}{{ if match "another-team" .ExternalURL }}{{ range 99999999 }}{{ end }}{{ end }}{{ end }}
{{ define "paramedic.pagerduty.summary" }}{{ if match "another-team" .ExternalURL }}{{ index .Alerts 99 }}{{ end }}{{ end }}`)
	o.alert(kvFull)
	o.await("paged and posted", o.paged)
	o.settled()
	says(t, string(o.slack.Messages()[0].Blocks), "What is wrong",
		"paramedic.slack.text failed, so the built-in words stand here: it made more than 50000 turns")
	page := o.pager.Incidents()[0]
	if !strings.HasPrefix(page.Summary, "#1 ") ||
		!strings.Contains(fmt.Sprint(page.Details["templates"]), "paramedic.pagerduty.summary failed") {
		t.Errorf("the page says %q, %v", page.Summary, page.Details)
	}
}

func TestCheckNamesTheLineOfABadTemplate(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "own.tmpl", []byte("{{ define \"paramedic.slack.title\" }}\n{{ .Incident.Nope }}{{ end }}"))
	put(t, dir, "paramedic.yaml", fmt.Appendf(nil, "listen: 127.0.0.1:0\nnotify:\n  templates: [%q, /nowhere/*.tmpl]\n",
		filepath.Join(dir, "*.tmpl")))
	said := ask(t, exitFinding, "check", "--config", filepath.Join(dir, "paramedic.yaml"))
	says(t, said, filepath.Join(dir, "paramedic.yaml")+":3: notify.templates: /nowhere/*.tmpl matches no file")
	put(t, dir, "paramedic.yaml", fmt.Appendf(nil, "notify:\n  templates: [%q]\n", filepath.Join(dir, "*.tmpl")))
	says(t, ask(t, exitFinding, "check", "--config", filepath.Join(dir, "paramedic.yaml")), filepath.Join(dir, "own.tmpl")+":2: ",
		"can't evaluate field Nope")
}

// unescaped returns JSON without escaped angle brackets and ampersands.
func unescaped(s string) string {
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(s)
}
