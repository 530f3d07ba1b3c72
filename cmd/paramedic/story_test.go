package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paramedic/cmd/paramedic/client"
	"paramedic/cmd/paramedic/config"
	"paramedic/cmd/paramedic/service"
	"paramedic/cmd/paramedic/survey"
	"paramedic/notify"
	"paramedic/notify/console"
	"paramedic/notify/pagerduty"
	"paramedic/notify/pagerduty/pagerdutytest"
	"paramedic/notify/slack"
	"paramedic/notify/slack/slacktest"
	"paramedic/notify/web"
	"paramedic/rules"
	"paramedic/state"
	"paramedic/webhook/api"
	"paramedic/webhook/report"
)

// A told is the story as one channel shows it.
type told struct {
	what, why, otherwise string
	do, avoid            []string
}

// Every channel shows the same explanation of every cause, in the same words.
func TestStoryIsEqualInEveryChannel(t *testing.T) {
	catalog, library, err := service.LoadKnowledge(config.Default())
	if err != nil {
		t.Fatal(err)
	}
	slackServer := slacktest.New(slacktest.Options{Burst: 1000})
	defer slackServer.Close()
	pager := pagerdutytest.New(pagerdutytest.Options{})
	defer pager.Close()
	for _, cause := range catalog.Causes() {
		in := state.Incident{
			ID: state.IncidentID("INC-01KA1B2C3D4E5F6G7H8J9K0M1N"), Number: 42, Cluster: "prod", Status: state.StatusOpen,
			Severity: state.Critical, Rev: 1,
			Title: cause.Title, Scope: state.Scope{Cluster: "prod", Namespace: "llm", Pool: "vllm", Model: "llama",
				Pods: []string{"vllm-0"}},
			StartedAt: time.Now(), OpenedAt: time.Now(), DiagnosedAt: time.Now(), NamedAt: time.Now(), AlertCount: 3, ActiveAlerts: 3,
			Diagnosis: state.Diagnosis{Cause: cause.ID, Confidence: 0.9, Title: cause.Title, Playbook: cause.Playbook,
				Findings: []state.Finding{{Text: "something <b>was</b> seen", Weight: 9}},
				Story: state.Story{What: cause.What, Why: "It was seen. Sum: +12 dB.",
					Else: "Next is KV leak (2 %): it needs KV cache held while a worker is idle.", Do: cause.Do, Avoid: cause.Avoid}},
		}
		pb, ok := library.For(in.Diagnosis)
		if !ok {
			t.Fatalf("%s has no playbook", cause.ID)
		}
		in.Diagnosis.Story = pb.Advise(in, state.Evidence{})
		s := in.Diagnosis.Story
		want := told{what: strings.TrimSpace(s.What), why: s.Why, otherwise: s.Else, do: s.Do, avoid: s.Avoid}
		message := notify.Compose(notify.Facts{Incident: in})
		shape := api.NewIncidentJSON(in, nil)
		for name, got := range map[string]told{
			"API":       {shape.Story.What, shape.Story.Why, shape.Story.Else, shape.Story.Do, shape.Story.Avoid},
			"page":      onThePage(t, in),
			"PagerDuty": inPagerDuty(t, pager, message),
			"report":    inMarkdown(report.Report(report.Case{Incident: in}, time.Now())),
			"incidents show": inText(func(b *bytes.Buffer) {
				client.Print(b, shape)
			}),
			"diagnose": inText(func(b *bytes.Buffer) { printVerdict(b, in.Diagnosis) }),
			"diagnose -o markdown": func() told {
				var b bytes.Buffer
				printMarkdown(&b, survey.Report{Verdict: []survey.PoolReport{{Diagnosis: in.Diagnosis}}})
				return inMarkdown(b.String())
			}(),
		} {
			if name == "PagerDuty" && cause.ID == state.BenignAlert {
				continue // it never pages
			}
			if d := cmp.Diff(want, got, cmp.AllowUnexported(told{})); d != "" {
				t.Errorf("%s, %s:\n%s", cause.ID, name, d)
			}
		}
		// A message of limited size shows the first lines of each list, uncut, and refers to the
		// page for the others.
		for name, got := range map[string]told{"Slack": inSlack(t, slackServer, message), "console": onTheConsole(t, message)} {
			if n := len(got.do); n < min(len(want.do), 6) || !slices.Equal(got.do, want.do[:n]) {
				t.Errorf("%s, %s: do now\n%s", cause.ID, name, cmp.Diff(want.do, got.do))
			}
			if n := len(got.avoid); n < min(len(want.avoid), 6) || !slices.Equal(got.avoid, want.avoid[:n]) {
				t.Errorf("%s, %s: do not\n%s", cause.ID, name, cmp.Diff(want.avoid, got.avoid))
			}
			if got.what != want.what || got.why != want.why || got.otherwise != want.otherwise {
				t.Errorf("%s, %s: %q, %q, %q", cause.ID, name, got.what, got.why, got.otherwise)
			}
		}
	}
	for _, f := range slices.Concat(slackServer.Failures(), pager.Failures()) {
		t.Error(f)
	}
}

