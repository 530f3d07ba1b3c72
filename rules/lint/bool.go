package lint

import (
	"fmt"
	"math"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"

	"paramedic/rules/lint/threshold"
	"paramedic/rules/promql"
	"paramedic/state"
)

// boolean reports comparisons with bool that are used as thresholds. They return 1 or 0 for every
// series and drop none, and a rule fires for both.
func (l *linter) boolean(x *parser.BinaryExpr, path []parser.Node) {
	numbers := x.LHS.Type() == parser.ValueTypeScalar && x.RHS.Type() == parser.ValueTypeScalar // these need bool
	if !x.ReturnBool || numbers || chooses(x.LHS) || chooses(x.RHS) {
		return
	}
	msg := "always fires: a comparison with bool returns 1 or 0 and drops no series, and a rule also fires for 0"
	// Top is the outermost expression around x within its condition.
	severity, top, computed := state.Critical, parser.Node(x), false
	for at := len(path) - 1; at >= 0; at-- {
		switch p := path[at].(type) {
		case *parser.Call:
			if strings.HasPrefix(p.Func.Name, "absent") {
				return
			}
			computed = true
		case *parser.AggregateExpr, *parser.SubqueryExpr, *parser.UnaryExpr:
			computed = true
		case *parser.BinaryExpr:
			switch {
			case p.Op.IsComparisonOperator():
				return // which is the threshold, or is checked itself
			case p.Op == parser.LUNLESS && within(p.RHS, x):
				msg, severity = "one part always excludes: a comparison with bool after unless drops "+
					"no series", state.Warning
			case p.Op == parser.LAND, p.Op == parser.LUNLESS:
				msg, severity = "one part always holds: a comparison with bool returns 1 or 0 and drops no series",
					state.Warning
			case p.Op == parser.LOR:
			case chooses(p.LHS) || chooses(p.RHS):
				return // the other side filters
			default:
				computed = true
			}
			if p.Op.IsSetOperator() {
				l.report(severity, msg, comparing(x, top, computed))
				return
			}
		}
		top = path[at]
	}
	l.report(severity, msg, comparing(x, top, computed))
}

// comparing returns a fix: the comparison without bool, or a comparison of the value that was
// computed from it.
func comparing(x *parser.BinaryExpr, top parser.Node, computed bool) string {
	const longest = 300
	if computed {
		if whole := top.String(); len(whole) <= longest {
			return fmt.Sprintf("compare the result: `(%s) > 0`", whole)
		}
		return "compare the result with a number"
	}
	filter := *x
	filter.ReturnBool = false
	if expr := filter.String(); len(expr) <= longest {
		return fmt.Sprintf("remove bool: `%s`", expr)
	}
	return "remove bool"
}

// within reports whether a node is part of an expression.
func within(e parser.Expr, n parser.Node) bool {
	found := false
	parser.Inspect(e, func(o parser.Node, _ []parser.Node) error {
		found = found || o == n
		return nil
	})
	return found
}

// chooses reports whether an expression drops series by their values.
func chooses(e parser.Expr) bool {
	found := false
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		x, ok := n.(*parser.BinaryExpr)
		found = found || ok && (x.Op.IsComparisonOperator() && !x.ReturnBool || x.Op == parser.LAND ||
			x.Op == parser.LUNLESS)
		return nil
	})
	return found
}

// counted reports counts that are compared with zero: a count of no series has no value.
func (l *linter) counted(c threshold.Threshold, x *parser.BinaryExpr, path []parser.Node) {
	never, always := c.Decided(1, math.Inf(1))
	if !never || always || c.Filled {
		return
	}
	const why = "%s is never 0: if there is no series to count, it has no value"
	switch of := c.Of.(type) {
	case *parser.AggregateExpr:
		if of.Op != parser.COUNT && of.Op != parser.GROUP {
			return
		}
		fix := fmt.Sprintf("use `absent(%s)`", of.Expr)
		if len(of.Grouping) > 0 || of.Without {
			fix = fmt.Sprintf("use absent() for each group, or compare with the past: `%s`", vanished(of))
		}
		l.decided(false, fmt.Sprintf(why, of.Op.String()), fix, x, path)
	case *parser.Call:
		if of.Func.Name == "count_over_time" {
			l.decided(false, fmt.Sprintf(why, of.Func.Name), fmt.Sprintf("use `absent_over_time(%s)`", of.Args[0]), x,
				path)
		}
	}
}

// vanished returns an expression for the groups of an aggregation that existed within the last hour
// and are missing now.
func vanished(agg *parser.AggregateExpr) string {
	by := fmt.Sprintf("by (%s)", strings.Join(agg.Grouping, ", "))
	if agg.Without {
		by = fmt.Sprintf("without (%s)", strings.Join(agg.Grouping, ", "))
	}
	past := fmt.Sprintf("(%s)[1h:]", agg.Expr)
	if sel := promql.Selector(agg.Expr); sel != nil && sel.OriginalOffset == 0 && sel.Timestamp == nil {
		past = fmt.Sprintf("%s[1h]", sel)
	}
	return fmt.Sprintf("group %[1]s (last_over_time(%[3]s)) unless group %[1]s (%[2]s)", by, agg.Expr, past)
}
