package remediate

import (
	"slices"
	"time"

	"paramedic/state"
)

// reading returns the action's metrics as they are now, before the write.
func (s *scene) reading() map[string]float64 {
	return s.measure(s.act.Target.Name, s.now.Add(-s.rule.EvidenceAge).UnixNano())
}

// baseline returns the median of each signal over the window before the write. It omits a signal
// that half of the readings lack. A plan has no window yet, so it gets the present reading.
func (s *scene) baseline() map[string]float64 {
	if len(s.act.Verify.Before) == 0 {
		return s.reading()
	}
	out := map[string]float64{}
	for k, v := range s.act.Verify.Before {
		if 2*len(v) > s.site.Timing.readings() {
			out[k] = median(v)
		}
	}
	return out
}

// observe takes one reading of the window before the write, and reports whether more are to come.
// A pause as long as the window begins it anew. If nothing can be read it reports false, because
// the guards then say why.
func (s *scene) observe(due time.Time) bool {
	v, t := &s.act.Verify, s.site.Timing
	if !due.IsZero() && s.now.Sub(due) > time.Duration(t.readings())*t.Interval {
		v.Before = nil
	}
	got := s.reading()
	if !informative(s.kind.Metrics(), s.act, got) {
		return false
	}
	keep(&v.Before, got)
	most := 0
	for _, r := range v.Before {
		most = max(most, len(r))
	}
	return most < t.readings()
}

// leading returns the signals that have to get better for a success: those that the verdict rests
// on, and those that the remedy is there to end. Any other signal may get better while the trouble
// goes on.
func (s *scene) leading(base map[string]float64) []string {
	var out []string
	for _, m := range applying(s.kind.Metrics(), s.act) {
		if m.better == 0 {
			continue
		}
		v, ok := base[m.signal]
		if m.ends && v > m.noise || s.restsOn(m, v, ok) {
			out = append(out, m.signal)
		}
	}
	return out
}

// restsOn reports whether the verdict rests on a metric. A finding that was over before the write
// does not count: no remedy can improve it.
func (s *scene) restsOn(m metric, base float64, known bool) bool {
	return slices.ContainsFunc(s.in.Diagnosis.Findings, func(f state.Finding) bool {
		if f.Weight <= 0 || !f.Measured() {
			return false
		}
		if f.Signal == m.signal {
			return !known || f.Baseline == nil || holds(f, base)
		}
		return slices.Contains(m.also, f.Signal) || slices.Contains(f.Reads, m.signal)
	})
}
