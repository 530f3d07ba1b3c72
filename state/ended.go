package state

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
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

// EndText returns how an incident ended, and what helped: "Resolved after 19 min. Lowering
// max_num_seqs 256 → 64 helped: preemptions 1.6/s → 0/s." It is empty for an incident that is open
// or was merged. title returns the title of a signal.
func EndText(in *Incident, actions []Action, title func(signal string) string) string {
	if in.ResolvedAt.IsZero() || in.MergedInto != "" {
		return ""
	}
	out := "Resolved after " + FormatTook(in.ResolvedAt.Sub(in.StartedAt))
	byAlerts := in.ResolvedBy == "" || in.ResolvedBy == "alerts"
	if !byAlerts {
		out += " by " + in.ResolvedBy
	}
	did := Effects(actions, title)
	switch {
	case did != "":
	case byAlerts:
		did = "The alerts ended; Paramedic took no action."
	default:
		did = "Paramedic took no action."
	}
	return out + ". " + did
}

// Effects returns what Paramedic changed and whether each change helped, those that helped first.
// It is empty if Paramedic wrote nothing.
func Effects(actions []Action, title func(signal string) string) string {
	var parts []string
	for _, helped := range []bool{true, false} {
		for i := range actions {
			if s := actions[i].effect(title); s != "" && (actions[i].State == Succeeded) == helped {
				parts = append(parts, s)
			}
		}
	}
	return strings.Join(parts, " ")
}

// effect returns what a run changed and whether it helped. It is empty for a run that wrote
// nothing.
func (a *Action) effect(title func(string) string) string {
	if !a.Wrote() {
		return ""
	}
	handled := ""
	if by := a.Journal[Released]; by != "" {
		handled = " " + by + " took care of it."
	}
	switch change := a.firstChange(title); {
	case a.State == Succeeded && change != "":
		return capital(a.Doing()) + " helped: " + change + "."
	case a.State == Succeeded:
		return capital(a.Doing()) + " helped."
	case a.State == RolledBack:
		return "Paramedic tried " + a.Doing() + ", and rolled it back."
	}
	return "It is not known whether " + a.Doing() + " helped." + handled
}

// Wrote reports whether the run changed its target. A run that needs a person may have done so.
func (a *Action) Wrote() bool {
	switch a.State {
	case Succeeded, RolledBack, NeedsHuman:
		return true
	}
	return a.Reached(Applied) || !a.State.Known()
}

// Doing returns the change as a subject: "lowering max_num_seqs 256 → 64", "restarting pod llm/x".
func (a *Action) Doing() string {
	from, errFrom := strconv.ParseFloat(a.Params["from"], 64)
	to, errTo := strconv.ParseFloat(a.Params["to"], 64)
	switch rest, restart := strings.CutPrefix(a.Change, "restart "); {
	case restart:
		return "restarting " + rest
	case errFrom != nil || errTo != nil:
	case to < from:
		return "lowering " + a.Change
	case to > from:
		return "raising " + a.Change
	}
	return "the change “" + a.Change + "”"
}

// firstChange returns the change of the signal that the verdict rests on most: "preemptions 1.6/s →
// 0/s". The verdict's text begins with it. Older texts have "better: " before it, and the signal's
// ID in place of its title.
func (a *Action) firstChange(title func(string) string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(a.Verify.Text, "better: "), ", ")
	name, values, ok := strings.Cut(first, " ")
	if !ok || !strings.Contains(values, "→") {
		return ""
	}
	if strings.Contains(name, "_") {
		name = title(name)
	}
	return InSentence(name) + " " + values
}

func capital(s string) string {
	first, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[n:]
}
