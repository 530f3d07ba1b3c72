package rules

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

const (
	maxURL  = 16 << 10 // longer generatorURLs are ignored, in bytes
	maxExpr = 4 << 10  // and longer expressions
	maxDeep = 100      // and expressions with more parentheses
)

// A use is one metric of an alert's expression, and how the rule uses it.
type use struct {
	metric string
	funcs  []string
	is     string                 // above, below, zero; empty: not compared
	labels string                 // the selector's matchers, as label=value pairs
	under  bool                   // the metric is a divisor of another
	sel    *parser.VectorSelector // nil if the expression does not parse
}

// expressionOf returns the rule's expression from an alert's generatorURL; "" if there is none.
func expressionOf(generatorURL string) string {
	if generatorURL == "" || len(generatorURL) > maxURL {
		return ""
	}
	u, err := url.Parse(generatorURL)
	if err != nil {
		return ""
	}
	expr := u.Query().Get("g0.expr")
	if len(expr) > maxExpr {
		return ""
	}
	return expr
}

var promql = parser.NewParser(parser.Options{EnableExperimentalFunctions: true, ExperimentalDurationExpr: true})

// aggregations are PromQL's; the parser exports no list of them.
var aggregations = []string{"sum", "avg", "count", "min", "max", "group", "stddev", "stdvar", "topk", "bottomk", "count_values", "quantile", "limitk", "limit_ratio"}

// promqlFunctions returns the names of all functions and aggregations.
func promqlFunctions() []string {
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

// usesOf returns the metrics of an expression in the order of its text. Circulating rules have
// expressions that are not valid PromQL; their metrics are found by name.
func usesOf(expr string) []use {
	if expr == "" {
		return nil
	}
	if strings.Count(expr, "(") < maxDeep {
		if e, err := promql.ParseExpr(expr); err == nil {
			var out []use
			walk(e, use{}, 0, &out)
			return out
		}
	}
	var out []use
	for _, m := range metricName.FindAllString(expr, 64) {
		out = append(out, use{metric: m})
	}
	return out
}

// walk collects the metrics of an expression; ctx describes the enclosing expression.
func walk(e parser.Expr, ctx use, depth int, out *[]use) {
	if depth > 2*maxDeep {
		return
	}
	down := func(e parser.Expr, ctx use) { walk(e, ctx, depth+1, out) }
	switch x := e.(type) {
	case *parser.VectorSelector:
		u := ctx
		u.metric = x.Name
		var labels []string
		for _, m := range x.LabelMatchers {
			if m.Name == "__name__" {
				if u.metric == "" {
					u.metric = m.Value
				}
				continue
			}
			labels = append(labels, m.Name+"="+m.Value)
		}
		u.labels, u.sel = strings.Join(labels, ","), x
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

func (u use) inside(fn string) use {
	u.funcs = append(slices.Clone(u.funcs), fn)
	return u
}

// sides returns the context of the two sides of a binary expression.
func (u use) sides(x *parser.BinaryExpr) (left, right use) {
	left, right = u, u
	switch x.Op {
	case parser.GTR, parser.GTE:
		left.is, right.is = "above", "below"
	case parser.LSS, parser.LTE:
		left.is, right.is = "below", "above"
		if n, ok := x.RHS.(*parser.NumberLiteral); ok && x.Op == parser.LTE && n.Val == 0 {
			left.is = "zero"
		}
	case parser.EQLC:
		left.is, right.is = equals(x.RHS), equals(x.LHS)
	case parser.NEQ:
		left.is = "above"
	case parser.SUB:
		right.is = map[string]string{"above": "below", "below": "above"}[u.is]
	case parser.DIV:
		right.under = true
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

// bare returns a metric's name without the suffixes of histograms and counters.
func bare(metric string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count", "_created"} {
		if s, ok := strings.CutSuffix(metric, suffix); ok {
			return s
		}
	}
	return metric
}

// onRay are the prefixes that Ray gives to vLLM's metrics: its own name before vLLM's, and in later
// releases an underscore in place of the colon.
var onRay = []string{"ray_vllm_", "ray_vllm:"}

// OffRay returns vLLM's own name of a metric that Ray exports. Other metrics keep their names.
func OffRay(metric string) string {
	for _, prefix := range onRay {
		if name, ok := strings.CutPrefix(metric, prefix); ok {
			return "vllm:" + name
		}
	}
	return metric
}

// colon returns the metric in vLLM's spelling. Many articles and exporters replace the colon by an
// underscore.
func colon(metric string) string {
	metric = OffRay(metric)
	if name, ok := strings.CutPrefix(metric, "vllm_"); ok {
		return "vllm:" + name
	}
	return metric
}
