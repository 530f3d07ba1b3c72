package rules

import (
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/tools/txtar"

	"paramedic/state"
)

// Where something is not measured, a case's cause may become unknown. It may not become another:
// that would be a guess. So each case is asked again without each of its signals, without what each
// was before, without each two that its cause or a look-alike reads, and without what exporters
// tell of the workers that are broken.
func TestNoCauseIsNamedForAnotherBecauseSignalsAreMissing(t *testing.T) {
	known := map[string]string{
		// What is left looks like the other in every respect, with nothing that would ask for what
		// is missing.
		"bad_rollout_failures_are_empty_answers without error_rate and refusal_ratio":  "quality_regression",
		"gpu_underutilization_callers_come_again without cpu_throttled and gpu_util":   "retry_storm",
		"kv_exhaustion_evicts_prefixes without output_length_mean and preemption_rate": "traffic_surge",
		"gpu_memory_leak_before_the_error without gpu_fb_changes of the broken":        "cuda_oom",
		"gpu_memory_leak_before_the_error without gpu_fb_low of the broken":            "cuda_oom",
		"gpu_memory_leak_before_the_error without gpu_fb_slope of the broken":          "cuda_oom",
		"gpu_memory_leak_before_the_error without gpu_fb_used of the broken":           "cuda_oom",
		"oom_killed_late_root without container_memory_limit of the broken":            "kv_exhaustion",
		"oom_killed_late_root without container_memory_peak of the broken":             "kv_exhaustion",
		"oom_killed_late_root without pod_restarts of the broken":                      "kv_exhaustion",
		"concurrency_cap_on_two without max_num_seqs of the broken":                    "traffic_surge",
		"gpu_throttle_by_expression without gpu_util of the broken":                    "benign_alert",
		"cold_start_decoy_bad_gpu without gpu_xid of the broken":                       "cold_start",
		"cuda_oom_decoy_xid without gpu_xid of the broken":                             "cuda_oom",
		"monitoring_gap_beside_an_old_xid without up of the broken":                    "benign_alert",
	}
	c := MustLoad(t)
	files, err := filepath.Glob("testdata/cases/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	var asked atomic.Int64
	t.Run("cases", func(t *testing.T) {
		for _, file := range files {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
				t.Parallel()
				for _, k := range playedCase(t, c, file) {
					for what, ev := range k.lacking(c) {
						asked.Add(1)
						was, now := k.in.Diagnosis.Cause, c.Diagnose(k.in, ev, Now).Cause
						try := k.name + " without " + what
						if wrong := now != was && now != state.Unknown; wrong && known[try] != string(now) {
							t.Errorf("%s: %s is called %s", try, was, now)
						} else if !wrong && known[try] != "" {
							t.Errorf("%s: no longer called %s; take it off the list", try, known[try])
						}
					}
				}
			})
		}
	})
	t.Logf("asked %d times", asked.Load())
}

// A caseIncident is an incident of a case that has a named cause, with the case's evidence.
type caseIncident struct {
	name string
	in   *state.Incident
	ev   state.Evidence
}

// playedIncident is a case's first incident, which may have no named cause.
func playedIncident(t *testing.T, c *Catalog, file string) caseIncident {
	t.Helper()
	k := runCase(t, c, file)
	return caseIncident{name: strings.TrimSuffix(filepath.Base(file), ".txtar"), in: k.result.Incidents[0], ev: k.ev}
}

func playedCase(t *testing.T, c *Catalog, file string) []caseIncident {
	t.Helper()
	k := runCase(t, c, file)
	var out []caseIncident
	for _, in := range k.result.Incidents {
		if in.Diagnosis.Cause != state.Unknown {
			out = append(out, caseIncident{name: strings.TrimSuffix(filepath.Base(file), ".txtar"), in: in, ev: k.ev})
		}
	}
	return out
}

func runCase(t *testing.T, c *Catalog, file string) *caseRun {
	t.Helper()
	ar, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	k := &caseRun{cat: c, dir: filepath.Dir(file), result: &CaseResult{}, short: map[string]state.Worker{}}
	k.run(ar)
	return k
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

// without leaves out what is said of signals, of some workers and machines, or where none are given
// of all.
func (k caseIncident) without(of []string, signals ...string) *state.Evidence {
	ev := k.ev
	gone := func(s state.Sample) bool {
		return slices.Contains(signals, exporters(s.Signal)) && (of == nil || slices.Contains(of, s.Entity.Pod) || slices.Contains(of, s.Entity.Node))
	}
	ev.Samples, ev.Missing = slices.DeleteFunc(slices.Clone(ev.Samples), gone), slices.Clone(ev.Missing)
	for _, signal := range signals {
		if !slices.ContainsFunc(ev.Samples, func(s state.Sample) bool { return exporters(s.Signal) == signal }) {
			ev.Missing = append(ev.Missing, state.Missing{Signal: signal, Reason: "no series"})
		}
	}
	return &ev
}

// withoutPast leaves out what a signal was before.
func (k caseIncident) withoutPast(signal string) *state.Evidence {
	ev := k.ev
	ev.Samples = slices.Clone(ev.Samples)
	for i := range ev.Samples {
		if s := &ev.Samples[i]; exporters(s.Signal) == signal {
			s.Baseline, s.DayAgo, s.WeekAgo = nil, nil, nil
		}
	}
	return &ev
}

// lacking are the case's evidence with something missing, by what that is.
func (k caseIncident) lacking(c *Catalog) iter.Seq2[string, *state.Evidence] {
	return func(yield func(string, *state.Evidence) bool) {
		broken := slices.Concat(k.in.Diagnosis.Scope.Pods, k.in.Diagnosis.Scope.Nodes)
		signals, read := k.signals(), c.readBy(k.in.Diagnosis.Cause)
		for i, a := range signals {
			if !yield(a, k.without(nil, a)) || !yield(a+".baseline", k.withoutPast(a)) {
				return
			}
			if len(broken) > 0 && !c.engines[a] && !yield(a+" of the broken", k.without(broken, a)) {
				return
			}
			for _, b := range signals[i+1:] {
				if !testing.Short() && read[a] && read[b] && !yield(a+" and "+b, k.without(nil, a, b)) {
					return
				}
			}
		}
	}
}

// readBy are the signals that a cause's evidence, or that of its look-alikes, asks for.
func (c *Catalog) readBy(cause state.Cause) map[string]bool {
	read := map[string]bool{}
	for _, other := range c.causes {
		if other.ID != cause && !slices.ContainsFunc(other.LookAlikes, func(l LookAlike) bool { return l.Cause == cause }) {
			continue
		}
		for _, e := range other.Evidence {
			for _, x := range []*expression{e.when, e.unless} {
				if x != nil {
					for _, id := range x.signals {
						read[exporters(id)] = true
					}
				}
			}
		}
	}
	return read
}

func TestWhatIsNotMeasuredAndTellsLookAlikesApartIsNamed(t *testing.T) {
	c := MustLoad(t)
	k := playedCase(t, c, "testdata/cases/retry_storm_short_timeout.txtar")[0]
	d := c.Diagnose(k.in, k.without(nil, "abort_rate"), Now)
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
