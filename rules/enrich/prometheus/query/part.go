package query

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"paramedic/rules/signals"
)

// marker is the label that identifies the parts of a union.
const marker = "paramedic_part"

// A part is one expression of a union, and the members that read its series. A quotient has one
// expression for each sum.
type part struct {
	mark    string
	exprs   []string
	from    *Member // the member of the expressions
	members []*Member
}

// divisorMark follows the mark of a part on the series of its divisor; each further counter of the
// divisor has one more.
const divisorMark = "/"

// timeMark follows a part's mark on the series with the scrape times.
const timeMark = "@"

// parts returns the fewest expressions that give all members. Their marks are numbers. So they are
// unique within a query, and a query does not depend on those for other moments.
func parts(members []*Member) []part {
	var out []part
	at := map[string]int{}
	for _, m := range members {
		from := m
		if m.pods != nil && slices.Contains(members, m.pods) {
			from = m.pods
		}
		key := from.Reads()
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, part{mark: strconv.Itoa(i), exprs: from.exprs(), from: from})
		}
		out[i].members = append(out[i].members, m)
	}
	return out
}

// labelled returns the part's expressions with marks, so that no two in a union share a series. For
// a timed query, the last one gives the scrape times.
func (p part) labelled(timed bool) []string {
	out := make([]string, len(p.exprs))
	for i, expr := range p.exprs {
		out[i] = marked(expr, p.mark+strings.Repeat(divisorMark, i))
	}
	if timed {
		out = append(out, marked(p.from.scraped(), p.mark+timeMark))
	}
	return out
}

// marked adds a mark to the series of an expression.
func marked(expr, mark string) string {
	return fmt.Sprintf(`label_replace(%s, "%s", "%s", "", "")`, expr, marker, mark)
}

// cost returns the relative cost of a part for Prometheus, in metrics with one series for each
// entity. tools/evidence measured it for 64 workers.
func (p part) cost() int {
	switch s := p.members[0].Source; s.Fn {
	case signals.FnQuantile, signals.FnRise, signals.FnRollout:
		return 8
	case signals.FnRest, signals.FnFlow, signals.FnMin, signals.FnTotal, signals.FnExcess:
		return 3
	case signals.FnRatio, signals.FnMean:
		return 2 + len(s.With)
	}
	return 1
}

// spread divides parts over at most n unions of about the same cost.
func spread(ps []part, n int) [][]part {
	dearest := slices.Clone(ps)
	slices.SortStableFunc(dearest, func(a, b part) int { return b.cost() - a.cost() })
	unions := make([][]part, min(n, len(ps)))
	costs := make([]int, len(unions))
	for _, p := range dearest {
		i := slices.Index(costs, slices.Min(costs))
		unions[i], costs[i] = append(unions[i], p), costs[i]+p.cost()
	}
	return unions
}

// unionOf returns the union of expressions that share no series. Prometheus scans all series on the
// left for every "or", so a balanced tree is much cheaper than a chain.
func unionOf(exprs []string) string {
	if len(exprs) <= 2 {
		return strings.Join(exprs, "\nor\n")
	}
	half := len(exprs) / 2
	return "(" + unionOf(exprs[:half]) + ")\nor\n(" + unionOf(exprs[half:]) + ")"
}

// scraped returns the PromQL for the scrape time of the member's values, in seconds. For several
// series it is the oldest time, because a value is not newer than its oldest part.
func (m *Member) scraped() string {
	b := builder{sig: m.Signal, src: m.Source, by: strings.Join(m.labels(), ", ")}
	var out []string
	for _, b.matchers = range m.filter.matchers(m.Source, m.Signal.Per) {
		for _, sel := range b.timed() {
			out = append(out, b.agg("min", "timestamp("+sel+")"))
		}
	}
	return strings.Join(out, " or ")
}

// timed returns selectors of the fewest series that are scraped together with the value: one bucket
// of a histogram, the divisor of a quotient.
func (b builder) timed() []string {
	s := b.src
	switch s.Fn {
	case signals.FnQuantile:
		all := signals.Matcher{Label: "le", Op: "=", Value: "+Inf"}
		return []string{b.sel(s.Metric+"_bucket", append(slices.Clone(s.Match), all))}
	case signals.FnMean:
		return []string{b.sel(s.Metric+"_count", s.Match)}
	case signals.FnRatio:
		out := []string{b.sel(s.Over, s.Denominator())}
		for _, counter := range s.With {
			out = append(out, b.sel(counter, s.Denominator()))
		}
		return out
	}
	return []string{b.sel(s.Metric, s.Match)}
}
