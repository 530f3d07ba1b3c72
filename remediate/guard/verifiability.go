package guard

import (
	"context"
	"errors"
	"slices"
	"strings"

	"paramedic/remediate/cluster"
	"paramedic/remediate/verify"
)

// verifiability allows if each leading signal has a baseline, the write can be undone, and the API
// server would accept it.
func verifiability(ctx context.Context, s *Scene) verdict {
	w, err := s.Kind.Write(s, "check")
	if err != nil {
		return deny("the write cannot be prepared: %v", err)
	}
	if w.Inverse == "" {
		return deny("there is no way back")
	}
	now, base := s.Reading(), s.Baseline()
	leading := s.Leading(base)
	shows := false // a leading signal other than a guardrail can be read
	var have, unread []string
	metrics := verify.Applying(s.Kind.Metrics(), s.Action)
	for _, m := range metrics {
		_, readable := now[m.Signal]
		_, before := base[m.Signal]
		leads := slices.Contains(leading, m.Signal)
		switch {
		case readable && before:
			have = append(have, m.Signal)
			shows = shows || leads && !m.Guardrail
		case leads:
			unread = append(unread, m.Signal)
		}
	}
	if len(unread) > 0 {
		return deny("%s cannot be read now: without it a success could not be told from trouble that goes on",
			strings.Join(unread, ", "))
	}
	if !shows {
		return deny("nothing that the verdict rests on would show an improvement (%s)",
			strings.Join(verify.Signals(metrics), ", "))
	}
	if !s.Rule.Mode.Writes() {
		return allow("baseline of %s; the way back is known; no dry run, for mode %s only reads",
			strings.Join(have, ", "), s.Rule.Mode)
	}
	if err := s.Kind.DryRun(ctx, s, w); err != nil {
		switch {
		case errors.Is(err, cluster.ErrForbidden):
			return deny("the service account may not do this: apply the namespaced Role for first aid (%v)", err)
		case errors.Is(err, cluster.ErrBlocked):
			return hold(s.Now.Add(s.Site.Timing.Poll), "a dry run of the eviction is refused now: %v", err)
		}
		return deny("a dry run failed: %v", err)
	}
	return allow("baseline of %s; the way back is known; the dry run passed", strings.Join(have, ", "))
}
