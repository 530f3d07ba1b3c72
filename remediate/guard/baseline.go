package guard

import (
	"slices"
	"time"

	"paramedic/remediate/verify"
	"paramedic/state"
)

// Reading returns the action's metrics as they are now, before the write.
func (s *Scene) Reading() map[string]float64 {
	return s.Measure(s.Action.Target.Name, s.Now.Add(-s.Rule.EvidenceAge).UnixNano())
}

// Baseline returns the median of each signal over the window before the write. It omits a signal
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

// Observe takes one reading of the window before the write, and reports whether more are due. A
// pause as long as the window starts the window again. If nothing can be read it reports false,
// because the guards then return the reason.
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

// Leading returns the signals that have to get better for a success: those that support the
// verdict, and those that the remedy has to end. Any other signal may get better while the symptoms
// continue.
func (s *Scene) Leading(base map[string]float64) []string {
	var out []string
	for _, m := range verify.Applying(s.Kind.Metrics(), s.Action) {
		if m.Better == 0 {
			continue
		}
		v, ok := base[m.Signal]
		if m.MustEnd && v > m.Noise || s.restsOn(m, v, ok) {
			out = append(out, m.Signal)
		}
	}
	return out
}

// restsOn reports whether a metric supports the verdict. A finding that was over before the write
// does not count, because no remedy can improve it.
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
