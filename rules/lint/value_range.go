package lint

import (
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"paramedic/rules/promql"
)

// rangeOf returns the name and the maximum of an expression's value if the value goes from zero to
// a known number.
func rangeOf(e parser.Expr) (what string, top float64) {
	switch x := promql.Unwrap(e).(type) {
	case *parser.VectorSelector:
		return x.Name, knownTops[x.Name]
	case *parser.BinaryExpr:
		if x.Op != parser.DIV {
			return "", 0
		}
		if name, top := meanOf(x); top > 0 {
			return name, top
		}
		if isShare(x.LHS, x.RHS) {
			return "a share", 1
		}
	}
	return "", 0
}

// meanOf returns the metric that a sum divided by a count is the mean of. The mean has the metric's
// range.
func meanOf(x *parser.BinaryExpr) (string, float64) {
	sum, ok := promql.Unwrap(x.LHS).(*parser.AggregateExpr)
	count, also := promql.Unwrap(x.RHS).(*parser.AggregateExpr)
	if !ok || !also || sum.Op != parser.SUM || count.Op != parser.COUNT || sum.Expr.String() != count.Expr.String() {
		return "", 0
	}
	if sel, ok := promql.Unwrap(sum.Expr).(*parser.VectorSelector); ok {
		return sel.Name, knownTops[sel.Name]
	}
	return "", 0
}

// isShare reports whether one expression is a part of another: a term of its sum, a narrower
// selection of the same, or a metric that counts some of its events.
func isShare(part, whole parser.Expr) bool {
	whole = promql.Unwrap(whole)
	if call, ok := whole.(*parser.Call); ok && call.Func.Name == "clamp_min" {
		whole = promql.Unwrap(call.Args[0])
	}
	if terms := added(whole); len(terms) > 1 {
		return slices.Contains(terms, promql.Unwrap(part).String())
	}
	a, ok := totalOf(part)
	b, also := totalOf(whole)
	if !ok || !also || a.how != b.how {
		return false
	}
	name, of := a.sel.Name, b.sel.Name
	bucket := strings.HasSuffix(name, "_bucket") && promql.BaseName(name)+"_count" == of
	if name != of && !bucket && wholes[name] != of {
		return false
	}
	return !slices.ContainsFunc(b.sel.LabelMatchers, func(m *labels.Matcher) bool {
		return m.Name != promql.NameLabel && (m.Name != "le" || m.Value != "+Inf") &&
			!slices.ContainsFunc(a.sel.LabelMatchers, func(o *labels.Matcher) bool { return o.String() == m.String() })
	})
}

// added returns the terms of a sum, or nil if a term may be negative: the sum may then be smaller
// than a part.
func added(e parser.Expr) []string {
	x, ok := promql.Unwrap(e).(*parser.BinaryExpr)
	if ok && x.Op == parser.ADD {
		left, right := added(x.LHS), added(x.RHS)
		if left == nil || right == nil {
			return nil
		}
		return append(left, right...)
	}
	for _, sign := range []string{"-", "delta(", "deriv(", "predict_linear("} {
		if strings.Contains(e.String(), sign) {
			return nil
		}
	}
	return []string{promql.Unwrap(e).String()}
}

// A total is a selector with the functions that are applied before the sum.
type total struct {
	sel *parser.VectorSelector
	how string
}

// totalOf parses sums of gauges and of counters' rates.
func totalOf(e parser.Expr) (total, bool) {
	e, how := promql.Unwrap(e), ""
	if agg, ok := e.(*parser.AggregateExpr); ok && agg.Op == parser.SUM {
		e, how = promql.Unwrap(agg.Expr), "sum "
	}
	if call, ok := e.(*parser.Call); ok && slices.Contains([]string{"rate", "irate", "increase"}, call.Func.Name) {
		if m, ok := call.Args[0].(*parser.MatrixSelector); ok {
			e, how = m.VectorSelector, how+call.Func.Name+" "+m.Range.String()
		}
	}
	sel, ok := e.(*parser.VectorSelector)
	if !ok {
		return total{}, false
	}
	return total{sel: sel, how: how + " " + sel.OriginalOffset.String()}, true
}