// The advice for an Xid uses the incident's names from the verdict on. It comes first, within the
// six lines that Slack and the console show, and has no advice for other Xids.
func TestVerdictAdvisesByXid(t *testing.T) {
	catalog, library, err := service.LoadKnowledge(config.Default())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	entity := state.Entity{Cluster: "prod", Namespace: "llm", Pool: "vllm", Pod: "vllm-0", Model: "llama", Node: "gpu-7", GPU: "0"}
	for _, x := range catalog.Xids() {
		if x.Class == "notice" {
			continue
		}
		ev := state.Evidence{At: now, Workers: []state.Worker{{Namespace: "llm", Pod: "vllm-0", Pool: "vllm", PoolKind: "Deployment",
			Model: "llama", Node: "gpu-7", GPUs: []string{"0"}}}}
		for signal, v := range map[string]float64{"gpu_xid": float64(x.Code), "gpu_xid_changes": 1, "pod_ready": 0} {
			ev.Samples = append(ev.Samples, state.Sample{Signal: signal, Value: v, Entity: entity, At: now})
		}
		in := state.Incident{Cluster: "prod", Scope: state.Scope{Cluster: "prod", Namespace: "llm", Pool: "vllm", Model: "llama"},
			Symptoms: []state.SymptomCount{{Symptom: "gpu_hardware", Alerts: 1}, {Symptom: "worker_down", Alerts: 1}}}
		d := service.Knowledge{Rules: rules.Rules{Catalog: catalog}, Library: library}.Diagnose(&in, &ev, now)
		if d.Cause != "gpu_fault" {
			t.Errorf("Xid %d: verdict %s", x.Code, d.Cause)
			continue
		}
		want := []string{"By NVIDIA's table: " + x.Action + "."}
		for _, advice := range catalog.AdviceByXid("{xid_do}") {
			if slices.Contains(advice.Xids, x.Code) {
				for _, line := range advice.Lines {
					want = append(want, strings.NewReplacer("{nodes}", "gpu-7", "{pods}", "vllm-0").Replace(line))
				}
			}
		}
		same := func(line, want string) bool { // a restart may wait until another cause is ruled out
			_, step, waits := strings.Cut(line, "which it makes worse: ")
			return line == want || waits && strings.EqualFold(step, want)
		}
		if n := len(want); n == 1 || n > 6 || len(d.Story.Do) < n || !slices.EqualFunc(d.Story.Do[:n], want, same) {
			t.Errorf("Xid %d, %s: do now\n%s", x.Code, x.Needs, cmp.Diff(want, d.Story.Do))
		}
		if cordons := strings.Contains(x.Action, "cordon") || x.Needs == "ask_the_driver"; !cordons {
			for _, line := range d.Story.Do[len(want):] {
				if !strings.Contains(line, "[when: ") {
					t.Errorf("Xid %d asks for no cordon, and is told without a condition: %s", x.Code, line)
				}
			}
			for _, line := range d.Story.Avoid {
				if strings.HasPrefix(line, "Deleting the pod") && !strings.Contains(line, "if the Xid requires a cordon") {
					t.Errorf("Xid %d asks to restart the pod, and a warning forbids it: %s", x.Code, line)
				}
			}
		}
		if all := strings.Join(slices.Concat(d.Story.Do, d.Story.Avoid), "\n"); strings.Contains(all, "{") {
			t.Errorf("Xid %d: a name is missing:\n%s", x.Code, all)
		}
		if x.Code == 79 && !strings.Contains(strings.Join(d.Story.Do[:6], "\n"), "kubectl cordon gpu-7") {
			t.Errorf("Xid 79: the playbook's commands are not among the first six lines:\n%s", strings.Join(d.Story.Do, "\n"))
		}
	}
}

