package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// A bar is a row of the table: the limit of a measurement, and the measured values.
type bar struct {
	id, what string
	limit    float64
	most     bool   // the limit is the largest good value, else the smallest
	unit     string // of a value that is no ratio

	rounds       []float64
	ours, theirs []float64 // the sides of each ratio
	sides        string    // a format of both
	refused      int       // payloads that were answered with 503
	note         string    // for example, why there is no value
}

// far returns how far the median is from the limit: over 1 it misses the bar. A bar without a value
// is farthest.
func (b *bar) far() float64 {
	switch {
	case len(b.rounds) == 0:
		return math.Inf(1)
	case b.most:
		return median(b.rounds) / b.limit
	default:
		return b.limit / median(b.rounds)
	}
}

func (b *bar) met() string {
	switch {
	case len(b.rounds) == 0:
		return "not measured"
	case b.far() > 1:
		return "**no**"
	default:
		return "yes"
	}
}

// cells returns the row.
func (b *bar) cells() []string {
	limit := "≥ " + b.value(b.limit)
	if b.most {
		limit = "≤ " + b.value(b.limit)
	}
	if len(b.rounds) == 0 {
		return []string{b.what, "–", limit, b.met(), "0", b.note}
	}
	var notes []string
	if len(b.rounds) > 1 {
		notes = append(notes, b.value(slices.Min(b.rounds))+" to "+b.value(slices.Max(b.rounds)))
	}
	if b.sides != "" {
		notes = append(notes, fmt.Sprintf(b.sides, median(b.ours), median(b.theirs)))
	}
	if b.refused > 0 {
		notes = append(notes, fmt.Sprintf("%d payloads refused", b.refused))
	}
	if b.note != "" {
		notes = append(notes, b.note)
	}
	return []string{b.what, b.value(median(b.rounds)), limit, b.met(), fmt.Sprint(len(b.rounds)), strings.Join(notes, "; ")}
}

// value returns a value with its unit, in about three digits.
func (b *bar) value(v float64) string {
	switch {
	case b.unit == "ms":
		return fmt.Sprintf("%.0f ms", v)
	case b.unit != "":
		return fmt.Sprintf("%.1f %s", v, b.unit)
	case v == 1.0/3:
		return "1/3"
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// A table holds the bars by their IDs.
type table []*bar

func (t table) bar(id string) *bar {
	return t[slices.IndexFunc(t, func(b *bar) bool { return b.id == id })]
}

// add adds the value of one round, and the payloads that were refused in it.
func (t table) add(id string, value float64, d delivery) {
	b := t.bar(id)
	b.rounds, b.refused = append(b.rounds, value), b.refused+d.refused
}

// divide adds the ratio of one round.
func (t table) divide(id string, ours, theirs float64, d delivery) {
	b := t.bar(id)
	b.ours, b.theirs = append(b.ours, ours), append(b.theirs, theirs)
	t.add(id, ours/theirs, d)
}

// write writes the table in Markdown, the row that misses its bar most first.
func (t table) write(w io.Writer) {
	rows := slices.Clone(t)
	slices.SortStableFunc(rows, func(a, b *bar) int { return cmp.Compare(b.far(), a.far()) })
	fmt.Fprintln(w, "| measured | median | bar | met | rounds | lowest to highest; both sides |")
	fmt.Fprintln(w, "| --- | ---: | ---: | --- | ---: | --- |")
	for _, b := range rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(b.cells(), " | "))
	}
}

// median returns the median, which is between two values if their number is even.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
