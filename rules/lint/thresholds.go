package lint

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"paramedic/rules/lint/threshold"
	"paramedic/rules/promql"
	"paramedic/state"
)

// compared checks comparisons with a number.
func (l *linter) compared(x *parser.BinaryExpr, path []parser.Node) {
	c, ok := threshold.Parse(x)
	if !ok {
		return
	}
	of := c.Of
	if agg, is := of.(*parser.AggregateExpr); is && agg.Op == parser.SUM {
		of = promql.Unwrap(agg.Expr)
	}
	if call, is := of.(*parser.Call); is {
		switch call.Func.Name {
		case "histogram_quantile":
			l.quantiles(c, bucketOf(call.Args[1]), x, path)
			return
		case "changes", "increase", "delta":
			l.window(c, call)
			return
		}
	}
	l.counted(c, x, path)
	l.mebibytes(c, x, path)
	if what, top := rangeOf(c.Of); top > 0 {
		l.bounded(c, what, top, x, path)
	}
}

// window reports windows that a single event leaves before `for` is over.
func (l *linter) window(c threshold.Threshold, call *parser.Call) {
	var window time.Duration
	switch w := call.Args[0].(type) {
	case *parser.MatrixSelector:
		window = w.Range
	case *parser.SubqueryExpr:
		window = w.Range
	}
	single := c.Op == parser.GTR && c.Limit == 0 || c.Op == parser.GTE && c.Limit > 0 && c.Limit <= 1
	if single && !c.Spread && window > 0 && l.rule.For >= window {
		l.report(state.Critical, fmt.Sprintf(
			"never fires for a single event: after for: %s, the event has left the window of %s",
			state.FormatDuration(l.rule.For), state.FormatDuration(window)),
			"make the window longer than for, or remove for")
	}
}

// bounded checks a threshold against the range of a value, from 0 to top.
func (l *linter) bounded(c threshold.Threshold, what string, top float64, x *parser.BinaryExpr, path []parser.Node) {
	if at, always := c.Decided(0, top); at {
		fix := fmt.Sprintf("compare with a number between %s and %s", c.Written(0), c.Written(top))
		if top == 1 && c.Limit > 1 && c.Limit <= 100 {
			fix = fmt.Sprintf("compare with %s", c.Written(c.Limit/100))
		}
		l.decided(always, fmt.Sprintf("%s is from 0 to %s, and the threshold is %s", what, threshold.Format(top), c.Text()),
			fix, x, path)
		return
	}
	below := c.Op == parser.LSS || c.Op == parser.LTE
	// The mean utilization of GPUs may really be below 1 %.
	if top == 100 && c.Limit > 0 && c.Limit < 1 && (!below || !c.Mean) {
		l.report(state.Warning, fmt.Sprintf("%s is from 0 to 100, and the threshold is %s: less than 1 %%", what,
			c.Text()), fmt.Sprintf("compare with %s", c.Written(100*c.Limit)))
	}
}

// decided reports a comparison that never or always holds, and its effect on the rule.
func (l *linter) decided(always bool, why, fix string, x *parser.BinaryExpr, path []parser.Node) {
	msg := map[bool]string{false: "never fires: ", true: "always fires: "}[always]
	severity := state.Critical
	switch part := deciding(x, path); {
	case x.ReturnBool || !part:
		msg, severity = map[bool]string{false: "one part never holds: ", true: "one part always holds: "}[always],
			state.Warning
	case always && len(path) > 0 && !alone(path):
		msg, severity = "one part always holds: ", state.Warning
	}
	l.report(severity, msg+why, fix)
}

// deciding reports whether an expression has no value if the node has none.
func deciding(n parser.Node, path []parser.Node) bool {
	for i := len(path) - 1; i >= 0; i-- {
		switch p := path[i].(type) {
		case *parser.Call:
			if strings.HasPrefix(p.Func.Name, "absent") {
				return false
			}
		case *parser.BinaryExpr:
			if p.Op == parser.LOR || p.Op == parser.LUNLESS && p.RHS == n {
				return false
			}
		}
		n = path[i]
	}
	return true
}

// alone reports whether only parentheses surround a node.
func alone(path []parser.Node) bool {
	return !slices.ContainsFunc(path, func(n parser.Node) bool {
		switch n.(type) {
		case *parser.ParenExpr, *parser.StepInvariantExpr:
			return false
		}
		return true
	})
}
