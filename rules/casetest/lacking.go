package casetest

import (
	"iter"
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
		whole, read := measured(ev), readBy(c, in.Diagnosis.Cause)
		ids := slices.Compact(slices.Sorted(slices.Values(whole.signals)))
		for i, a := range ids {
			if !yield(a, whole.without(nil, a)) || !yield(a+".baseline", whole.withoutPast(a)) {
				return
			}
			if len(broken) > 0 && !c.EngineSignals()[a] && !yield(a+" of the broken", whole.without(broken, a)) {
				return
			}
			for _, b := range ids[i+1:] {
				if pairs && read[a] && read[b] && !yield(a+" and "+b, whole.without(nil, a, b)) {
					return
				}
			}
		}
	}
}

// A measurement is the evidence with the signal of each sample. Signals from the gauge of the last
// Xid count as one.
type measurement struct {
	ev      *state.Evidence
	signals []string
}

func measured(ev *state.Evidence) measurement {
	m := measurement{ev, make([]string, len(ev.Samples))}
	for i, s := range ev.Samples {
		m.signals[i] = exporters(s.Signal)
	}
	return m
}

func exporters(signal string) string {
	if strings.HasPrefix(signal, "gpu_xid") {
		return "gpu_xid"
	}
	return signal
}

// without returns the evidence without samples of signals: of the given workers and nodes, or of
// all if none are given.
func (m measurement) without(of []string, signals ...string) *state.Evidence {
	ev, left := *m.ev, map[string]bool{}
	ev.Samples = make([]state.Sample, 0, len(m.ev.Samples))
	for i := range m.ev.Samples {
		s := &m.ev.Samples[i]
		if slices.Contains(signals, m.signals[i]) {
			if of == nil || slices.Contains(of, s.Entity.Pod) || slices.Contains(of, s.Entity.Node) {
				continue
			}
			left[m.signals[i]] = true
		}
		ev.Samples = append(ev.Samples, *s)
	}
	ev.Missing = slices.Clone(ev.Missing)
	for _, signal := range signals {
		if !left[signal] {
			ev.Missing = append(ev.Missing, state.Missing{Signal: signal, Reason: "no series"})
		}
	}
	return &ev
}

// withoutPast returns the evidence without the past values of a signal.
func (m measurement) withoutPast(signal string) *state.Evidence {
	ev := *m.ev
	ev.Samples = slices.Clone(ev.Samples)
	for i := range ev.Samples {
		if m.signals[i] == signal {
			s := &ev.Samples[i]
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
