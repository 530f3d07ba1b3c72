package lint

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"paramedic/rules/lint/threshold"
	"paramedic/rules/promql"
	"paramedic/state"
)

// bucket reports le matchers that match no bucket.
func (l *linter) bucket(x *parser.VectorSelector) {
	for _, m := range x.LabelMatchers {
		if m.Name != "le" || m.Type != labels.MatchEqual || len(l.valuesOf(x.Name, "le")) > 0 {
			continue // the values of the actual series are known
		}
		value, err := strconv.ParseFloat(m.Value, 64)
		if err != nil {
			continue
		}
		if gaps := gapsAt(knownBuckets[promql.BaseName(x.Name)], value); len(gaps) > 0 {
			l.report(state.Critical, fmt.Sprintf("%s has no bucket le=%q, so the selector matches nothing", x.Name, m.Value),
				"use "+byRelease(gaps, func(g gap) string {
					return fmt.Sprintf("le=%q or le=%q", threshold.Format(g.below), threshold.Format(g.above))
				})+
					", exactly as the engine exports it")
		}
	}
}

// quantiles checks a quantile's threshold against the histogram's buckets.
func (l *linter) quantiles(c threshold.Threshold, metric string, x *parser.BinaryExpr, path []parser.Node) {
	releases := l.edges(metric)
	if len(releases) == 0 {
		return
	}
	unit := ""
	if first := releases[0][0]; strings.HasSuffix(promql.BaseName(metric), "_seconds") && c.Scale == 1 && c.Limit >= 50 &&
		c.Limit/1000 >= first {
		unit = fmt.Sprintf("; the metric is in seconds: compare with %s if you mean milliseconds", threshold.Format(c.Limit/1000))
	}
	top := math.Inf(-1)
	for _, edges := range releases {
		top = max(top, edges[len(edges)-1])
	}
	if at, always := c.Decided(math.Inf(-1), top); at {
		l.decided(always, fmt.Sprintf("a quantile of %s is never above its largest bucket, %s, and the threshold is %s",
			metric, threshold.Format(top), c.Text()),
			fmt.Sprintf("compare with less than %s%s", c.Written(top), unit), x, path)
		return
	}
	if gaps := gapsAt(releases, c.Limit); len(gaps) > 0 && !recounted(metric, x, path) {
		between := byRelease(gaps, func(g gap) string { return threshold.Format(g.below) + " and " + threshold.Format(g.above) })
		l.report(state.Warning, fmt.Sprintf(
			"the threshold %s lies between the buckets %s of %s, where the quantile is only interpolated", c.Text(), between,
			metric),
			"use a bucket's edge: "+byRelease(gaps, func(g gap) string { return c.Written(g.below) + " or " + c.Written(g.above) })+unit)
	}
}

// recounted reports whether the comparison's result is filtered by buckets of the same histogram.
// Its threshold may then lie between edges: such rules support releases with different edges.
func recounted(metric string, n parser.Node, path []parser.Node) bool {
	for _, around := range slices.Backward(path) {
		if p, ok := around.(*parser.BinaryExpr); ok && (p.Op == parser.LAND || p.Op == parser.LUNLESS) && p.LHS == n {
			for _, x := range promql.SelectorsOf(p.RHS) {
				if x.Name == metric && slices.ContainsFunc(x.LabelMatchers,
					func(m *labels.Matcher) bool { return m.Name == "le" }) {
					return true
				}
			}
		}
		n = around
	}
	return false
}

// edges returns the finite edges of a histogram: those of its series here, or those of known engine
// releases.
func (l *linter) edges(metric string) [][]float64 {
	var out []float64
	for _, v := range sortedEdges(l.valuesOf(metric, "le")) {
		edge, _ := strconv.ParseFloat(v, 64) // sortedEdges returns only numbers
		out = append(out, edge)
	}
	if len(out) == 0 {
		return knownBuckets[promql.BaseName(metric)]
	}
	return [][]float64{out}
}

// A gap is the range between two adjacent edges of a histogram. The first one begins at zero.
type gap struct{ below, above float64 }

// gapsAt returns the gaps that contain a value, one per release with different edges. It returns
// none if the value is an edge of a release or above its last edge, since that release may be in
// use.
func gapsAt(releases [][]float64, value float64) []gap {
	var out []gap
	for _, edges := range releases {
		g, between := gapAt(edges, value)
		if !between {
			return nil
		}
		if !slices.Contains(out, g) {
			out = append(out, g)
		}
	}
	return out
}

func gapAt(edges []float64, value float64) (g gap, between bool) {
	for _, edge := range edges {
		switch {
		case math.Abs(value-edge) <= 1e-9*edge: // unit conversion may have shifted it slightly off the edge
			return gap{}, false
		case value < edge:
			return gap{g.below, edge}, value > 0
		}
		g.below = edge
	}
	return gap{}, false
}

// byRelease describes gaps, with the release if there are several.
func byRelease(gaps []gap, tell func(gap) string) string {
	out := tell(gaps[0])
	for _, g := range gaps[1:] {
		out += " (" + tell(g) + " in older releases)"
	}
	return out
}
