package web

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"paramedic/state"
)

// The kinds of moments. Each has its own colour.
const (
	onsetKind   = "onset"
	alertKind   = "alert" // a notch at the foot of a chart
	verdictKind = "verdict"
	writeKind   = "write"
	endKind     = "end"
)

// A Mark is a moment of an incident in every chart.
type Mark struct {
	At   time.Time
	Text string // in a chart: one word
	Kind string
	Long string // beside the charts: a sentence
}

// moments returns the moments of an incident that its charts show, in order.
func (h *Handler) moments(in state.Incident, actions []actionCard) []Mark {
	out := []Mark{{At: in.StartedAt, Text: "onset", Kind: onsetKind, Long: "the first alert began"}}
	for _, s := range in.Symptoms {
		out = append(out, Mark{At: s.First, Text: h.symptomTitle(s.Symptom), Kind: alertKind})
	}
	switch {
	case !in.NamedAt.IsZero():
		out = append(out, Mark{At: in.NamedAt, Text: "verdict", Kind: verdictKind,
			Long: spaced(string(in.Cause()))})
	case !in.DiagnosedAt.IsZero():
		out = append(out, Mark{At: in.DiagnosedAt, Text: "verdict", Kind: verdictKind, Long: "no cause stands out"})
	}
	for _, a := range actions {
		for _, step := range a.Steps {
			m := Mark{At: step.At, Long: a.Change}
			switch step.State {
			case state.Applied:
				m.Text, m.Kind = "write", writeKind
			case state.Succeeded:
				m.Text, m.Kind = "verified", endKind
			case state.RolledBack:
				m.Text, m.Kind = "rolled back", writeKind
			case state.NeedsHuman:
				m.Text, m.Kind = "handed over", endKind
			default:
				continue
			}
			out = append(out, m)
		}
	}
	if !in.ResolvedAt.IsZero() {
		out = append(out, Mark{At: in.ResolvedAt, Text: "resolved", Kind: endKind, Long: resolvedBy(in)})
	}
	slices.SortStableFunc(out, func(a, b Mark) int { return a.At.Compare(b.At) })
	return out
}

// resolvedBy returns who or what ended an incident.
func resolvedBy(in state.Incident) string {
	switch in.ResolvedBy {
	case "", "alerts":
		return "no alert fires"
	case "merge":
		return "merged into another incident"
	}
	return "by " + in.ResolvedBy
}

// Told reports whether a moment is listed beside the charts. Alerts are listed with the symptoms.
func (m Mark) Told() bool { return m.Kind != alertKind }

const (
	markRows  = 3
	markRow   = 11.5 // a row's height
	markWidth = 5.6  // width of a letter, at most
	markNear  = 3.0  // closer moments share a label
)

// A label is the text of one moment, or of several that are too close for two labels.
type label struct {
	x, left, right float64
	row            int
	text, kind     string
}

// marks draws the chart's moments: a line through the plot with a word above it, and alerts as
// notches.
func (c Chart) marks(s *strings.Builder, b bounds, x func(time.Time) float64) {
	foot := padT + plotH
	var labels []label
	for _, m := range c.Marks {
		if m.At.Before(b.from) || m.At.After(b.to) {
			continue
		}
		at, title := x(m.At), template.HTMLEscapeString(fmt.Sprintf("%s %s", m.At.UTC().Format("15:04:05"),
			cmp.Or(m.Text+": "+m.Long, m.Text)))
		if m.Kind == alertKind {
			fmt.Fprintf(s, `<path class="mark %s" d="M%.1f %.1fl3.5 6h-7z"><title>%s</title></path>`,
				alertKind, at, foot, title)
			continue
		}
		fmt.Fprintf(s, `<line class="mark %s" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"><title>%s</title></line>`,
			m.Kind, at, at, padT-2, foot, title)
		if n := len(labels); n > 0 && at-labels[n-1].x < markNear {
			labels[n-1].text += " · " + m.Text
			continue
		}
		labels = append(labels, label{x: at, text: m.Text, kind: m.Kind})
	}
	for _, l := range placeLabels(labels) {
		fmt.Fprintf(s, `<text class="mark-text %s" x="%.1f" y="%.1f">%s</text>`,
			l.kind, l.left, padT-6-markRow*float64(l.row), template.HTMLEscapeString(l.text))
	}
}

// placeLabels finds room for labels above the plot. It drops a label without room; the list beside
// the charts has it.
func placeLabels(labels []label) []label {
	var out []label
	end := [markRows]float64{}
	for _, l := range labels {
		width := float64(len([]rune(l.text))) * markWidth
		l.left = min(max(l.x-width/2, padL), chartW-width-2)
		l.right = l.left + width
		for l.row = 0; l.row < markRows && l.left < end[l.row]; l.row++ {
		}
		if l.row < markRows {
			end[l.row] = l.right + 6
			out = append(out, l)
		}
	}
	return out
}