// oneIncident is a view of a single incident.
type oneIncident struct {
	state.View
	in state.Incident
}

func (v oneIncident) Incident(id state.IncidentID) (state.Incident, bool) { return v.in, id == v.in.ID }
func (oneIncident) Evidence(state.IncidentID) (state.Evidence, bool)      { return state.Evidence{}, false }
func (oneIncident) Timeline(context.Context, state.IncidentID) ([]state.Entry, error) {
	return nil, nil
}
func (oneIncident) Alerts(state.IncidentID) []state.AlertRecord { return nil }
func (oneIncident) Action(state.ActionID) (state.Action, bool)  { return state.Action{}, false }
func (oneIncident) Halted(string) (state.Halt, bool)            { return state.Halt{}, false }

func onThePage(t *testing.T, in state.Incident) told {
	t.Helper()
	h, err := web.New(web.Config{View: oneIncident{in: in}, Clock: state.SystemClock{}})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/incidents/"+string(in.ID), nil))
	body := w.Body.String()
	one := func(pattern string) string {
		m := regexp.MustCompile(pattern).FindStringSubmatch(body)
		if m == nil {
			t.Fatalf("the page has no %s:\n%s", pattern, body)
		}
		return strings.TrimSpace(html.UnescapeString(m[1]))
	}
	list := func(id string) []string {
		var out []string
		for _, m := range regexp.MustCompile(`<li>(.*?)</li>`).FindAllStringSubmatch(one(`(?s)data-testid="`+id+`">(.*?)</[ou]l>`), -1) {
			out = append(out, m[1])
		}
		return out
	}
	return told{what: one(`(?s)<p class="what">(.*?)</p>`), why: one(`(?s)<b>Why we believe it.</b>(.*?)</p>`), otherwise: one(`(?s)<b>What else it could be.</b>(.*?)</p>`),
		do: list("first-aid"), avoid: list("avoid")}
}

func inPagerDuty(t *testing.T, s *pagerdutytest.Server, m notify.Message) told {
	t.Helper()
	m.Incident += state.IncidentID(m.Cause) // a page of its own
	n := pagerduty.New(pagerduty.Config{EventsURL: s.URL()},
		pagerduty.Options{Clock: state.SystemClock{}, RoutingKey: func() (string, error) { return strings.Repeat("k", 32), nil }})
	if _, err := n.Show(t.Context(), m, state.Told{}, true); err != nil {
		t.Fatal(err)
	}
	all := s.Incidents()
	d := all[len(all)-1].Details
	list := func(key string) []string {
		var out []string
		for _, l := range d[key].([]any) {
			out = append(out, l.(string))
		}
		return out
	}
	return told{what: d["1 what is wrong"].(string), why: d["2 why we believe it"].(string),
		otherwise: d["3 what else it could be"].(string), do: list("4 do now"), avoid: list("5 do not")}
}

func inSlack(t *testing.T, s *slacktest.Server, m notify.Message) told {
	t.Helper()
	cfg := slack.Config{APIURL: s.URL(), Channel: "#llm-oncall"}
	n := slack.New(cfg, slack.Options{Clock: state.SystemClock{}, Log: slog.New(slog.DiscardHandler),
		Token: func() (string, error) { return "xoxb-test", nil }})
	if _, err := n.Show(t.Context(), m, state.Told{}, true); err != nil {
		t.Fatal(err)
	}
	all := s.Messages()
	var blocks []struct {
		Elements []struct {
			Type     string `json:"type"`
			Elements []struct {
				Text     string                  `json:"text"`
				Elements []struct{ Text string } `json:"elements"`
			} `json:"elements"`
		} `json:"elements"`
	}
	if err := json.Unmarshal(all[len(all)-1].Blocks, &blocks); err != nil {
		t.Fatal(err)
	}
	var out told
	title := ""
	for _, b := range blocks {
		for _, e := range b.Elements {
			for i, x := range e.Elements {
				switch {
				case e.Type == "rich_text_list" && title == "Do now":
					out.do = append(out.do, x.Elements[0].Text)
				case e.Type == "rich_text_list" && title == "Do not":
					out.avoid = append(out.avoid, x.Elements[0].Text)
				case e.Type == "rich_text_section" && i == 0:
					title = strings.TrimSpace(x.Text)
				case title == "What is wrong" && i == 1:
					out.what = x.Text
				case title == "Why we believe it" && i == 1:
					out.why = x.Text
				case title == "What else it could be" && i == 1:
					out.otherwise = x.Text
				}
			}
		}
	}
	return out
}

