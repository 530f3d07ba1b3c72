package remediate

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// verifiability allows a write that has a baseline to compare with and a known way back, and that the
// API server would take.
func verifiability(ctx context.Context, s *scene) verdict {
	w, err := s.kind.write(s, "check")
	if err != nil {
		return deny("the write cannot be prepared: %v", err)
	}
	if w.Inverse == "" {
		return deny("there is no way back")
	}
	base := s.baseline()
	var have, lacks []string
	verifiable := false
	for _, m := range s.kind.metrics() {
		if !m.applies(s.act) { // one signal may be watched for two things, of which one applies
			continue
		}
		_, ok := base[m.signal]
		switch {
		case ok && !slices.Contains(have, m.signal):
			have = append(have, m.signal)
		case !ok && !m.guardrail:
			lacks = append(lacks, m.signal)
		}
		verifiable = verifiable || ok && !m.guardrail
	}
	if !verifiable {
		return deny("nothing that would show an improvement can be read now (%s)", strings.Join(lacks, ", "))
	}
	if !s.rule.mode.Writes() {
		return allow("baseline of %s; the way back is known; no dry run, for mode %s only reads", strings.Join(have, ", "), s.rule.mode)
	}
	if err := s.kind.dryRun(ctx, s, w); err != nil {
		switch {
		case errors.Is(err, ErrForbidden):
			return deny("the service account may not do this: apply the namespaced Role for first aid (%v)", err)
		case errors.Is(err, ErrBlocked):
			return hold(s.now.Add(s.cfg.Timing.Poll), "a dry run of the eviction is refused now: %v", err)
		}
		return deny("a dry run failed: %v", err)
	}
	return allow("baseline of %s; the way back is known; the dry run passed", strings.Join(have, ", "))
}

func names(ms []metric) []string {
	out := make([]string, 0, len(ms))
	for _, m := range ms {
		if !slices.Contains(out, m.signal) {
			out = append(out, m.signal)
		}
	}
	return out
}
