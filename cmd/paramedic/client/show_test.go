package client

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"paramedic/internal/text"
	"paramedic/state"
	"paramedic/webhook/api"
)

func says(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("it does not say %q:\n%s", w, text)
		}
	}
}

// The terminal shows no less than the card of the console notifier.
func TestIncidentShowPrintsFirstAid(t *testing.T) {
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	var out bytes.Buffer
	Print(&out, api.IncidentJSON{Number: 7, Title: "KV cache exhausted", Status: state.StatusOpen, Severity: state.Critical,
		Cause: "kv_exhaustion", Confidence: 1,
		Scope: state.Scope{Cluster: "prod", Namespace: "llm", Pool: "vllm",
			Pods: []string{"a", "b", "c", "d", "e"}}, AlertCount: 3, ActiveAlerts: 2, OpenedAt: &at, Playbook: "kv_exhaustion",
		Story: api.StoryJSON{What: "The cache is full.", Why: "Usage is 98 %.", Else: "Next is kv_leak.",
			Time: "queue 60 % of a request: queue_saturation, from 40 traces.", Do: []string{"Lower max_num_seqs.",
				"Scale out."}, Avoid: []string{"Restarting all."}}})
	want := `#7 KV cache exhausted
open  critical  kv_exhaustion  99 % sure

where    llm/vllm, cluster prod, pods a b c d and 1 more
opened   Nov 21 03:00:00 UTC
alerts   3, 2 still firing
what     The cache is full.
why      Usage is 98 %.
or else  Next is kv_leak.
time     queue 60 % of a request: queue_saturation, from 40 traces.
do now   1. Lower max_num_seqs.
         2. Scale out.
do not   Restarting all.
playbook paramedic playbooks show kv_exhaustion
`
	if got := out.String(); !strings.HasPrefix(got, want) {
		t.Errorf("it shows\n%s\nwant\n%s", got, want)
	}
}

// An action that needs a person names the command that closes it.
func TestIncidentShowNamesTheClosingCommand(t *testing.T) {
	var out bytes.Buffer
	Print(&out, api.IncidentJSON{Actions: []api.ActionJSON{{ID: "ACT-1", State: state.NeedsHuman, NeedsPerson: true},
		{ID: "ACT-2", State: state.NeedsHuman, ReleasedBy: "ada"}}})
	says(t, out.String(), "if you have taken care of it: paramedic cancel ACT-1", "taken care of by ada")
}

func TestIncidentShowPrintsActionResults(t *testing.T) {
	var out bytes.Buffer
	Print(&out, api.IncidentJSON{Actions: []api.ActionJSON{
		{ID: "ACT-1", State: state.Verifying, Change: "max_num_seqs 256 → 128",
			CalledOff: "called off by asha too late: Paramedic has already written, and verifies the change as usual"},
		{ID: "ACT-2", State: state.Denied, Change: "restart pod llm/a", Reason: "stopped before the write: called off by asha"}}})
	says(t, out.String(), "verifying  max_num_seqs 256 → 128\n    called off by asha too late: Paramedic has already written, and verifies "+
		"the change as usual\n",
		"denied  restart pod llm/a\n    stopped before the write: called off by asha\n")
}

// A resolved incident begins with what helped. Its advice no longer says "do now".
func TestResolvedIncidentBeginsWithWhatHelped(t *testing.T) {
	var out bytes.Buffer
	Print(&out, api.IncidentJSON{Status: state.StatusResolved, Story: api.StoryJSON{Do: []string{"Scale out."}, Avoid: []string{"Restarting."}},
		Actions: []api.ActionJSON{{Change: "restart pod llm/a", State: state.RolledBack, Reason: "worse"},
			{Change: "max_num_seqs 256 → 64", State: state.Succeeded, Reason: "better: kv_usage 99 % → 57 %, preemption_rate 4/s → 0/s"}}})
	says(t, out.String(), "outcome  max_num_seqs 256 → 64 succeeded: KV cache in use 99 % → 57 %, preemptions 4/s → 0/s; restart pod llm/a rolled back: worse\n",
		"advice   1. Scale out.\n", "warning  Restarting.\n")
}

// Control characters and characters that reorder a line are never printed.
func TestTerminalOutputHasNoControlCharacters(t *testing.T) {
	const evil = "pod-\u202Eexe.\u2066gpj\x1b[31m\u061C"
	var out bytes.Buffer
	Print(&out, api.IncidentJSON{Title: evil, Scope: state.Scope{Pods: []string{evil}},
		Story:    api.StoryJSON{What: evil, Do: []string{evil}},
		Evidence: []api.EvidenceJSON{{Text: evil, Why: evil}}, Actions: []api.ActionJSON{{Change: evil, Reason: evil}}})
	if got := out.String(); strings.ContainsFunc(got, text.Hidden) || strings.Contains(got, "\x1b") ||
		strings.Count(got, "pod-exe.gpj") < 6 {
		t.Errorf("%q", got)
	}
}

// Every time on the terminal has its zone.
func TestTimesSayTheirZone(t *testing.T) {
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.FixedZone("CET", 3600))
	var out bytes.Buffer
	Print(&out, api.IncidentJSON{OpenedAt: &at, AckedAt: &at, SilencedUntil: &at, ResolvedAt: &at, Status: state.StatusOpen})
	said, err := silenced([]byte(`{"silenced_until":"2026-11-21T03:00:00+01:00"}`))
	if err != nil {
		t.Fatal(err)
	}
	text := out.String() + said
	times := regexp.MustCompile(`\d\d:\d\d:\d\d\S*`).FindAllStringIndex(text, -1)
	if len(times) != 5 {
		t.Errorf("%d times in\n%s", len(times), text)
	}
	for _, i := range times {
		if !strings.HasPrefix(text[i[0]:], "02:00:00 UTC") {
			t.Errorf("without its zone: %.30s", text[i[0]:])
		}
	}
}
