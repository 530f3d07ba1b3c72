package playbooks

import (
	"slices"
	"strings"
	"time"

	"paramedic/rules/treatment"
	"paramedic/state"
)

// Treatments returns the treatments of the step: those of its action, or else those that its text
// names.
func (r Remedy) Treatments() []string {
	switch r.Action {
	case ActionSetEngineArg:
		return treatment.Whole([]string{treatment.OfArgument(r.Params["direction"], r.Params["arg"])})
	case ActionRestartWorker:
		return []string{treatment.Restart}
	}
	return treatment.Whole(treatment.In(r.Text))
}

// HeldBack returns the cautions about this remedy.
func (r Remedy) HeldBack(all []state.Caution) []state.Caution {
	does := r.Treatments()
	return slices.DeleteFunc(slices.Clone(all), func(c state.Caution) bool { return !treatment.Held(does, c.Treatment, false) })
}

// heldBack returns the steps, each with what holds it back, and the cautions about their
// treatments.
func heldBack(steps []string, does map[string][]string, all []state.Caution) ([]string, []state.Caution) {
	out := slices.Clone(steps)
	cordons := slices.ContainsFunc(steps, func(step string) bool { return slices.Contains(does[step], treatment.Cordon) })
	var used []state.Caution
	for i, step := range steps {
		var until time.Time
		var causes []string
		for _, c := range all {
			// Paramedic's own restarts do not cordon, so their guard has to know this caution.
			if slices.Contains(does[step], c.Treatment) && !slices.Contains(used, c) {
				used = append(used, c)
			}
			if !treatment.Held(does[step], c.Treatment, cordons) {
				continue
			}
			if c.Until.After(until) {
				until = c.Until
			}
			if c.Cause != "" {
				causes = append(causes, withSign(c))
			}
		}
		if first := condition(until, slices.Compact(causes)); first != "" {
			out[i] = first + ": " + state.InSentence(step)
		}
	}
	return out, used
}

// withSign names a caution's cause and what to look for.
func withSign(c state.Caution) string {
	if c.Sign == "" {
		return c.Cause.Words()
	}
	return c.Cause.Words() + " (" + c.Sign + ")"
}

// condition returns the words that a step with cautions begins with, or "".
func condition(until time.Time, causes []string) string {
	var out []string
	if !until.IsZero() {
		out = append(out, "not before "+until.UTC().Format("15:04 UTC")+", if the verdict still stands")
	}
	if len(causes) > 0 {
		out = append(out, "only after ruling out "+strings.Join(causes, " and ")+", which it makes worse")
	}
	s := strings.Join(out, "; ")
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
