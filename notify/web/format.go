package web

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"

	"paramedic/state"
)

func (h *Handler) funcs() template.FuncMap {
	return template.FuncMap{
		"ago":       func(t time.Time) string { return ago(h.now(), t) },
		"iso":       func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"clock":     func(t time.Time) string { return t.UTC().Format("15:04:05") },
		"minute":    func(t time.Time) string { return t.UTC().Format("15:04") },
		"date":      func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
		"value":     state.FormatValue,
		"deref":     func(p *float64) float64 { return *p },
		"signed":    signed,
		"pct":       state.FormatShare,
		"words":     func(s any) string { return spaced(fmt.Sprint(s)) },
		"signal":    h.signalTitle,
		"unit":      func(signal string) string { return h.cfg.Units[strings.TrimPrefix(signal, peerPrefix)] },
		"short":     shortPod,
		"name":      h.name,
		"plural":    plural,
		"where":     where,
		"span":      span,
		"bar":       bar,
		"join":      strings.Join,
		"inc":       func(i int) int { return i + 1 },
		"card":      func(a actionCard, f frame) cardFrame { return cardFrame{a, f} },
		"checkname": checkName,
		"told":      h.told,
		"prose":     h.prose,
		"symptom":   h.symptomTitle,
		"run":       runWords,
		"plan":      state.ShortPlan,
		"actor":     func(a state.Actor) string { return a.String() },
	}
}

// checkName returns the title of a check of a pool's health.
func checkName(id string) string {
	switch id {
	case "gpu":
		return "GPU"
	case "kv_cache":
		return "KV cache"
	case "latency":
		return "Latency"
	case "errors":
		return "Errors"
	case "queue":
		return "Queue"
	case "error_budget":
		return "Error budget"
	case "workers":
		return "Workers"
	}
	return spaced(id)
}

// runWords returns the state of a run in words.
func runWords(s state.ActionState) string {
	switch s {
	case state.Intent:
		return "about to write"
	case state.Applied:
		return "written"
	case state.RollbackIntent:
		return "about to roll back"
	case state.NeedsHuman:
		return "needs a person"
	}
	return spaced(string(s))
}

// cardFrame holds the data of the template of an action's card.
type cardFrame struct {
	Card  actionCard
	Frame frame
}

// ago returns a time relative to now, in one unit.
func ago(now, t time.Time) string {
	d := now.Sub(t)
	if d < 0 {
		return "in " + span(-d)
	}
	if d < 5*time.Second {
		return "just now"
	}
	return span(d) + " ago"
}

func span(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Round(time.Second).Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + one + "s"
}

func signed(v float64) string {
	s := strconv.FormatFloat(math.Abs(v), 'f', 1, 64)
	switch {
	case s == "0.0":
		return "0.0"
	case v < 0:
		return "−" + s
	}
	return "+" + s
}

// shortPod returns the part of a pod's name that differs from its siblings.
func shortPod(pod, pool string) string {
	if pool == "" {
		return pod
	}
	rest, ok := strings.CutPrefix(pod, pool+"-")
	if !ok || rest == "" {
		return pod
	}
	if i := strings.LastIndexByte(rest, '-'); i >= 0 && i+1 < len(rest) {
		rest = rest[i+1:]
	}
	return "…" + rest
}

// where returns an incident's scope in a line.
func where(s state.Scope) string {
	var parts []string
	for _, p := range []string{s.Model, s.Pool} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	if s.Namespace != "" {
		parts = append(parts, "namespace "+s.Namespace)
	}
	if s.Cluster != "" {
		parts = append(parts, "cluster "+s.Cluster)
	}
	if len(parts) == 0 {
		return "scope not known"
	}
	return strings.Join(parts, " · ")
}
