package slack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paramedic/notify"
	"paramedic/notify/notifytest"
	"paramedic/notify/slack/slacktest"
	"paramedic/state"
)

// gold compares a rendering with its golden file.
func gold(t *testing.T, name string, v any) {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	file := "testdata/" + name + ".json"
	if *update {
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("%s: %s", file, diff)
	}
}

func TestRendering(t *testing.T) {
	n := &Notifier{cfg: Config{SigningSecretFile: "secret"}}
	f := notifytest.Facts(t)
	gold(t, "open", n.render(notify.Compose(f)))
	f.Actions[0].State, f.Actions[0].Mode = state.Proposed, "suggest"
	f.Links.Base = ""
	gold(t, "suggest", n.render(notify.Compose(f)))
	f.Incident.Status, f.Incident.ResolvedAt, f.Incident.ResolvedBy = state.StatusResolved, f.Incident.StartedAt.Add(time.Hour), "alerts"
	f.Actions[0].State, f.Actions[0].Verify.Text = state.Succeeded, "better: preemption_rate 4.1/s → 0/s"
	gold(t, "resolved", n.render(notify.Compose(f)))
}

// hostile is text with all kinds of chat markup.
const hostile = "<!channel> <@U123> @here <https://evil|click> *b* _i_ ~s~ `c` &amp; :skull: \x1b[31m\u202Ex\n> quote"

func TestHostileTextIsNeverMarkup(t *testing.T) {
	n, s := bench(t, Config{}, slacktest.Options{})
	f := fresh(t)
	f.Incident.Title, f.Incident.Scope.Model, f.Incident.AckedBy = hostile, hostile, &state.Actor{ID: "U", Name: hostile}
	f.Incident.Diagnosis.Story = state.Story{What: hostile, Why: hostile, Else: hostile, Time: hostile, Do: []string{hostile},
		Avoid: []string{hostile}}
	f.Incident.Diagnosis.Findings[0].Text, f.Incident.Diagnosis.Findings[0].Signal = hostile, hostile
	f.Evidence.Samples[0].Signal, f.Evidence.Samples[0].Entity.Pod, f.Evidence.Samples[0].Unit = hostile, hostile, hostile
	f.Actions[0].Change, f.Actions[0].Command, f.Actions[0].Why = hostile, hostile, hostile
	f.Timeline[0].Text = hostile
	f.Playbook.Checks[0].Answer = hostile
	ref, err := n.Show(t.Context(), notify.Compose(f), state.Told{}, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range append(s.Messages(), s.Thread(ref["ts"])...) {
		// The fake refuses mentions and broadcasts. This checks that no text is of a type that
		// Slack reads as markup.
		if bytes.Contains(m.Blocks, []byte(`"mrkdwn"`)) {
			t.Errorf("markup in %s", m.Blocks)
		}
		for _, bad := range []string{"<!", "<@", "<http", "@here", "*b*", "_i_", "~s~", "`c`"} {
			if strings.Contains(m.Text, bad) {
				t.Errorf("the notification has %q: %q", bad, m.Text)
			}
		}
		if bytes.Contains(m.Blocks, []byte("u202e")) || bytes.Contains(m.Blocks, []byte("\u202e")) ||
			bytes.Contains(m.Blocks, []byte("u001b")) {
			t.Errorf("control characters in %s", m.Blocks)
		}
	}
}

func TestPhaseTimesAreShownIfKnown(t *testing.T) {
	for _, text := range []string{"", "queue 60 % of a request: queue_saturation, from 40 traces."} {
		n, s := bench(t, Config{}, slacktest.Options{})
		f := fresh(t)
		f.Incident.Diagnosis.Story.Time = text
		if _, err := n.Show(t.Context(), notify.Compose(f), state.Told{}, true); err != nil {
			t.Fatal(err)
		}
		blocks := string(s.Messages()[0].Blocks)
		if strings.Contains(blocks, "Where the time goes") != (text != "") || !strings.Contains(blocks, text) {
			t.Errorf("%q: %s", text, blocks)
		}
	}
}

// Slack accepts any incident: the fake checks every limit.
func TestMessagesStayWithinVendorLimits(t *testing.T) {
	n, s := bench(t, Config{}, slacktest.Options{})
	seeds := uint64(12)
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 1))
		f := huge(t, r)
		f.Incident.ID = state.IncidentID(fmt.Sprintf("INC-%d", seed))
		told := state.Told{}
		for _, status := range []state.Status{state.StatusOpen, state.StatusMitigating, state.StatusResolved} {
			f.Incident.Status = status
			m := notify.Compose(f)
			ref, err := n.Show(t.Context(), m, told, true)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			told.Ref = ref
			if status == state.StatusOpen && m.URL != "" && len(m.URL) < limitURL &&
				!strings.Contains(string(s.Messages()[seed].Blocks), "Shortened") {
				t.Errorf("seed %d: nothing says that it was shortened", seed)
			}
		}
	}
	if s.Calls("chat.postMessage") > 3*int(seeds) {
		t.Errorf("%d posts: a message needed its shortest form", s.Calls("chat.postMessage"))
	}
}

