package rules

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"paramedic/state"
)

// Where one thing is not measured, a case's cause may become unknown. It may not become another: that would be a guess. So each case is
// asked again without each of its signals.
func TestNoCauseIsNamedForAnotherBecauseASignalIsMissing(t *testing.T) {
	c := mustLoad(t)
	files, err := filepath.Glob("testdata/cases/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	asked := 0
	for _, file := range files {
		for _, k := range playedCase(t, c, file) {
			for _, signal := range k.signals() {
				asked++
				was, now := k.in.Diagnosis.Cause, c.Diagnose(k.in, k.without(signal), caseTime).Cause
				if now == was || now == state.Unknown {
					continue
				}
				t.Errorf("%s without %s: %s is called %s", k.name, signal, was, now)
			}
		}
	}
	t.Logf("asked %d times", asked)
}

// A caseIncident is an incident of a case that has a named cause, with the case's evidence.
type caseIncident struct {
	name string
	in   *state.Incident
	ev   state.Evidence
}

func playedCase(t *testing.T, c *Catalog, file string) []caseIncident {
	t.Helper()
	ar, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	k := caseRun{cat: c, dir: filepath.Dir(file), result: &CaseResult{}, short: map[string]state.Worker{}}
	k.run(ar)
	var out []caseIncident
	for _, in := range k.result.Incidents {
		if in.Diagnosis.Cause != state.Unknown {
			out = append(out, caseIncident{name: strings.TrimSuffix(filepath.Base(file), ".txtar"), in: in, ev: k.ev})
		}
	}
	return out
}

// signals are what the case has measured; what all comes from the gauge of the last Xid is one.
func (k caseIncident) signals() []string {
	names := map[string]bool{}
	for _, s := range k.ev.Samples {
		names[exporters(s.Signal)] = true
	}
	return slices.Sorted(maps.Keys(names))
}

func exporters(signal string) string {
	if strings.HasPrefix(signal, "gpu_xid") {
		return "gpu_xid"
	}
	return signal
}

func (k caseIncident) without(signal string) *state.Evidence {
	ev := k.ev
	ev.Samples = slices.DeleteFunc(slices.Clone(ev.Samples), func(s state.Sample) bool { return exporters(s.Signal) == signal })
	ev.Missing = append(slices.Clone(ev.Missing), state.Missing{Signal: signal, Reason: "no series"})
	return &ev
}

func TestWhatIsNotMeasuredAndTellsLookAlikesApartIsNamed(t *testing.T) {
	c := mustLoad(t)
	k := playedCase(t, c, "testdata/cases/retry_storm_short_timeout.txtar")[0]
	d := c.Diagnose(k.in, k.without("abort_rate"), caseTime)
	if d.Cause != state.Unknown || len(d.Alternatives) < 2 || d.Alternatives[0].Cause != "traffic_surge" || d.Alternatives[1].Cause != "retry_storm" {
		t.Fatalf("%s: %+v", d.Cause, d.Alternatives)
	}
	if d.Alternatives[0].Confidence != d.Alternatives[1].Confidence {
		t.Errorf("odds are %g and %g", d.Alternatives[0].Confidence, d.Alternatives[1].Confidence)
	}
	for _, want := range []string{"It may as well be retry_storm", "was not measured, or not before it began (abort_rate)"} {
		if !strings.Contains(d.Story.Why, want) {
			t.Errorf("no %q in %q", want, d.Story.Why)
		}
	}
	if do := fmt.Sprint(d.Story.Do); !strings.Contains(do, "aborts account for them") || !strings.Contains(do, "(retry_storm)") {
		t.Errorf("it does not say how they are told apart: %s", do)
	}
}
