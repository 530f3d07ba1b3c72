package lint

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"paramedic/rules/promql"
	"paramedic/state"
)

// A bound is the comparison of a value with a number. The rule may compute with the value, so that
// the written number is value × scale + shift.
type bound struct {
	of           parser.Expr
	op           parser.ItemType // with the value on its left
	limit        float64         // in the value's own unit
	scale, shift float64
	spread       bool // the value is a maximum, minimum, quantile or mean over time
	mean         bool // the value is a mean of several
	filled       bool // a number replaces a missing value
}

// written formats a value of the bound's own unit in the unit that the rule uses.
func (c bound) written(v float64) string { return written(v*c.scale + c.shift) }

// own formats the written number, with its meaning in the value's own unit if that differs.
func (c bound) own() string {
	if c.scale == 1 && c.shift == 0 {
		return written(c.limit)
	}
	return fmt.Sprintf("%s (that is %s)", c.written(c.limit), written(c.limit))
}

// written formats a number without the digits of rounding errors.
func written(v float64) string {
	if short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 12, 64), 64); err == nil {
		v = short
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// boundOf parses a comparison with a number on either side, and removes the arithmetic around the
// value.
func boundOf(x *parser.BinaryExpr) (bound, bool) {
	if !x.Op.IsComparisonOperator() {
		return bound{}, false
	}
	c := bound{of: x.LHS, op: x.Op, scale: 1}
	var ok bool
	if c.limit, ok = constant(x.RHS); !ok {
		if c.limit, ok = constant(x.LHS); !ok {
			return bound{}, false
		}
		c.of, c.op = x.RHS, turned(x.Op)
	}
	if _, both := constant(c.of); both {
		return bound{}, false
	}
	c.strip()
	return c, true
}

// strip removes everything that is computed around the value.
func (c *bound) strip() {
	for c.level(); c.peel(); c.level() {
	}
}

// peel removes one step of arithmetic with a number from the value. It reports whether there was
// one.
func (c *bound) peel() bool {
	if u, ok := c.of.(*parser.UnaryExpr); ok {
		if u.Op == parser.SUB {
			c.limit, c.scale, c.op = -c.limit, -c.scale, turned(c.op)
		}
		c.of = u.Expr
		return true
	}
	x, ok := c.of.(*parser.BinaryExpr)
	if !ok {
		return false
	}
	k, onRight := constant(x.RHS)
	side := x.LHS
	if !onRight {
		if k, ok = constant(x.LHS); !ok {
			return c.pull(x)
		}
		side = x.RHS
	}
	switch {
	case x.Op == parser.ADD:
		c.limit, c.shift = c.limit-k, c.shift+c.scale*k
	case x.Op == parser.SUB && onRight:
		c.limit, c.shift = c.limit+k, c.shift-c.scale*k
	case x.Op == parser.SUB:
		c.limit, c.shift, c.scale, c.op = k-c.limit, c.shift+c.scale*k, -c.scale, turned(c.op)
	case k == 0 || math.IsNaN(k) || math.IsInf(k, 0):
		return false
	case x.Op == parser.MUL:
		c.limit, c.scale = c.limit/k, c.scale*k
	case x.Op == parser.DIV && onRight:
		c.limit, c.scale = c.limit*k, c.scale/k
	default:
		return false
	}
	if k < 0 && (x.Op == parser.MUL || x.Op == parser.DIV) {
		c.op = turned(c.op)
	}
	c.of = side
	return true
}

// pull extracts a constant factor from a dividend: 100 * a / b is 100 times a / b.
func (c *bound) pull(x *parser.BinaryExpr) bool {
	product, ok := promql.Unwrap(x.LHS).(*parser.BinaryExpr)
	if !ok || x.Op != parser.DIV || product.Op != parser.MUL {
		return false
	}
	k, of := product.LHS, product.RHS
	if _, ok := constant(k); !ok {
		k, of = product.RHS, product.LHS
	}
	if _, ok := constant(k); !ok {
		return false
	}
	c.of = &parser.BinaryExpr{Op: parser.MUL, LHS: k,
		RHS: &parser.BinaryExpr{Op: parser.DIV, LHS: of, RHS: x.RHS, VectorMatching: x.VectorMatching}}
	return c.peel()
}

// turned returns the comparison with its sides exchanged.
func turned(op parser.ItemType) parser.ItemType {
	switch op {
	case parser.GTR:
		return parser.LSS
	case parser.GTE:
		return parser.LTE
	case parser.LSS:
		return parser.GTR
	case parser.LTE:
		return parser.GTE
	}
	return op
}

// constant returns the number that an expression always has.
func constant(e parser.Expr) (float64, bool) {
	switch x := promql.Unwrap(e).(type) {
	case *parser.NumberLiteral:
		return x.Val, true
	case *parser.UnaryExpr:
		v, ok := constant(x.Expr)
		if x.Op == parser.SUB {
			v = -v
		}
		return v, ok
	case *parser.Call:
		if x.Func.Name == "vector" || x.Func.Name == "scalar" {
			return constant(x.Args[0])
		}
	case *parser.BinaryExpr:
		a, ok := constant(x.LHS)
		b, also := constant(x.RHS)
		if !ok || !also {
			return 0, false
		}
		switch x.Op {
		case parser.ADD:
			return a + b, true
		case parser.SUB:
			return a - b, true
		case parser.MUL:
			return a * b, true
		case parser.DIV:
			return a / b, true
		case parser.POW:
			return math.Pow(a, b), true
		}
	}
	return 0, false
}

// level removes functions whose result lies between the smallest and the largest of their
// arguments.
func (c *bound) level() {
	for {
		c.of = promql.Unwrap(c.of)
		switch x := c.of.(type) {
		case *parser.AggregateExpr:
			if !slices.Contains([]parser.ItemType{parser.MAX, parser.MIN, parser.AVG, parser.QUANTILE, parser.TOPK,
				parser.BOTTOMK}, x.Op) {
				return
			}
			c.mean = c.mean || x.Op == parser.AVG
			c.of = x.Expr
		case *parser.Call:
			switch name := x.Func.Name; {
			case slices.Contains([]string{"sort", "sort_desc", "label_replace", "label_join"}, name):
				c.of = x.Args[0]
			case slices.Contains([]string{"avg_over_time", "max_over_time", "min_over_time", "last_over_time"}, name):
				c.of, c.spread, c.mean = x.Args[0], true, c.mean || name == "avg_over_time"
			case name == "quantile_over_time":
				c.of, c.spread = x.Args[1], true
			default:
				return
			}
		case *parser.MatrixSelector:
			c.of = x.VectorSelector
		case *parser.SubqueryExpr:
			c.of = x.Expr
		case *parser.BinaryExpr:
			_, filled := constant(x.RHS)
			if x.Op != parser.LAND && x.Op != parser.LUNLESS && (x.Op != parser.LOR || !filled) {
				return
			}
			c.of, c.filled = x.LHS, c.filled || x.Op == parser.LOR
		default:
			return
		}
	}
}

// compared checks comparisons with a number.
func (l *linter) compared(x *parser.BinaryExpr, path []parser.Node) {
	c, ok := boundOf(x)
	if !ok {
		return
	}
	of := c.of
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
	if what, top := rangeOf(c.of); top > 0 {
		l.bounded(c, what, top, x, path)
	}
}

// window reports windows that a single event leaves before `for` is over.
func (l *linter) window(c bound, call *parser.Call) {
	var window time.Duration
	switch w := call.Args[0].(type) {
	case *parser.MatrixSelector:
		window = w.Range
	case *parser.SubqueryExpr:
		window = w.Range
	}
	single := c.op == parser.GTR && c.limit == 0 || c.op == parser.GTE && c.limit > 0 && c.limit <= 1
	if single && !c.spread && window > 0 && l.rule.For >= window {
		l.report(state.Critical, fmt.Sprintf(
			"never fires for a single event: after for: %s, the event has left the window of %s",
			state.FormatDuration(l.rule.For), state.FormatDuration(window)),
			"make the window longer than for, or remove for")
	}
}

// outside reports whether the comparison of any value from lo to hi has the same result, and which.
func outside(op parser.ItemType, limit, lo, hi float64) (decided, always bool) {
	switch op {
	case parser.GTR:
		return limit >= hi || limit < lo, limit < lo
	case parser.GTE:
		return limit > hi || limit <= lo, limit <= lo
	case parser.LSS:
		return limit <= lo || limit > hi, limit > hi
	case parser.LTE:
		return limit < lo || limit >= hi, limit >= hi
	case parser.EQLC:
		return limit < lo || limit > hi, false
	case parser.NEQ:
		return limit < lo || limit > hi, true
	}
	return false, false
}

// bounded checks a threshold against the range of a value, from 0 to top.
func (l *linter) bounded(c bound, what string, top float64, x *parser.BinaryExpr, path []parser.Node) {
	if at, always := outside(c.op, c.limit, 0, top); at {
		fix := fmt.Sprintf("compare with a number between %s and %s", c.written(0), c.written(top))
		if top == 1 && c.limit > 1 && c.limit <= 100 {
			fix = fmt.Sprintf("compare with %s", c.written(c.limit/100))
		}
		l.decided(always, fmt.Sprintf("%s is from 0 to %s, and the threshold is %s", what, written(top), c.own()),
			fix, x, path)
		return
	}
	below := c.op == parser.LSS || c.op == parser.LTE
	// The mean utilization of GPUs may really be below 1 %.
	if top == 100 && c.limit > 0 && c.limit < 1 && (!below || !c.mean) {
		l.report(state.Warning, fmt.Sprintf("%s is from 0 to 100, and the threshold is %s: less than 1 %%", what,
			c.own()), fmt.Sprintf("compare with %s", c.written(100*c.limit)))
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
