package prometheus

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"paramedic/rules"
)

// marker is the label that tells the parts of a union apart.
const marker = "paramedic_part"

// A part is one expression of a union, of a quotient one for each sum, and the members that are
// read from its series.
type part struct {
	mark    string
	exprs   []string
	from    *member // of which the expressions are
	members []*member
}

// under follows a part's mark on the series of what is divided by, once more for each further
// counter of that.
const under = "/"

// parts are the fewest expressions that give all members. Their marks are numbers, so that no two
// of a moment are alike, and a moment's queries do not change with what is asked of another.
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

// labelled returns the part's expressions, marked, so that no two of a union have a series in
// common; the last of a timed one gives the times of its scrapes.
func (p part) labelled(timed bool) []string {
	out := make([]string, len(p.exprs))
	for i, expr := range p.exprs {
		out[i] = marked(expr, p.mark+strings.Repeat(under, i))
	}
	if timed {
		out = append(out, marked(p.from.scraped(), p.mark+when))
	}
	return out
}

// marked puts a mark on the series of an expression.
func marked(expr, mark string) string {
	return fmt.Sprintf(`label_replace(%s, "%s", "%s", "", "")`, expr, marker, mark)
}

// cost is about what a part costs Prometheus, in metrics of one series for each entity, as
// tools/evidence measured it for 64 workers.
func (p part) cost() int {
	switch s := p.members[0].source; s.Fn {
	case rules.FnQuantile:
		return 8
	case rules.FnRest, rules.FnFlow, rules.FnMin, rules.FnTotal, rules.FnExcess:
		return 3
	case rules.FnRatio, rules.FnMean:
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

// union is the query of some parts.
func union(ps []part, timed bool) string {
	var all []string
	for _, p := range ps {
		all = append(all, p.labelled(timed)...)
	}
	return either(all)
}

// either is the union of expressions that have no series in common. Prometheus goes over all series
// on the left for every "or", so that halves of halves cost it far less than one after the other.
func either(exprs []string) string {
	if len(exprs) <= 2 {
		return strings.Join(exprs, "\nor\n")
	}
	half := len(exprs) / 2
	return "(" + either(exprs[:half]) + ")\nor\n(" + either(exprs[half:]) + ")"
}
