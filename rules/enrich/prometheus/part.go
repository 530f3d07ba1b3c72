package prometheus

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
	from    *member // the member of the expressions
	members []*member
}

// divisorMark follows the mark of a part on the series of its divisor; each further counter of the
// divisor has one more.
const divisorMark = "/"

// parts returns the fewest expressions that give all members. Their marks are numbers. So they are
// unique within a query, and a query does not depend on those for other moments.
func parts(members []*member) []part {
	var out []part
	at := map[string]int{}
	for _, m := range members {
		from := m
		if m.pods != nil && slices.Contains(members, m.pods) {
			from = m.pods
		}
		key := from.reads()
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
	switch s := p.members[0].source; s.Fn {
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

// union returns the query of the given parts.
func union(ps []part, timed bool) string {
	var all []string
	for _, p := range ps {
		all = append(all, p.labelled(timed)...)
	}
	return unionOf(all)
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
