package wording

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/alertmanager/template"

	"paramedic/notify"
	"paramedic/state"
)

// written writes a template file and returns its path.
func written(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "own.tmpl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func loaded(t testing.TB, text string) *Templates {
	t.Helper()
	out, problems := Load([]string{written(t, text)}, nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return out
}

// facts returns an incident with two alerts, one of which has the given labels too.
func facts(labels map[string]string) notify.Facts {
	at := sampleTime.Add(-time.Minute)
	all := map[string]string{"alertname": "KVFull", "team": "ml"}
	for k, v := range labels {
		all[k] = v
	}
	return notify.Facts{
		Incident: state.Incident{ID: "INC-1", Number: 7, Cluster: "prod", Status: state.StatusOpen, Severity: state.Critical,
			Title: "KV cache exhausted", StartedAt: at, OpenedAt: at,
			Delivery: &state.Delivery{Receiver: "ml", ExternalURL: "http://am:9093", GroupLabels: map[string]string{"alertname": "KVFull"}}},
		Alerts: []state.AlertRecord{
			{Alert: state.Alert{Fingerprint: "b", Labels: map[string]string{"alertname": "KVFull", "team": "ml"}, StartsAt: at,
				EndsAt: sampleTime}},
			{Alert: state.Alert{Fingerprint: "a", Labels: all, StartsAt: at,
				Annotations: map[string]string{"summary": "98 % full", "description": "first\nsecond"}}, Active: true},
		},
	}
}

func words(t testing.TB, ch state.Channel, text string, labels map[string]string) notify.Words {
	t.Helper()
	f := facts(labels)
	return loaded(t, text).Words(t.Context(), ch, f, notify.Compose(f), sampleTime)
}

// A template written for Alertmanager renders the same text here, on the same data.
func TestTemplatesRenderAsInAlertmanager(t *testing.T) {
	body := `[{{ .Status | toUpper }}{{ if eq .Status "firing" }}:{{ .Alerts.Firing | len }}{{ end }}] {{ .GroupLabels.SortedPairs.Values | join " " }} ({{ with .CommonLabels.Remove .GroupLabels.Names }}{{ .Values | join " " }}{{ end }})
{{ range .Alerts -}}
*Alert:* {{ .Annotations.summary }} {{ .Labels.alertname | title }} {{ reReplaceAll "(.*)Full" "$1" .Labels.alertname }} since {{ .StartsAt.Format "15:04:05" }}
{{ range .Labels.SortedPairs }} • {{ .Name }}: {{ .Value }}
{{ end }}{{ end }}{{ template "__alertmanagerURL" . }} {{ if match "KV.*" .CommonLabels.alertname }}KV{{ end }} {{ "a,b" | stringSlice | join "-" }} {{ dict "a" 1 | toJson }} {{ template "slack.default.title" . }}
{{ date "2006" (index .Alerts 0).StartsAt }} {{ printf "%q" .Receiver }} {{ humanizeDuration 61 }} {{ base64encode "x" }} {{ .CommonLabels.nothing }}`
	own := loaded(t, `{{ define "paramedic.pagerduty.details" }}`+body+`{{ end }}`)
	f := facts(map[string]string{"pod": "a"})
	d := data(f, notify.Compose(f), plain)
	theirs, err := template.FromGlobs(nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := theirs.ExecuteTextString(body, &d.Data)
	if err != nil {
		t.Fatal(err)
	}
	got, err := own.render(t.Context(), PagerDutyDetails, plain, d, sampleTime)
	if err != nil || got != want {
		t.Errorf("%v\ngot  %s\nwant %s", err, got, want)
	}
	if !strings.Contains(want, "[FIRING:1] KVFull (ml)") || !strings.Contains(want, "http://am:9093/#/alerts?receiver=ml") {
		t.Errorf("Alertmanager says\n%s", want)
	}
}

func TestOperatorTextsReplaceBuiltInOnes(t *testing.T) {
	text := `{{ define "paramedic.slack.title" }}{{ .Incident.Name }}
 of {{ .CommonLabels.team }}{{ end }}{{ define "paramedic.slack.footer" }} ask {{ .CommonLabels.team }} {{ end }}
{{ define "paramedic.slack.text" }}*{{ .Incident.Title }}*

{{ range .Alerts.Firing }}{{ .Annotations.description }}{{ end }}


<https://x.example|x>{{ end }}{{ define "paramedic.links" }}https://grafana.example/d/{{ .Incident.Number }} The dashboard
{{ end }}{{ define "paramedic.pagerduty.summary" }}page {{ .Incident.Severity }}{{ end }}`
	got := words(t, state.ChannelSlack, text, nil)
	if got.Title != "#7 of ml" || got.Footer != "ask ml" ||
		got.Text != "*KV cache exhausted*\n\nfirst\nsecond\n\n<https://x.example|x>" || len(got.Failed) != 0 ||
		len(got.Links) != 1 || got.Links[0] != (notify.Link{URL: "https://grafana.example/d/7", Text: "The dashboard"}) {
		t.Errorf("Slack: %+v", got)
	}
	if got := words(t, state.ChannelPagerDuty, text, nil); got.Title != "page critical" || got.Text != "" || len(got.Links) != 1 {
		t.Errorf("PagerDuty: %+v", got)
	}
}

// Text from an alert makes no link and no mention in any template. The operator's own text does.
func TestLabelsMakeNoMarkup(t *testing.T) {
	evil := map[string]string{"evil": "<!channel> <https://evil.example|x>", "coded": "%3C%21channel%3E", "b64": "PCFjaGFubmVsPg==",
		"link": "%3Chttps://evil.example%7Cx%3E", "amp": "a&b", "bare": "!channel", "user": "@U012345"}
	for body, want := range map[string]string{
		`{{ (index .Alerts 0).Labels.evil }}`:                                                    "&lt;!channel&gt; &lt;https://evil.example|x&gt;",
		`{{ (index .Alerts 0).Labels.coded | urlUnescape }}`:                                     "&lt;!channel&gt;",
		`{{ (index .Alerts 0).Labels.b64 | base64decode }}`:                                      "&lt;!channel&gt;",
		`{{ (index .Alerts 0).Labels.link | urlUnescape }}`:                                      "&lt;https://evil.example|x&gt;",
		`{{ (index .Alerts 0).Labels.amp | urlquery }} {{ (index .Alerts 0).Labels.amp }} &amp;`: "a%26b a&amp;b &amp;",
		`{{ toJson (index .Alerts 0).Labels.evil }}`:                                             "\"&lt;!channel&gt; &lt;https://evil.example|x&gt;\"",
		`<{{ (index .Alerts 0).Labels.bare }}>`:                                                  "&lt;!channel&gt;",
		`{{ if false }}<!channel>{{ end }}<{{ (index .Alerts 0).Labels.bare }}>`:                 "&lt;!channel&gt;",
		`<{{ (index .Alerts 0).Labels.user }}|you>`:                                              "&lt;@U012345|you&gt;",
		`{{ printf "<%s>" (index .Alerts 0).Labels.bare }}`:                                      "&lt;!channel&gt;",
		`{{ reReplaceAll "&lt;" "<" (index .Alerts 0).Labels.evil | safeHtml }}`:                 "&lt;!channel&gt; &lt;https://evil.example|x&gt;",
		`<!here> *bold* <https://good.example|good> {{ (index .Alerts 0).Labels.pod }}`:          "<!here> *bold* <https://good.example|good> ",
	} {
		got := words(t, state.ChannelSlack, `{{ define "paramedic.slack.text" }}`+body+`{{ end }}`, evil)
		if got.Text != strings.TrimSpace(want) || len(got.Failed) > 0 {
			t.Errorf("%s gives %q, want %q, failed %v", body, got.Text, want, got.Failed)
		}
	}
}

// A method's result can be longer than its argument, as a function's can.
func TestMethodResultsStayWithinBudget(t *testing.T) {
	f := facts(nil)
	f.Incident.StartedAt = time.Date(2026, 11, 24, 1, 1, 1, 0, time.UTC)
	const from = `{{ define "paramedic.slack.title" }}{{ $t := .Incident.StartedAt }}{{ $x := "1" }}{{ range 20 }}`
	for _, step := range []string{
		`{{ $x = $.Incident.StartedAt.Format $x }}`, `{{ $x = $x | $t.Format }}`, `{{ $x = ($t.UTC).Format $x }}`, `{{ with $t }}{{ $x = .Format $x }}{{ end }}`,
		`{{ $x = $t.Format ($t.Format $x) }}`, `{{ if $t.IsZero }}{{ else }}{{ $x = $t.Format $x | $t.Format }}{{ end }}`,
	} {
		got := loaded(t, from+step+`{{ end }}{{ len $x }}{{ end }}`).Words(t.Context(), state.ChannelSlack, f, notify.Compose(f), sampleTime)
		if len(got.Failed) != 1 || !strings.Contains(got.Failed[0], errMade.Error()) {
			t.Errorf("%s gives %q, failed %v", step, got.Title, got.Failed)
		}
	}
	got := loaded(t, `{{ define "paramedic.slack.title" }}{{ .Incident.StartedAt.Format "15:04" }} {{ "2006" | .Incident.StartedAt.Format }}{{ range .CommonLabels.SortedPairs.Names }}{{ end }}{{ end }}`).
		Words(t.Context(), state.ChannelSlack, f, notify.Compose(f), sampleTime)
	if got.Title != "01:01 2026" || len(got.Failed) > 0 {
		t.Errorf("a time reads %q, failed %v", got.Title, got.Failed)
	}
}

// On a slow machine, a template must reach the bound that its test is about, not the time.
func TestMain(m *testing.M) {
	maxTime = time.Hour
	m.Run()
}

func TestSlowTemplateKeepsBuiltInText(t *testing.T) {
	own := loaded(t, `{{ define "paramedic.slack.title" }}{{ range 2 }}x{{ end }}{{ end }}`)
	defer func(was time.Duration) { maxTime = was }(maxTime)
	maxTime = 0
	f := facts(nil)
	got := own.Words(t.Context(), state.ChannelSlack, f, notify.Compose(f), sampleTime)
	if got.Title != "" || len(got.Failed) != 1 || !strings.Contains(got.Failed[0], errTime.Error()) {
		t.Errorf("%+v", got)
	}
}

// No template runs or grows without bound. A template that exceeds a bound leaves the built-in
// text.
func TestTemplatesAreBounded(t *testing.T) {
	many := strings.Repeat(`{{ $s = printf "%s%s" $s $s }}`, 60)
	for body, want := range map[string]error{
		`{{ if .Incident.Cause }}{{ range 1000000000000 }}{{ end }}{{ end }}`:                                                    errSteps,
		`{{ if .Incident.Cause }}{{ range now.UnixNano }}{{ range now.UnixNano }}{{ end }}{{ end }}{{ end }}`:                    errSteps,
		`{{ if .Incident.Cause }}{{ template "again" . }}{{ end }}`:                                                              errNested,
		`{{ if .Incident.Cause }}{{ template "twice" "0123456789012345678901234567890" }}{{ end }}`:                              errSteps,
		`{{ if .Incident.Cause }}{{ range 40000 }}xxxxxxxxxx{{ end }}{{ end }}`:                                                  errOutput,
		`{{ $s := "0123456789" }}{{ if .Incident.Cause }}` + many + `{{ end }}`:                                                  errMade,
		`{{ $l := list 1 }}{{ if .Incident.Cause }}{{ range 60 }}{{ $l = append $l $l $l }}{{ end }}{{ end }}`:                   errMade,
		`{{ if .Incident.Cause }}{{ $x := printf "%9999d" 1 }}{{ range 100 }}{{ $x = reReplaceAll "" $x $x }}{{ end }}{{ end }}`: errMade,
		`{{ if .Incident.Cause }}{{ $x := printf "%999999d" 1 }}{{ end }}`:                                                       errMade,
		`{{ if .Incident.Cause }}{{ $x := printf "%*d" 999999 1 }}{{ end }}`:                                                     errMade,
		`{{ if .Incident.Cause }}{{ $x := printf "%9999d" 1 }}{{ range 30000 }}{{ $y := print $x }}{{ end }}{{ end }}`:           errMade,
	} {
		text := `{{ define "again" }}{{ template "again" . }}{{ end }}{{ define "twice" }}{{ if gt (len .) 0 }}{{ template "twice" (slice . 1) }}{{ template "twice" (slice . 1) }}{{ end }}{{ end }}{{ define "paramedic.slack.text" }}` + body + `{{ end }}`
		path := written(t, text)
		if _, problems := Load([]string{path}, nil); len(problems) != 1 || !strings.Contains(problems[0].Text, want.Error()) {
			t.Errorf("%s: at load %v, want %v", body, problems, want)
		}
		// The same for templates that only real data makes exceed a bound.
		var log bytes.Buffer
		late, problems := Load([]string{written(t, strings.ReplaceAll(text, ".Incident.Cause", `(eq .Receiver "ml")`))}, slog.New(slog.NewTextHandler(&log, nil)))
		if len(problems) > 0 {
			t.Errorf("%s: %v", body, problems)
			continue
		}
		f := facts(nil)
		got := late.Words(t.Context(), state.ChannelSlack, f, notify.Compose(f), sampleTime)
		if got.Text != "" || len(got.Failed) != 1 || !strings.Contains(got.Failed[0], want.Error()) ||
			!strings.Contains(log.String(), SlackText) {
			t.Errorf("%s: %+v, log %s", body, got, log.String())
		}
	}
}

func TestCostlyPatternsAreRefused(t *testing.T) {
	for body, want := range map[string]string{
		`{{ reReplaceAll "` + strings.Repeat("(a?){1000}", 60) + `" "x" .Receiver }}`:                   "instructions, and 2000 is the most",
		`{{ reReplaceAll "` + strings.Repeat("a", 2000) + `" "x" .Receiver }}`:                          "has 2000 characters, and 1024 is the most",
		`{{ reReplaceAll "a" "" (printf "%9999d%9999d%9999d%9999d%9999d%9999d%9999d" 1 2 3 4 5 6 7) }}`: errMade.Error(),
	} {
		path := written(t, `{{ define "paramedic.slack.text" }}`+body+`{{ end }}`)
		if _, problems := Load([]string{path}, nil); len(problems) != 1 || !strings.Contains(problems[0].Text, want) {
			t.Errorf("%.60s: %v, want %q", body, problems, want)
		}
	}
}

// A large incident has thousands of alerts. A template gets the first firing ones.
func TestDataIsBounded(t *testing.T) {
	f := facts(nil)
	for i := range 20_000 {
		f.Alerts = append(f.Alerts,
			state.AlertRecord{Active: i%2 == 0, Alert: state.Alert{Labels: map[string]string{"alertname": "KVFull", "pod": fmt.Sprint(i)},
				StartsAt: sampleTime.Add(time.Duration(i) * time.Second)}})
	}
	d := data(f, notify.Compose(f), plain)
	if len(d.Alerts) != maxAlerts || len(d.Alerts.Firing()) != maxAlerts || d.Alerts[1].Labels["pod"] != "0" ||
		len(f.Alerts[0].Alert.Labels) != 2 {
		t.Errorf("%d alerts, %d fire", len(d.Alerts), len(d.Alerts.Firing()))
	}
}

func TestBadTemplatesAreRefusedWithLine(t *testing.T) {
	for text, want := range map[string]string{
		"\n{{ define \"paramedic.slack.title\" }}{{ .Incident.Nope }}{{ end }}": ":2: executing " +
			"\"paramedic.slack.title\" at <.Incident.Nope>: can't evaluate field Nope",
		"{{ define \"paramedic.slack.title\" }}\n\n{{ shout }}{{ end }}": ":3: function \"shout\" " +
			"not defined",
		"{{ define \"paramedic.slack.title\" }}\n{{ template \"gone\" . }}{{ end }}": ":2: template \"gone\" is " +
			"called and not defined",
		"{{ define \"paramedic.slack.title\" }}x{{ end }}\n{{ define \"paramedic.slack.tilte\" }}y{{ end }}": ":2: there is no use for a " +
			"template named \"paramedic.slack.tilte\"",
		"{{ define \"paramedic.slack.title\" }}": ":1: unexpected EOF",
		"{{ define \"mine\" }}x{{ end }}": " nothing here would be " +
			"used: define at least one of paramedic.slack.title",
		"{{ define \"paramedic.links\" }}{{ index .Alerts 99 }}{{ end }}": ":1: executing " +
			"\"paramedic.links\"",
		strings.Repeat(" ", maxFileSize+1): " is too large: it has more than 262144 bytes",
	} {
		path := written(t, text)
		got, problems := Load([]string{path}, nil)
		if got != nil || len(problems) != 1 || !strings.HasPrefix(problems[0].String(), path+want) {
			t.Errorf("%.60q: %v, want %s", text, problems, want)
		}
	}
	if _, problems := Load([]string{"/nowhere/*.tmpl", "[", written(t, `{{ define "paramedic.links" }}{{ end }}`)}, nil); len(problems) != 2 {
		t.Errorf("patterns: %v", problems)
	}
}

func TestLinksAreAddresses(t *testing.T) {
	for body, want := range map[string]int{"https://a.example one\n\nhttp://b.example": 2, "javascript:alert(1) x": -1, "x": -1,
		"https://a\nhttps://b\nhttps://c\nhttps://d\nhttps://e\nhttps://f": -1} {
		got := words(t, state.ChannelSlack, `{{ define "paramedic.links" }}`+body+`{{ end }}`, nil)
		if want < 0 && len(got.Failed) != 1 || want > 0 && (len(got.Links) != want || len(got.Failed) != 0) {
			t.Errorf("%q: %+v", body, got)
		}
	}
	// A label with a line break makes no further link.
	got := words(t, state.ChannelSlack, `{{ define "paramedic.links" }}https://a.example {{ (index .Alerts 0).Labels.pod }}{{ end }}`, map[string]string{"pod": "a\nhttps://evil.example evil"})
	if len(got.Links) != 1 || got.Links[0].URL != "https://a.example" {
		t.Errorf("%+v", got.Links)
	}
}

func TestExampleTemplatesLoad(t *testing.T) {
	own, problems := Load([]string{"../../deploy/templates/*.tmpl"}, nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	f := facts(nil)
	m := notify.Compose(f)
	for _, ch := range []state.Channel{state.ChannelSlack, state.ChannelPagerDuty} {
		if got := own.Words(t.Context(), ch, f, m, sampleTime); len(got.Failed) > 0 || got.Title == "" || got.Text == "" ||
			len(got.Links) == 0 {
			t.Errorf("%s: %+v", ch, got)
		}
	}
}

func BenchmarkWords(b *testing.B) {
	own, problems := Load([]string{"../../deploy/templates/*.tmpl"}, nil)
	if len(problems) > 0 {
		b.Fatal(problems)
	}
	f := facts(nil)
	m := notify.Compose(f)
	for b.Loop() {
		own.Words(b.Context(), state.ChannelSlack, f, m, sampleTime)
	}
}

// A template that exceeds a bound at loading is reported with its file and line.
func TestEndlessTemplatesAreRefusedWithLine(t *testing.T) {
	path := written(t, "{{/* mine */}}\n{{ define \"paramedic.links\" }}x{{ end }}\n\n{{ define \"paramedic.slack.title\" }}\n{{ range "+
		"1000000000 }}{{ end }}{{ end }}")
	_, problems := Load([]string{path}, nil)
	i := slices.IndexFunc(problems, func(p Problem) bool { return strings.Contains(p.Text, errSteps.Error()) })
	if i < 0 || problems[i].File != path || problems[i].Line != 4 || strings.Contains(problems[i].Text, "paramedic_step") {
		t.Errorf("problems %v", problems)
	}
}
