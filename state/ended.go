package state

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// FormatTook writes how long something took: 40 s, 19 min, 3 h 5 min, 4 days.
func FormatTook(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}

// EndText returns how a resolved incident ended, in the past: how long it took, and the result of
// each action that wrote. It is empty for an open or merged incident.
func EndText(in *Incident, actions []Action, t Titles) string {
	if in.Status != StatusResolved || in.MergedInto != "" {
		return ""
	}
	took := FormatTook(in.ResolvedAt.Sub(in.StartedAt))
	parts := []string{"Resolved after " + took + "."}
	if by := in.ResolvedBy; by != "" && by != "alerts" {
		parts[0] = fmt.Sprintf("%s resolved it after %s.", by, took)
	}
	acted := false
	for _, helped := range []bool{true, false} {
		for i := range actions {
			if a := &actions[i]; a.wrote() && (a.State == Succeeded) == helped {
				acted = true
				parts = append(parts, a.endText(t))
			}
		}
	}
	if !acted {
		parts = append(parts, "Paramedic took no action.")
	}
	return strings.Join(parts, " ")
}

// wrote reports whether the run changed its target, or may have.
func (a *Action) wrote() bool {
	return a.State == Succeeded || a.State == RolledBack || a.State == NeedsHuman || a.Reached(Applied)
}

// endText returns the result of a run that wrote, as a sentence in the past.
func (a *Action) endText(t Titles) string {
	deed, found := a.Deed(), t.Text(strings.TrimPrefix(a.Verify.Text, "better: "))
	switch {
	case a.State == Succeeded && found != "":
		return fmt.Sprintf("%s helped: %s.", deed, strings.TrimSuffix(found, "."))
	case a.State == Succeeded:
		return deed + " helped."
	case a.State == RolledBack:
		return deed + " did not help. Paramedic rolled it back."
	case a.State == Superseded:
		return deed + " was undone from outside."
	case a.State == NeedsHuman && a.Journal[Released] != "":
		return fmt.Sprintf("%s needed a person: %s took care of it.", deed, a.Journal[Released])
	case a.State == NeedsHuman:
		return deed + " needs a person."
	}
	return fmt.Sprintf("%s had no verdict when the incident ended.", deed)
}

// Deed returns the change as the subject of a sentence: "Lowering max_num_seqs 256 → 64",
// "Restarting pod llm/vllm-0".
func (a *Action) Deed() string {
	if what, ok := strings.CutPrefix(a.Change, "restart "); ok {
		return "Restarting " + what
	}
	if before, after, ok := strings.Cut(a.Change, " → "); ok {
		from, err1 := strconv.ParseFloat(before[strings.LastIndex(before, " ")+1:], 64)
		to, err2 := strconv.ParseFloat(after, 64)
		switch {
		case err1 != nil || err2 != nil:
		case to < from:
			return "Lowering " + a.Change
		case to > from:
			return "Raising " + a.Change
		}
	}
	return "The change " + a.Change
}
