package guard

import (
	"slices"
	"time"

	"paramedic/remediate/verify"
	"paramedic/state"
)

// reading returns the action's metrics as they are now, before the write.
func (s *Scene) Reading() map[string]float64 {
	return s.Measure(s.Action.Target.Name, s.Now.Add(-s.Rule.EvidenceAge).UnixNano())
}

// baseline returns the median of each signal over the window before the write. It omits a signal
// that half of the readings lack. A plan has no window yet, so it gets the present reading.
func (s *Scene) Baseline() map[string]float64 {
	if len(s.Action.Verify.Before) == 0 {
		return s.Reading()
	}
	out := map[string]float64{}
	for k, v := range s.Action.Verify.Before {
		if 2*len(v) > s.Site.Timing.Readings() {
			out[k] = verify.Median(v)
		}
	}
	return out
}

// observe takes one reading of the window before the write, and reports whether more are to come.
// A pause as long as the window begins it anew. If nothing can be read it reports false, because
// the guards then say why.
func (s *Scene) Observe(due time.Time) bool {
	v, t := &s.Action.Verify, s.Site.Timing
	if !due.IsZero() && s.Now.Sub(due) > time.Duration(t.Readings())*t.Interval {
		v.Before = nil
	}
	got := s.Reading()
	if !verify.Informative(s.Kind.Metrics(), s.Action, got) {
		return false
	}
	verify.Keep(&v.Before, got)
	most := 0
	for _, r := range v.Before {
		most = max(most, len(r))
	}
	return most < t.Readings()
}

// leading returns the signals that have to get better for a success: those that the verdict rests
// on, and those that the remedy is there to end. Any other signal may get better while the trouble
// goes on.
func (s *Scene) Leading(base map[string]float64) []string {
	var out []string
	for _, m := range verify.Applying(s.Kind.Metrics(), s.Action) {
		if m.Better == 0 {
			continue
		}
		v, ok := base[m.Signal]
		if m.Ends && v > m.Noise || s.restsOn(m, v, ok) {
			out = append(out, m.Signal)
		}
	}
	return out
}

// restsOn reports whether the verdict rests on a metric. A finding that was over before the write
// does not count: no remedy can improve it.
func (s *Scene) restsOn(m verify.Metric, base float64, known bool) bool {
	return slices.ContainsFunc(s.Incident.Diagnosis.Findings, func(f state.Finding) bool {
		if f.Weight <= 0 || !f.Measured() {
			return false
		}
		if f.Signal == m.Signal {
			return !known || f.Baseline == nil || holds(f, base)
		}
		return slices.Contains(m.Also, f.Signal) || slices.Contains(f.Reads, m.Signal)
	})
}
