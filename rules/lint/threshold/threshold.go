// Package threshold parses the thresholds of PromQL: which value an expression compares with which
// number, in the value's own unit.
package threshold

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/prometheus/prometheus/promql/parser"

	"paramedic/rules/promql"
)

// A Threshold is the comparison of a value with a number. The expression may compute with the
// value, so that the written number is value × Scale + a constant.
type Threshold struct {
	Of     parser.Expr     // the value, without the arithmetic around it
	Op     parser.ItemType // with the value on its left
	Limit  float64         // in the value's own unit
	Scale  float64         // 1 if the written number has the value's own unit
	Spread bool            // the value is a maximum, minimum, quantile or mean over time
	Mean   bool            // the value is a mean of several
	Filled bool            // a number replaces a missing value
	shift  float64
}

// Written formats a value of the threshold's own unit in the unit that the expression uses.
func (c Threshold) Written(v float64) string { return Format(v*c.Scale + c.shift) }

// Text formats the written number, with its meaning in the value's own unit if that differs.
func (c Threshold) Text() string {
	if c.Scale == 1 && c.shift == 0 {
		return Format(c.Limit)
	}
	return fmt.Sprintf("%s (that is %s)", c.Written(c.Limit), Format(c.Limit))
}

// Format formats a number without the digits of rounding errors.
func Format(v float64) string {
	if short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 12, 64), 64); err == nil {
		v = short
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// Parse parses a comparison with a number on either side, and removes the arithmetic around the
// value. It returns false if no side, or each side, is a number.
func Parse(x *parser.BinaryExpr) (Threshold, bool) {
	if !x.Op.IsComparisonOperator() {
		return Threshold{}, false
	}
	c := Threshold{Of: x.LHS, Op: x.Op, Scale: 1}
	var ok bool
	if c.Limit, ok = Constant(x.RHS); !ok {
		if c.Limit, ok = Constant(x.LHS); !ok {
			return Threshold{}, false
		}
		c.Of, c.Op = x.RHS, turned(x.Op)
	}
	if _, both := Constant(c.Of); both {
		return Threshold{}, false
	}
	c.strip()
	return c, true
}

// ValueOf returns an expression without what is computed around its value: arithmetic with numbers,
// and functions whose result lies between the smallest and the largest of their arguments.
func ValueOf(e parser.Expr) parser.Expr {
	c := Threshold{Of: e, Scale: 1}
	c.strip()
	return c.Of
}

// strip removes everything that is computed around the value.
func (c *Threshold) strip() {
	for c.level(); c.peel(); c.level() {
	}
}

// peel removes one step of arithmetic with a number from the value. It reports whether there was
// one.
func (c *Threshold) peel() bool {
	if u, ok := c.Of.(*parser.UnaryExpr); ok {
		if u.Op == parser.SUB {
			c.Limit, c.Scale, c.Op = -c.Limit, -c.Scale, turned(c.Op)
		}
		c.Of = u.Expr
		return true
	}
	x, ok := c.Of.(*parser.BinaryExpr)
	if !ok {
		return false
	}
	k, onRight := Constant(x.RHS)
	side := x.LHS
	if !onRight {
		if k, ok = Constant(x.LHS); !ok {
			return c.pull(x)
		}
		side = x.RHS
	}
	switch {
	case x.Op == parser.ADD:
		c.Limit, c.shift = c.Limit-k, c.shift+c.Scale*k
	case x.Op == parser.SUB && onRight:
		c.Limit, c.shift = c.Limit+k, c.shift-c.Scale*k
	case x.Op == parser.SUB:
		c.Limit, c.shift, c.Scale, c.Op = k-c.Limit, c.shift+c.Scale*k, -c.Scale, turned(c.Op)
	case k == 0 || math.IsNaN(k) || math.IsInf(k, 0):
		return false
	case x.Op == parser.MUL:
		c.Limit, c.Scale = c.Limit/k, c.Scale*k
	case x.Op == parser.DIV && onRight:
		c.Limit, c.Scale = c.Limit*k, c.Scale/k
	default:
		return false
	}
	if k < 0 && (x.Op == parser.MUL || x.Op == parser.DIV) {
		c.Op = turned(c.Op)
	}
	c.Of = side
	return true
}

// pull extracts a constant factor from a dividend: 100 * a / b is 100 times a / b.
func (c *Threshold) pull(x *parser.BinaryExpr) bool {
	product, ok := promql.Unwrap(x.LHS).(*parser.BinaryExpr)
	if !ok || x.Op != parser.DIV || product.Op != parser.MUL {
		return false
	}
	k, of := product.LHS, product.RHS
	if _, ok := Constant(k); !ok {
		k, of = product.RHS, product.LHS
	}
	if _, ok := Constant(k); !ok {
		return false
	}
	c.Of = &parser.BinaryExpr{Op: parser.MUL, LHS: k,
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

// Constant returns the number that an expression always has.
func Constant(e parser.Expr) (float64, bool) {
	switch x := promql.Unwrap(e).(type) {
	case *parser.NumberLiteral:
		return x.Val, true
	case *parser.UnaryExpr:
		v, ok := Constant(x.Expr)
		if x.Op == parser.SUB {
			v = -v
		}
		return v, ok
	case *parser.Call:
		if x.Func.Name == "vector" || x.Func.Name == "scalar" {
			return Constant(x.Args[0])
		}
	case *parser.BinaryExpr:
		a, ok := Constant(x.LHS)
		b, also := Constant(x.RHS)
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
func (c *Threshold) level() {
	for {
		c.Of = promql.Unwrap(c.Of)
		switch x := c.Of.(type) {
		case *parser.AggregateExpr:
			if !slices.Contains([]parser.ItemType{parser.MAX, parser.MIN, parser.AVG, parser.QUANTILE, parser.TOPK,
				parser.BOTTOMK}, x.Op) {
				return
			}
			c.Mean = c.Mean || x.Op == parser.AVG
			c.Of = x.Expr
		case *parser.Call:
			switch name := x.Func.Name; {
			case slices.Contains([]string{"sort", "sort_desc", "label_replace", "label_join"}, name):
				c.Of = x.Args[0]
			case slices.Contains([]string{"avg_over_time", "max_over_time", "min_over_time", "last_over_time"}, name):
				c.Of, c.Spread, c.Mean = x.Args[0], true, c.Mean || name == "avg_over_time"
			case name == "quantile_over_time":
				c.Of, c.Spread = x.Args[1], true
			default:
				return
			}
		case *parser.MatrixSelector:
			c.Of = x.VectorSelector
		case *parser.SubqueryExpr:
			c.Of = x.Expr
		case *parser.BinaryExpr:
			_, filled := Constant(x.RHS)
			if x.Op != parser.LAND && x.Op != parser.LUNLESS && (x.Op != parser.LOR || !filled) {
				return
			}
			c.Of, c.Filled = x.LHS, c.Filled || x.Op == parser.LOR
		default:
			return
		}
	}
}

// Decided reports whether the comparison of any value from lo to hi, in the value's own unit, has
// the same result, and whether this is true.
func (c Threshold) Decided(lo, hi float64) (decided, always bool) {
	limit := c.Limit
	switch c.Op {
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
