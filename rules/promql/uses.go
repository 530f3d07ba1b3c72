package promql

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

// Named reports whether a metric matches a pattern: a name, with '*' for any text. It knows
// other spellings of an engine's metrics ([EngineName]).
func Named(metric, pattern string) bool {
	return slices.ContainsFunc([]string{metric, BaseName(metric), EngineName(metric), BaseName(EngineName(metric))},
		func(m string) bool { return goesBy(m, pattern) })
}

// goesBy reports whether a name matches a pattern with '*' at any position.
func goesBy(name, pattern string) bool {
	head, rest, starred := strings.Cut(pattern, "*")
	if !starred {
		return name == pattern
	}
	name, found := strings.CutPrefix(name, head)
	for found {
		part, more, starred := strings.Cut(rest, "*")
		if !starred {
			return strings.HasSuffix(name, part)
		}
		_, name, found = strings.Cut(name, part)
		rest = more
	}
	return false
}

// NameLabel is the label that holds a metric's name.
const NameLabel = "__name__"

const (
	maxURL  = 16 << 10 // longer generatorURLs are ignored, in bytes
	maxExpr = 4 << 10  // and longer expressions
	maxDeep = 100      // and expressions with more parentheses
)

// A MetricUse is one metric of an alert's expression, and how the rule uses it.
type MetricUse struct {
	Metric string
	Funcs  []string
	Is     string                 // above, below, zero; empty: not compared
	Labels string                 // the selector's matchers, as label=value pairs
	Under  bool                   // the metric is a divisor of another
	Aside  bool                   // the metric is only a condition, after "and"
	Sel    *parser.VectorSelector // nil if the expression does not parse
}

// ExpressionOf returns the rule's expression from an alert's generatorURL; "" if there is none.
func ExpressionOf(generatorURL string) string {
	if generatorURL == "" || len(generatorURL) > maxURL {
		return ""
	}
	u, err := url.Parse(generatorURL)
	if err != nil {
		return ""
	}
	expr := u.Query().Get("g0.expr")
	if expr == "" { // the UI of VictoriaMetrics has its query in the fragment
		_, query, _ := strings.Cut(u.EscapedFragment(), "?")
		if values, err := url.ParseQuery(query); err == nil {
			expr = values.Get("g0.expr")
		}
	}
	if len(expr) > maxExpr {
		return ""
	}
	return expr
}

// Parser parses PromQL with its experimental functions.
var Parser = parser.NewParser(parser.Options{EnableExperimentalFunctions: true, ExperimentalDurationExpr: true})

// aggregations are PromQL's; the parser exports no list of them.
var aggregations = []string{"sum", "avg", "count", "min", "max", "group", "stddev", "stdvar", "topk", "bottomk",
	"count_values", "quantile", "limitk", "limit_ratio"}

// Functions returns the names of all functions and aggregations.
func Functions() []string {
	return slices.AppendSeq(slices.Clone(aggregations), maps.Keys(parser.Functions))
}

// ParsePromQL reports an error if an expression is not valid PromQL in every supported server.
func ParsePromQL(expr string) error {
	_, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	return err
}

// metricName matches probable metrics in an expression that does not parse. A colon or an
// underscore distinguishes them from words.
var metricName = regexp.MustCompile(`[a-zA-Z_][a-zA-Z0-9_]*[:_][a-zA-Z0-9_:]*`)

// UsesOf returns the metrics of an expression in the order of its text. Circulating rules have
// expressions that are not valid PromQL; their metrics are found by name.
func UsesOf(expr string) []MetricUse {
	if expr == "" {
		return nil
	}
	if strings.Count(expr, "(") < maxDeep {
		if e, err := Parser.ParseExpr(expr); err == nil {
			var out []MetricUse
			Walk(e, MetricUse{}, 0, &out)
			return out
		}
	}
	var out []MetricUse
	for _, m := range metricName.FindAllString(expr, 64) {
		out = append(out, MetricUse{Metric: m})
	}
	return out
}

// Walk collects the metrics of an expression; ctx describes the enclosing expression.
func Walk(e parser.Expr, ctx MetricUse, depth int, out *[]MetricUse) {
	if depth > 2*maxDeep {
		return
	}
	down := func(e parser.Expr, ctx MetricUse) { Walk(e, ctx, depth+1, out) }
	switch x := e.(type) {
	case *parser.VectorSelector:
		u := ctx
		u.Metric = x.Name
		var labels []string
		for _, m := range x.LabelMatchers {
			if m.Name == "__name__" {
				if u.Metric == "" {
					u.Metric = m.Value
				}
				continue
			}
			labels = append(labels, m.Name+"="+m.Value)
		}
		u.Labels, u.Sel = strings.Join(labels, ","), x
		*out = append(*out, u)
	case *parser.MatrixSelector:
		down(x.VectorSelector, ctx)
	case *parser.SubqueryExpr:
		down(x.Expr, ctx)
	case *parser.ParenExpr:
		down(x.Expr, ctx)
	case *parser.StepInvariantExpr:
		down(x.Expr, ctx)
	case *parser.UnaryExpr:
		down(x.Expr, ctx)
	case *parser.AggregateExpr:
		down(x.Expr, ctx.inside(x.Op.String()))
	case *parser.Call:
		for _, a := range x.Args {
			down(a, ctx.inside(x.Func.Name))
		}
	case *parser.BinaryExpr:
		left, right := ctx.sides(x)
		down(x.LHS, left)
		if x.Op != parser.LUNLESS {
			down(x.RHS, right)
		}
	}
}

func (u MetricUse) inside(fn string) MetricUse {
	u.Funcs = append(slices.Clone(u.Funcs), fn)
	return u
}

// sides returns the context of the two sides of a binary expression.
func (u MetricUse) sides(x *parser.BinaryExpr) (left, right MetricUse) {
	left, right = u, u
	switch x.Op {
	case parser.GTR, parser.GTE:
		left.Is, right.Is = "above", "below"
	case parser.LSS, parser.LTE:
		left.Is, right.Is = "below", "above"
		if n, ok := x.RHS.(*parser.NumberLiteral); ok && x.Op == parser.LTE && n.Val == 0 {
			left.Is = "zero"
		}
	case parser.EQLC:
		left.Is, right.Is = equals(x.RHS), equals(x.LHS)
	case parser.NEQ:
		left.Is = "above"
	case parser.SUB:
		right.Is = map[string]string{"above": "below", "below": "above"}[u.Is]
	case parser.DIV:
		right.Under = true
	case parser.LAND:
		right.Aside = true
	}
	return left, right
}

// equals returns the kind of a comparison for equality.
func equals(to parser.Expr) string {
	n, ok := to.(*parser.NumberLiteral)
	switch {
	case !ok:
		return ""
	case n.Val == 0:
		return "zero"
	}
	return "above"
}