var leading = regexp.MustCompile(`^(\d+\.|✗|-) `)

// inText parses the terminal's output. Its labels are nine wide, indented or not.
func inText(print func(*bytes.Buffer)) told {
	var b bytes.Buffer
	print(&b)
	text := b.String()
	if !strings.Contains(text, "\nwhat ") {
		text = strings.ReplaceAll(text, "\n  ", "\n")
	}
	var out told
	label := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if len(line) < 10 {
			label = ""
			continue
		}
		if head := strings.TrimSpace(line[:9]); head != "" {
			label = head
		}
		rest := line[9:]
		switch label {
		case "what":
			out.what = strings.TrimSpace(rest)
		case "why":
			out.why = rest
		case "or else":
			out.otherwise = rest
		case "do now":
			out.do = append(out.do, leading.ReplaceAllString(rest, ""))
		case "do not":
			out.avoid = append(out.avoid, rest)
		}
	}
	return out
}

// onTheConsole parses a card: each text has a label and wraps below its own beginning.
func onTheConsole(t *testing.T, m notify.Message) told {
	t.Helper()
	var b bytes.Buffer
	if _, err := console.New(console.Options{Out: &b}).Show(t.Context(), m, state.Told{}, true); err != nil {
		t.Fatal(err)
	}
	var out told
	label := ""
	var last *string
	add := func(list *[]string, text string) {
		*list = append(*list, leading.ReplaceAllString(text, ""))
		last = &(*list)[len(*list)-1]
	}
	for line := range strings.Lines(regexp.MustCompile(`(?m)^ {13}and \d+ more on the page\n`).ReplaceAllString(b.String(), "")) {
		const width = 13
		if len(line) <= width {
			continue
		}
		if head := strings.TrimSpace(line[:width]); head != "" {
			label, last = head, nil
		}
		text := strings.TrimSpace(line[width:])
		switch {
		case label == "do now" && leading.MatchString(text):
			add(&out.do, text)
		case label == "do not" && leading.MatchString(text):
			add(&out.avoid, text)
		case last != nil:
			*last += " " + text
		case label == "what":
			out.what, last = text, &out.what
		case label == "why":
			out.why, last = text, &out.why
		case label == "or else":
			out.otherwise, last = text, &out.otherwise
		}
	}
	return out
}

var unescape = strings.NewReplacer(`\_`, "_", `\*`, "*", `\[`, "[", `\]`, "]", `\#`, "#", "\\`", "`", `\|`, "|", `\~`, "~", `\!`, "!", `\$`, "$", "&lt;", "<", "&gt;", ">", "&amp;", "&")

func inMarkdown(md string) told {
	var out told
	part := ""
	for line := range strings.Lines(md) {
		line = unescape.Replace(strings.TrimRight(line, "\n"))
		var text string
		if _, err := fmt.Sscanf(line, "**%s", &text); err == nil {
			label, rest, _ := strings.Cut(strings.TrimPrefix(line, "**"), "**")
			part, rest = strings.TrimRight(label, ".:"), strings.TrimSpace(rest)
			switch part {
			case "What is wrong":
				out.what = rest
			case "Why we believe it":
				out.why = rest
			case "What else it could be":
				out.otherwise = rest
			}
			continue
		}
		switch {
		case strings.HasPrefix(line, "- **"), line != "" && !leading.MatchString(line):
			part = ""
		case part == "Do now" && line != "":
			out.do = append(out.do, leading.ReplaceAllString(line, ""))
		case part == "Do not" && line != "":
			out.avoid = append(out.avoid, leading.ReplaceAllString(line, ""))
		}
	}
	return out
}
