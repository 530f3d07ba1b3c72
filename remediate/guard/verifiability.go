package guard

import (
	"context"
	"errors"
	"slices"

	"paramedic/remediate/cluster"
	"paramedic/remediate/verify"
)

// verifiability allows if each leading signal has a baseline, the write can be undone, and the API
// server would accept it.
func verifiability(ctx context.Context, s *Scene) verdict {
	w, err := s.Kind.Write(s, "check")
	if err != nil {
		return deny("Paramedic cannot prepare the write: %v", err)
	}
	if w.Inverse == "" {
		return deny("the write has no rollback")
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
		return deny("no fresh value or no baseline of %s: verification could not see whether the symptoms end",
			s.Site.Titles.List(unread))
	}
	if !shows {
		return deny("none of the action's metrics supports the verdict, so none would show an improvement (%s)",
			s.Site.Titles.List(verify.Signals(metrics)))
	}
	if !s.Rule.Mode.Writes() {
		return allow("the baseline has %s; the rollback is prepared; no dry run, because mode %s only reads",
			s.Site.Titles.List(have), s.Rule.Mode)
	}
	if err := s.Kind.DryRun(ctx, s, w); err != nil {
		switch {
		case errors.Is(err, cluster.ErrForbidden):
			return deny("Paramedic's service account lacks a permission: apply the namespaced Role for first aid (%v)", err)
		case errors.Is(err, cluster.ErrBlocked):
			return hold(s.Now.Add(s.Site.Timing.Poll), "Kubernetes refuses a dry run of the eviction now: %v", err)
		}
		return deny("the dry run failed: %v", err)
	}
	return allow("the baseline has %s; the rollback is prepared; the dry run passed", s.Site.Titles.List(have))
}
