package client

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"paramedic/cmd/paramedic/printing"
	"paramedic/cmd/paramedic/service"
	"paramedic/internal/text"
	"paramedic/state"
	"paramedic/webhook/api"
)

// longestTitle is the length of titles in tables.
const longestTitle = 80

// called returns the name of an incident. A bot of an older version sends its number only.
func called(in api.IncidentJSON) string { return cmp.Or(in.Name, fmt.Sprintf("#%d", in.Number)) }

// Print prints an incident for people.
func Print(out io.Writer, in api.IncidentJSON) {
	w := printing.People{Writer: out}
	fmt.Fprintf(w, "%s %s\n%s  %s  %s  %s\n\n", called(in), in.Title, in.Status, in.Severity, in.Cause,
		cmp.Or(in.Likely.Words(), printing.Sure(in.Cause, in.Confidence)))
	row := func(label, text string) {
		if text != "" {
			fmt.Fprintf(w, "%-8s %s\n", label, text)
		}
	}
	over := in.Status == state.StatusResolved
	if over {
		row("outcome", outcome(in))
	}
	row("where", place(in.Scope))
	row("opened", happened(in))
	row("alerts", fmt.Sprintf("%d, %d still firing", in.AlertCount, in.ActiveAlerts))
	printing.Story(w, "", state.Story(in.Story), over)
	if in.Playbook != "" {
		row("playbook", "paramedic playbooks show "+in.Playbook)
	}
	fmt.Fprintln(w)
	for _, e := range in.Evidence {
		printing.Finding(w, e.Weight, e.Text, e.Why)
	}
	for _, m := range (state.Diagnosis{Missing: in.MissingEvidence}).MissingLines(service.BuiltInTitles()) {
		fmt.Fprintf(w, "  missing   %s\n", m)
	}
	printing.Chain(w, in.Chain)
	printing.Usual(w, in.Anomalies, in.Correlations)
	for _, s := range in.Symptoms {
		fmt.Fprintf(w, "\n  symptom: %s, %s", service.BuiltInTitles().Symptom(s.Symptom), text.Count(s.Alerts, "alert"))
	}
	fmt.Fprintln(w)
	for _, a := range in.Actions {
		fmt.Fprintf(w, "\n  %s  %s  %s\n", a.ID, a.State.Words(), a.Change)
		for _, text := range []string{a.CalledOff, a.Reason} {
			if text != "" {
				fmt.Fprintf(w, "    %s\n", service.BuiltInTitles().Text(text))
			}
		}
		for _, g := range a.Guards {
			fmt.Fprintf(w, "    %-14s %-6s %s\n", g.Guard, g.Decision, service.BuiltInTitles().Text(g.Reason))
		}
		switch {
		case a.State == state.AwaitingApproval:
			fmt.Fprintf(w, "    paramedic approve %s %s\n", a.ID, state.ShortPlan(a.PlanHash))
		case a.NeedsPerson:
			fmt.Fprintf(w, "    if you have taken care of it: paramedic cancel %s\n", a.ID)
		case a.ReleasedBy != "":
			fmt.Fprintf(w, "    taken care of by %s\n", a.ReleasedBy)
		}
	}
}

// outcome returns what helped in a resolved incident, and then the other actions that wrote. It is
// empty if there are none.
func outcome(in api.IncidentJSON) string {
	var helped, others []string
	for _, a := range in.Actions {
		text := a.Change + " " + a.State.Words()
		if a.Reason != "" {
			text += ": " + service.BuiltInTitles().Text(strings.TrimPrefix(a.Reason, "better: "))
		}
		switch a.State {
		case state.Succeeded:
			helped = append(helped, text)
		case state.RolledBack, state.Superseded, state.NeedsHuman:
			others = append(others, text)
		}
	}
	return strings.Join(append(helped, others...), "; ")
}

// place returns the place of an incident, from the cluster to the pods.
func place(s state.Scope) string {
	var parts []string
	switch {
	case s.Pool != "":
		parts = append(parts, strings.Trim(s.Namespace+"/"+s.Pool, "/"))
	case s.Namespace != "":
		parts = append(parts, "namespace "+s.Namespace)
	}
	for _, p := range []struct{ name, value string }{{"model", s.Model}, {"cluster", s.Cluster},
		{"pods", printing.FirstNames(s.Pods, 4, " ")}, {"nodes", printing.FirstNames(s.Nodes, 4, " ")},
		{"GPUs", printing.FirstNames(s.GPUs, 4, " ")}} {
		if p.value != "" {
			parts = append(parts, p.name+" "+p.value)
		}
	}
	return strings.Join(parts, ", ")
}

// happened returns the history of an incident, with times.
func happened(in api.IncidentJSON) string {
	text := opened(in.OpenedAt)
	if in.AckedAt != nil {
		text += ", acknowledged " + opened(in.AckedAt) + " by " + cmp.Or(in.AckedBy, "an unknown person")
	}
	if in.SilencedUntil != nil {
		text += ", silenced until " + opened(in.SilencedUntil)
	}
	if in.MergedInto != "" {
		text += ", merged into " + string(in.MergedInto)
	}
	if in.ResolvedAt != nil {
		text += ", resolved " + opened(in.ResolvedAt)
	}
	return text
}

// These functions return the state after a command as a sentence.

func acknowledged(answer []byte) (string, error) {
	var in api.IncidentJSON
	err := json.Unmarshal(answer, &in)
	return fmt.Sprintf("%s is acknowledged by %s: %s", called(in), cmp.Or(in.AckedBy, "you"), in.Title), err
}

func silenced(answer []byte) (string, error) {
	var in api.IncidentJSON
	err := json.Unmarshal(answer, &in)
	return fmt.Sprintf("%s sends no notifications until %s, unless it gets more severe: %s", called(in),
		opened(in.SilencedUntil), in.Title), err
}

func decidedOn(answer []byte) (string, error) {
	var a api.ActionJSON
	err := json.Unmarshal(answer, &a)
	text := fmt.Sprintf("%s is %s: %s", a.ID, a.State.Words(), a.Change)
	if a.DecidedBy != "" {
		text += ", decided by " + a.DecidedBy
	}
	return text, err
}

func cancelled(answer []byte) (string, error) {
	var a api.ActionJSON
	err := json.Unmarshal(answer, &a)
	if a.ReleasedBy != "" {
		return fmt.Sprintf("%s is taken care of by %s: %s", a.ID, a.ReleasedBy, a.Change), err
	}
	return fmt.Sprintf("%s is %s: %s", a.ID, a.State.Words(), a.Change), err
}

func haltedNow(answer []byte) (string, error) {
	var h api.HaltJSON
	err := json.Unmarshal(answer, &h)
	where := strings.Join(h.Clusters, ", ")
	if h.Halted {
		return fmt.Sprintf("first aid is halted in %s. `paramedic resume` allows it again", where), err
	}
	return fmt.Sprintf("first aid is allowed again in %s", where), err
}