// huge returns an incident that exceeds every limit.
func huge(t *testing.T, r *rand.Rand) notify.Facts {
	f := fresh(t)
	alphabets := []string{"x", "wörter ", "漢字", "😀", "a b\n", "<&>", "\u202e\x00z"}
	text := func() string {
		return strings.Repeat(alphabets[r.IntN(len(alphabets))], 1+r.IntN(10000))
	}
	many := func(n int) (out []string) {
		for range n {
			out = append(out, fmt.Sprint(r.IntN(1e9))+text())
		}
		return out
	}
	in := &f.Incident
	in.Title, in.Scope.Pods, in.Scope.Nodes, in.Scope.Pool = "title "+text(), many(50), many(50), text()
	in.Symptoms = nil
	for i := range 500 {
		in.Symptoms = append(in.Symptoms, state.SymptomCount{Symptom: state.Symptom(fmt.Sprint(i, text()[:1])), Alerts: i})
	}
	in.AckedBy = &state.Actor{Name: text()}
	if r.IntN(2) == 0 {
		in.AckedAt = in.StartedAt
	}
	in.Diagnosis.Story = state.Story{What: text(), Why: text(), Else: text(), Time: text(), Do: many(30), Avoid: many(30)}
	in.Diagnosis.Cause = state.Cause(text()[:1] + strings.Repeat("c", 300))
	for range 100 {
		in.Diagnosis.Findings = append(in.Diagnosis.Findings, state.Finding{Signal: text(), Text: text(), Weight: r.Float64() * 1e6})
	}
	f.Actions = nil
	for i := range 40 {
		a := state.Action{
			ID: state.ActionID(fmt.Sprintf("ACT-%d", i)), PlanHash: "h", Change: text(), Why: text(), Command: text(), Reason: text(),
			Approvers: []string{"U1"},
			State: []state.ActionState{state.AwaitingApproval, state.Proposed, state.Verifying, state.Succeeded,
				state.NeedsHuman}[r.IntN(5)],
			Target: state.Target{Name: text()},
		}
		for range 20 {
			a.Guards = append(a.Guards, state.GuardResult{Guard: text(), Decision: state.Deny, Reason: text()})
		}
		f.Actions = append(f.Actions, a)
	}
	f.Timeline = nil
	for i := range r.IntN(700) {
		f.Timeline = append(f.Timeline, state.Entry{N: i + 1, Text: text(), Actor: state.Actor{Name: text()}})
	}
	f.Playbook.Title, f.Playbook.Escalate, f.Incident.Diagnosis.Story.Do = text(), text(), many(20)
	for range 30 {
		f.Playbook.Checks = append(f.Playbook.Checks, notify.Check{Ask: text(), Answer: text(), State: "bad"})
	}
	if r.IntN(4) == 0 {
		f.Links.Base = "https://example.com/" + strings.Repeat("p", 4000)
	}
	for i := range 8 {
		s := f.Evidence.Samples[0]
		s.Entity.Pod = fmt.Sprint(text(), i)
		f.Evidence.Samples = append(f.Evidence.Samples, s)
	}
	return f
}

