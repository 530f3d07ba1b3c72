package remediate

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// verifiability allows if each leading signal has a baseline, the way back is known, and the API
// server would take the writes.
func verifiability(ctx context.Context, s *scene) verdict {
	w, err := s.kind.Write(s, "check")
	if err != nil {
		return deny("the write cannot be prepared: %v", err)
	}
	if w.Inverse == "" {
		return deny("there is no way back")
	}
	now, base := s.reading(), s.baseline()
	leading := s.leading(base)
	shows := false // a leading signal that is no guardrail can be read
	var have, unread []string
	metrics := applying(s.kind.Metrics(), s.act)
	for _, m := range metrics {
		_, readable := now[m.signal]
		_, before := base[m.signal]
		leads := slices.Contains(leading, m.signal)
		switch {
		case readable && before:
			have = append(have, m.signal)
			shows = shows || leads && !m.guardrail
		case leads:
			unread = append(unread, m.signal)
		}
	}
	if len(unread) > 0 {
		return deny("%s cannot be read now: without it a success could not be told from trouble that goes on",
			strings.Join(unread, ", "))
	}
	if !shows {
		return deny("nothing that the verdict rests on would show an improvement (%s)",
			strings.Join(names(metrics), ", "))
	}
	if !s.rule.mode.Writes() {
		return allow("baseline of %s; the way back is known; no dry run, for mode %s only reads", strings.Join(have, ", "), s.rule.mode)
	}
	if err := s.kind.DryRun(ctx, s, w); err != nil {
		switch {
		case errors.Is(err, ErrForbidden):
			return deny("the service account may not do this: apply the namespaced Role for first aid (%v)", err)
		case errors.Is(err, ErrBlocked):
			return hold(s.now.Add(s.site.Timing.Poll), "a dry run of the eviction is refused now: %v", err)
		}
		return deny("a dry run failed: %v", err)
	}
	return allow("baseline of %s; the way back is known; the dry run passed", strings.Join(have, ", "))
}
