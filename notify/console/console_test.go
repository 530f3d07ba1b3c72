package console

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paramedic/internal/text"
	"paramedic/notify"
	"paramedic/notify/notifytest"
	"paramedic/state"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

// The output of an incident from its opening to its end, for a reader who does not know the bot.
func TestIncidentFromOpeningToEnd(t *testing.T) {
	var out bytes.Buffer
	n := New(Options{Out: &out})
	told := state.Told{}
	show := func(f notify.Facts) {
		t.Helper()
		ref, err := n.Show(t.Context(), notify.Compose(f), told, true)
		if err != nil {
			t.Fatal(err)
		}
		told.Ref = ref
	}
	f := notifytest.Facts(t)
	early := f
	early.Incident.Diagnosis, early.Incident.DiagnosedAt, early.Actions, early.Playbook = state.Diagnosis{}, time.Time{}, nil,
		notify.Playbook{}
	early.Timeline = f.Timeline[:1]
	show(early)
	show(f)
	f.Incident.AlertCount++
	show(f) // one more alert changes nothing
	at := f.Incident.OpenedAt.Add(5 * time.Minute)
	f.Timeline = append(f.Timeline, state.Entry{N: 4, At: at, Text: "max_num_seqs 256 → 128: approved by Ada"},
		state.Entry{N: 5, At: at, Text: "for the record", Quiet: true})
	f.Actions[0].State, f.Actions[0].Verify.Text = state.Succeeded, "better: preemption_rate 4.1/s → 0/s"
	f.Incident.Status, f.Incident.ResolvedAt, f.Incident.ResolvedBy = state.StatusResolved, f.Incident.StartedAt.Add(25*time.Minute),
		"alerts"
	show(f)
	const file = "testdata/story.txt"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Error(diff)
	}
}

// A change is one or two lines, without a repetition.
func TestChangeIsOneOrTwoLines(t *testing.T) {
	var out bytes.Buffer
	n := New(Options{Out: &out})
	told := state.Told{}
	show := func(f notify.Facts) string {
		t.Helper()
		out.Reset()
		ref, err := n.Show(t.Context(), notify.Compose(f), told, true)
		if err != nil {
			t.Fatal(err)
		}
		told.Ref = ref
		return out.String()
	}
	f := notifytest.Facts(t)
	offer := f.Actions
	f.Actions = nil
	if card := show(f); strings.Count(card, "\n") > 30 {
		t.Errorf("the first card has %d lines", strings.Count(card, "\n"))
	}
	step := func(text string) {
		f.Timeline = append(f.Timeline,
			state.Entry{N: len(f.Timeline) + 1, At: f.Incident.OpenedAt, Kind: "action", Text: text, Action: "ACT-01"})
	}
	f.Actions = offer
	step("max_num_seqs 256 → 128: awaiting_approval")
	got := show(f)
	if !strings.Contains(got, "$ paramedic approve ACT-01") || strings.Contains(got, "■") || strings.Contains(got, "awaiting_approval") ||
		strings.Count(got, "\n") > 9 {
		t.Errorf("an offer reads:\n%s", got)
	}
	f.Actions[0].State = state.Verifying
	step("max_num_seqs 256 → 128: verifying: the rollout is complete")
	if got := show(f); got != "03:12:20 UTC  #42  max_num_seqs 256 → 128: verifying: the rollout is complete\n" {
		t.Errorf("a step reads:\n%s", got)
	}
	f.Incident.Title = "KV cache exhausted on llama-70b (1 of 4 workers)"
	if got := show(f); strings.Join(strings.Fields(got),
		" ") != "#42 now critical, 93 % sure: KV cache exhausted on llama-70b (1 of 4 workers)" {
		t.Errorf("another title reads:\n%q", got)
	}
	if got := show(f); got != "" {
		t.Errorf("nothing new reads:\n%s", got)
	}
	for l := range strings.SplitSeq(got, "\n") {
		if text.Len(l) > width+2 {
			t.Errorf("too wide: %s", l)
		}
	}
}

func TestAlertTextCannotControlTerminal(t *testing.T) {
	for _, colour := range []bool{false, true} {
		var out bytes.Buffer
		f := notifytest.Facts(t)
		const hostile = "\x1b]0;owned\x07\x1b[2J\u202Ex\r\n"
		f.Incident.Title, f.Incident.Diagnosis.Story.What, f.Timeline[0].Text, f.Actions[0].Command = hostile, hostile, hostile, hostile
		if _, err := New(Options{Out: &out, Colour: colour}).Show(t.Context(), notify.Compose(f), state.Told{}, true); err != nil {
			t.Fatal(err)
		}
		plain := out.String()
		for _, own := range []string{"\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[31;1m"} {
			if !colour && strings.Contains(plain, own) {
				t.Errorf("colour where nobody looks")
			}
			plain = strings.ReplaceAll(plain, own, "")
		}
		if strings.ContainsAny(plain, "\x1b\x07\r\u202e") {
			t.Errorf("control characters in %q", plain)
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("pipe closed") }

func TestClosedPipeIsAnError(t *testing.T) {
	if _, err := New(Options{Out: broken{}}).Show(t.Context(), notify.Compose(notifytest.Facts(t)), state.Told{}, true); err == nil {
		t.Error("no error")
	}
	if Terminal(&bytes.Buffer{}) {
		t.Error("a buffer is no terminal")
	}
}

func TestMergedIncidentNamesItsRoot(t *testing.T) {
	var out bytes.Buffer
	f := notifytest.Facts(t)
	f.Incident.Status, f.Incident.MergedInto, f.Root = state.StatusResolved, "INC-1", &state.Incident{Number: 41, Title: "GPU fault"}
	if _, err := New(Options{Out: &out}).Show(t.Context(), notify.Compose(f), state.Told{}, true); err != nil ||
		!strings.Contains(out.String(), "into #41 GPU fault") {
		t.Errorf("%s, %v", out.String(), err)
	}
}
