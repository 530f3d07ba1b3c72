package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paramedic/state"
)

func TestMissingEvidenceIsGroupedByReason(t *testing.T) {
	none := "the cluster default has no Prometheus, engines or Kubernetes configured"
	var missing []string
	for i := range 23 {
		name := fmt.Sprintf("signal_%d", i)
		if i == 0 {
			name = "container_memory"
		}
		missing = append(missing, fmt.Sprintf("%s (%s)", name, none))
	}
	missing = append(missing, "kv_usage (no baseline)", "gpu_xid", "up (Prometheus: bad_data (query 1))", "gpu_temp")
	want := []string{
		"27 signals missing: 23 " + none + ", 2 no data, 1 no baseline, 1 Prometheus: bad_data (query 1)",
	}
	if diff := cmp.Diff(want, state.Diagnosis{Missing: missing}.MissingLines(state.Titles{})); diff != "" {
		t.Error(diff)
	}
	if got := (state.Diagnosis{}).MissingLines(state.Titles{}); len(got) != 0 {
		t.Errorf("nothing is missing, and it says %q", got)
	}
}

func TestSurenessIsNeverCertainty(t *testing.T) {
	if got := Sureness("kv_leak", 0.934); got != "93 %" {
		t.Errorf("a named cause is %q sure", got)
	}
	if got := Sureness("kv_leak", 1); got != "99 %" {
		t.Errorf("it is certain: %q", got)
	}
}

// A root cause that was found later takes over the acknowledgement of its part.
func TestReportHasNoNegativeTimes(t *testing.T) {
	in := state.Incident{ID: "INC-1", Number: 8, StartedAt: start, OpenedAt: start.Add(6 * time.Minute), AlertCount: 12,
		NamedAt: start.Add(7 * time.Minute), AckedAt: start.Add(2 * time.Minute), AckedBy: &state.Actor{ID: "ana", Name: "ana"}}
	out := Report(Case{Incident: in}, start.Add(time.Hour))
	if strings.Contains(out, "-4m0s") || !strings.Contains(out, "acknowledged a part of it") || !strings.Contains(out, "1m0s after it noticed") {
		t.Error(out)
	}
}

// A sentence of the report is whole with and without a part that may be absent.
func TestReportSentencesAreWhole(t *testing.T) {
	ana := state.Actor{ID: "ana", Name: "ana"}
	in := state.Incident{ID: "INC-1", Number: 8, StartedAt: start, OpenedAt: start, DiagnosedAt: start, AlertCount: 1, ActiveAlerts: 1,
		Feedback: []state.Feedback{{Actor: ana}, {Actor: ana, Cause: "kv_leak"}, {Actor: ana, Cause: "kv_leak", Reason: "seen *before*"}}}
	out := Report(Case{Incident: in}, start.Add(time.Hour))
	for _, want := range []string{"- **Alerts:** 1, 1 fires now\n", "- **Cause named:** not yet\n", "- ana reported a wrong diagnosis\n",
		"diagnosis; the cause was `kv_leak`\n", "the cause was `kv_leak`: seen \\*before\\*\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	in.ResolvedAt, in.Status, in.ActiveAlerts = start.Add(time.Minute), state.StatusResolved, 0
	if out := Report(Case{Incident: in}, start.Add(time.Hour)); strings.Contains(out, "not yet") {
		t.Errorf("something of a resolved incident is to come:\n%s", out)
	}
}