// A run that a person called off is not shown as about to start. A run that was called off too late
// shows that.
func TestCallToStopIsShown(t *testing.T) {
	for at, want := range map[state.ActionState]string{
		state.Intent:  "being cancelled|called off by asha: Paramedic writes nothing more, unless the write is already on its way",
		state.Applied: "applied, Paramedic verifies it|called off by asha too late",
	} {
		n, s := bench(t, Config{}, slacktest.Options{})
		f := fresh(t)
		f.Actions[0].State, f.Actions[0].Steps, f.Actions[0].Journal = at, []state.ActionStep{{State: at}},
			map[string]string{state.CalledOff: "asha"}
		if _, err := n.Show(t.Context(), notify.Compose(f), state.Told{}, true); err != nil {
			t.Fatal(err)
		}
		blocks := string(s.Messages()[0].Blocks)
		for _, words := range strings.Split(want, "|") {
			if !strings.Contains(blocks, words) || strings.Contains(blocks, "about to start") {
				t.Errorf("%s: %q is not in %s", at, words, blocks)
			}
		}
	}
}

// An approved run may wait for hours until a freeze window ends. It is not shown as about to start.
func TestHeldRunIsShownAsHeld(t *testing.T) {
	waits := state.GuardResult{Guard: "approval", Decision: state.Hold, Reason: "waits for approval"}
	freeze := state.GuardResult{Guard: "freeze_window", Decision: state.Hold, Reason: "freeze window night until 07:00"}
	for want, guards := range map[string][]state.GuardResult{
		"approved, about to start":   {waits},
		"approved, a guard holds it": {waits, freeze},
	} {
		n, s := bench(t, Config{}, slacktest.Options{})
		f := fresh(t)
		f.Actions[0].State, f.Actions[0].Guards = state.Approved, guards
		if _, err := n.Show(t.Context(), notify.Compose(f), state.Told{}, true); err != nil {
			t.Fatal(err)
		}
		blocks := string(s.Messages()[0].Blocks)
		if !strings.Contains(blocks, want) || strings.Contains(blocks, "waits for approval") {
			t.Errorf("%q is not in %s", want, blocks)
		}
	}
}

// If no Slack user may approve, there is no button that could only be refused.
func TestButtonsWithoutEffectAreNotShown(t *testing.T) {
	n, s := bench(t, Config{}, slacktest.Options{})
	f := fresh(t)
	f.Actions[0].Approvers = nil
	if _, err := n.Show(t.Context(), notify.Compose(f), state.Told{}, true); err != nil {
		t.Fatal(err)
	}
	m := s.Messages()[0]
	if len(m.Buttons(ActionApprove)) != 0 || !strings.Contains(string(m.Blocks), "paramedic approve ACT-01") {
		t.Errorf("%s", m.Blocks)
	}
}

// The buttons are shown if any Slack user may approve, by a policy or by the tokens file.
func TestApproveButtonNeedsASlackApprover(t *testing.T) {
	for _, c := range []struct {
		approvers []string
		want      int
	}{{nil, 1}, {[]string{"U1"}, 1}, {[]string{"ana"}, 0}} {
		n, s := bench(t, Config{}, slacktest.Options{})
		n.opt.Approves = func(approvers []string) bool { return !slices.Contains(approvers, "ana") }
		f := fresh(t)
		f.Actions[0].Approvers = c.approvers
		if _, err := n.Show(t.Context(), notify.Compose(f), state.Told{}, true); err != nil {
			t.Fatal(err)
		}
		m := s.Messages()[0]
		if got := len(m.Buttons(ActionApprove)); got != c.want ||
			c.want == strings.Count(string(m.Blocks), "paramedic approve ACT-01 abc123") {
			t.Errorf("%v: %d buttons in %s", c.approvers, got, m.Blocks)
		}
	}
}

func FuzzReplies(f *testing.F) {
	for _, seed := range []string{`{"ok":true,"channel":"C1","ts":"1.2"}`, `{"ok":false,"error":"x"}`, `{"ok":true}`, `null`, `[]`, `{"ok":true,"messages":[{"metadata":{"event_payload":{"to":3}}}]}`, "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		n, s := bench(t, Config{}, slacktest.Options{}, "chat.", "conversations.")
		s.Inject(slacktest.Fault{Kind: slacktest.Garbage, Text: body, Times: 6})
		ref, err := n.Show(t.Context(), notify.Compose(fresh(t)), state.Told{}, false)
		if err == nil && ref["ts"] == "" {
			t.Errorf("%q: neither an error nor a message", body)
		}
	})
}
