package notify

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"paramedic/state"
)

// Outcome returns how an incident ended, and what helped: "Resolved after 19 min. Lowering
// max_num_seqs 256 → 64 helped: preemptions 1.6/s → 0/s." It is empty for an incident that is open
// or was merged. title returns the title of a signal.
func Outcome(in *state.Incident, actions []state.Action, title func(signal string) string) string {
	if in.ResolvedAt.IsZero() || in.MergedInto != "" {
		return ""
	}
	out := "Resolved after " + Took(in.ResolvedAt.Sub(in.StartedAt))
	byAlerts := in.ResolvedBy == "" || in.ResolvedBy == "alerts"
	if !byAlerts {
		out += " by " + in.ResolvedBy
	}
	parts := []string{out + "."}
	for i := range actions {
		if s := effect(&actions[i], title); s != "" {
			parts = append(parts, s)
		}
	}
	switch {
	case len(parts) > 1:
	case byAlerts:
		parts = append(parts, "The alerts ended; Paramedic took no action.")
	default:
		parts = append(parts, "Paramedic took no action.")
	}
	return line(strings.Join(parts, " "), maxText)
}

// effect returns what a run changed and whether it helped. It is empty for a run that wrote
// nothing. A run that needs a person may have written.
func effect(a *state.Action, title func(string) string) string {
	handled := ""
	if by := a.Journal[state.Released]; by != "" {
		handled = " " + by + " took care of it."
	}
	switch m := firstChange(a, title); {
	case a.State == state.Succeeded && m != "":
		return upper(Doing(a)) + " helped: " + m + "."
	case a.State == state.Succeeded:
		return upper(Doing(a)) + " helped."
	case a.State == state.RolledBack:
		return "Paramedic tried " + Doing(a) + ", and rolled it back."
	case a.Reached(state.Applied), a.State == state.NeedsHuman, !a.State.Known():
		return "It is not known whether " + Doing(a) + " helped." + handled
	}
	return ""
}

// Doing returns an action's change as a subject: "lowering max_num_seqs 256 → 64", "restarting pod
// llm/x".
func Doing(a *state.Action) string {
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
// 0/s". The verdict's text has it, with the medians that decided.
func firstChange(a *state.Action, title func(string) string) string {
	_, changes, ok := strings.Cut(a.Verify.Text, ": ")
	if !ok {
		return ""
	}
	first, _, _ := strings.Cut(changes, ", ")
	id, values, ok := strings.Cut(first, " ")
	if !ok || !strings.Contains(values, "→") {
		return ""
	}
	return Lower(title(id)) + " " + values
}

// Lower returns a title for the middle of a sentence. An abbreviation, such as KV, keeps its
// capitals.
func Lower(s string) string {
	first, n := utf8.DecodeRuneInString(s)
	second, _ := utf8.DecodeRuneInString(s[n:])
	if unicode.IsUpper(second) || unicode.IsDigit(second) {
		return s
	}
	return string(unicode.ToLower(first)) + s[n:]
}

func upper(s string) string {
	first, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[n:]
}
