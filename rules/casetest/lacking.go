package casetest

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"paramedic/rules/catalog"
	"paramedic/rules/condition"
	"paramedic/state"
)

// Lacking yields a diagnosed incident's evidence with a part missing, and the name of that part:
// each signal, the past of each signal, and each signal of the broken workers and nodes that is not
// the engine's. With pairs, it also yields the evidence without each two signals that the cause or
// a look-alike reads.
func Lacking(c *catalog.Catalog, in *state.Incident, ev *state.Evidence, pairs bool) iter.Seq2[string, *state.Evidence] {
	return func(yield func(string, *state.Evidence) bool) {
		broken := slices.Concat(in.Diagnosis.Scope.Pods, in.Diagnosis.Scope.Nodes)
		ids, read := measured(ev), readBy(c, in.Diagnosis.Cause)
		for i, a := range ids {
			if !yield(a, without(ev, nil, a)) || !yield(a+".baseline", withoutPast(ev, a)) {
				return
			}
			if len(broken) > 0 && !c.EngineSignals()[a] && !yield(a+" of the broken", without(ev, broken, a)) {
				return
			}
			for _, b := range ids[i+1:] {
				if pairs && read[a] && read[b] && !yield(a+" and "+b, without(ev, nil, a, b)) {
					return
				}
			}
		}
	}
}

// measured returns the measured signals. Signals from the gauge of the last Xid count as one.
func measured(ev *state.Evidence) []string {
	names := map[string]bool{}
	for _, s := range ev.Samples {
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

// without removes samples of signals: of the given workers and nodes, or of all if none are given.
func without(from *state.Evidence, of []string, ids ...string) *state.Evidence {
	ev := *from
	gone := func(s state.Sample) bool {
		return slices.Contains(ids, exporters(s.Signal)) &&
			(of == nil || slices.Contains(of, s.Entity.Pod) || slices.Contains(of, s.Entity.Node))
	}
	ev.Samples, ev.Missing = slices.DeleteFunc(slices.Clone(ev.Samples), gone), slices.Clone(ev.Missing)
	for _, signal := range ids {
		if !slices.ContainsFunc(ev.Samples, func(s state.Sample) bool { return exporters(s.Signal) == signal }) {
			ev.Missing = append(ev.Missing, state.Missing{Signal: signal, Reason: "no series"})
		}
	}
	return &ev
}

// withoutPast removes the past values of a signal.
func withoutPast(from *state.Evidence, signal string) *state.Evidence {
	ev := *from
	ev.Samples = slices.Clone(ev.Samples)
	for i := range ev.Samples {
		if s := &ev.Samples[i]; exporters(s.Signal) == signal {
			s.Baseline, s.DayAgo, s.WeekAgo = nil, nil, nil
		}
	}
	return &ev
}

// readBy returns the signals that the evidence of a cause or its look-alikes reads.
func readBy(c *catalog.Catalog, cause state.Cause) map[string]bool {
	read := map[string]bool{}
	for _, other := range c.Causes() {
		if other.ID != cause && !slices.ContainsFunc(other.LookAlikes, func(l catalog.LookAlike) bool { return l.Cause == cause }) {
			continue
		}
		for _, e := range other.Evidence {
			for _, x := range []*condition.Expression{e.Condition, e.Exception} {
				if x != nil {
					for _, id := range x.Signals {
						read[exporters(id)] = true
					}
				}
			}
		}
	}
	return read
}
