package remediate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"

	"paramedic/remediate/cluster"
	"paramedic/remediate/guard"
	"paramedic/state"
)

// Foresee returns the actions that the playbook of an incident's verdict offers, with the answers
// of these guards. It prepares no write. So it also judges a past of which only metrics are left,
// if the guards need nothing else. An action without a target has one answer: that of the plan.
func (p *Planner) Foresee(ctx context.Context, in state.Incident, ev state.Evidence, guards []guard.Guard) []state.Action {
	pb, ok := p.cfg.Playbook(in.Diagnosis)
	if !ok || pb.ID == string(state.Unknown) {
		return nil
	}
	var out []state.Action
	for _, r := range pb.FirstAid {
		kind, ok := actionOf(r.Action)
		if !ok {
			continue // a person's step
		}
		a := state.Action{Form: state.ActionForm, Incident: in.ID, Cause: in.Cause(), Kind: r.Action, State: state.Proposed,
			Params: map[string]string{}, Why: r.Text}
		maps.Copy(a.Params, r.Params)
		var err error
		a.Target, err = kind.target(in, ev, a.Params)
		a.Change = foreseen(&a)
		if err == nil {
			s := p.cfg.survey(ctx, in, &a)
			a.Mode = string(s.Rule.Mode)
			if errors.Is(s.Problem, cluster.ErrNotFound) {
				err = s.Problem
			} else {
				a.Guards = guard.Ask(ctx, s, guards)
			}
		}
		if err != nil {
			a.Guards = []state.GuardResult{{Guard: "plan", Decision: state.Deny, Reason: err.Error(), At: p.cfg.Clock.Now()}}
		}
		out = append(out, a)
	}
	return out
}

// foreseen describes an action whose values are not computed.
func foreseen(a *state.Action) string {
	if a.Kind == restartWorkerKind {
		return fmt.Sprintf("restart pod %s/%s", a.Target.Namespace, cmp.Or(a.Target.Name, "of "+a.Target.Pool))
	}
	return fmt.Sprintf("%s %s of %s", cmp.Or(a.Params["direction"], "set"), a.Params["arg"], a.Target)
}
