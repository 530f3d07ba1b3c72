package promql

import (
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

const (
	mostSeries = 4      // selectors of one expression
	vanished   = "[6h]" // absent() fires at once or after minutes, and people may look hours later
)

// SeriesOf returns PromQL for the series that an expression is about, at most four queries. They
// are on the left of comparisons and divisions: of a ratio of failures, the failures. Counters
// count only if they grow. Selectors without the name of a metric are left out, because they read
// too much.
func SeriesOf(expr string) []string {
	if expr == "" || strings.Count(expr, "(") >= maxDeep {
		return nil
	}
	e, err := Parser.ParseExpr(expr)
	if err != nil {
		return nil
	}
	var out []string
	subjects(e, func(q string) {
		if len(out) < mostSeries && !slices.Contains(out, q) {
			out = append(out, q)
		}
	})
	return out
}

// subjects passes on a query for each selector that the expression is about.
func subjects(e parser.Expr, add func(string)) {
	switch x := e.(type) {
	case *parser.VectorSelector:
		if sel, ok := named(x); ok {
			add("max_over_time(" + sel + vanished + ")")
		}
	case *parser.SubqueryExpr:
		subjects(x.Expr, add)
	case *parser.ParenExpr:
		subjects(x.Expr, add)
	case *parser.StepInvariantExpr:
		subjects(x.Expr, add)
	case *parser.UnaryExpr:
		subjects(x.Expr, add)
	case *parser.AggregateExpr:
		subjects(x.Expr, add)
	case *parser.Call:
		for _, a := range x.Args {
			m, ranged := a.(*parser.MatrixSelector)
			if !ranged {
				subjects(a, add)
				continue
			}
			v, plain := m.VectorSelector.(*parser.VectorSelector)
			if sel, ok := named(v); plain && ok && grows[x.Func.Name] {
				add("rate(" + sel + "[5m]) > 0")
			} else if ok {
				add("max_over_time(" + sel + vanished + ")")
			}
		}
	case *parser.BinaryExpr:
		_, constant := Unwrap(x.LHS).(*parser.NumberLiteral)
		if !constant {
			subjects(x.LHS, add)
		}
		if constant || x.Op == parser.LOR {
			subjects(x.RHS, add)
		}
	}
}

// grows are the functions of counters.
var grows = map[string]bool{"rate": true, "irate": true, "increase": true}

// named returns the selector without its offset, if it names a metric.
func named(v *parser.VectorSelector) (string, bool) {
	if v == nil {
		return "", false
	}
	sel := parser.VectorSelector{Name: v.Name, LabelMatchers: v.LabelMatchers}
	return sel.String(), slices.ContainsFunc(v.LabelMatchers, func(m *labels.Matcher) bool {
		return m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual && m.Value != ""
	})
}
