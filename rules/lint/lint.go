package lint

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"paramedic/internal/text"
	"paramedic/rules/lint/threshold"
	"paramedic/rules/promql"
	"paramedic/state"
)

// An AlertingRule is one of the fleet's own alert rules.
type AlertingRule struct {
	Group string
	Name  string
	Expr  string
	For   time.Duration
	Holds bool // its expression returns series now, so that it fires or is pending; false if unknown
}

// A RecordingRule is one of the fleet's recording rules. An alert rule that reads its series is
// checked with its expression.
type RecordingRule struct {
	Name   string
	Expr   string
	Labels map[string]string // that the rule sets
}

// Exported describes the series in the fleet's Prometheus.
type Exported struct {
	// Metrics are the names of all series. If it is nil they are unknown, and missing metrics are
	// not reported.
	Metrics map[string]bool
	// Earlier are names of [Suspects] without a series now, but with one in the last week; nil:
	// unknown.
	Earlier map[string]bool
	// Router means that vllm:num_requests_* exist twice: from engines, and with the label server
	// from a router.
	Router bool
	// Recorded are the recording rules.
	Recorded []RecordingRule
	// Scraped maps each job to the shortest scrape interval of its targets; nil: unknown.
	Scraped map[string]time.Duration
	// Labels maps metrics to the labels of their series, and to the values of the labels that
	// [Lookups] asks for (nil: unknown). Metrics that are not in it are unknown.
	Labels map[string]map[string][]string
}

// A Finding is a reason why an alert rule does not work as intended, with a fix. It is critical
// if the rule never or always fires. It is a warning if the rule misleads, and information
// if the rule may be intended.
type Finding struct {
	Group    string         `json:"group"`
	Rule     string         `json:"rule"`
	Severity state.Severity `json:"severity"`
	Text     string         `json:"text"`
	Fix      string         `json:"fix"`
}

// maxLinted limits the length of a checked expression, in bytes.
const maxLinted = 16 << 10

// Lint checks alert rules against what the fleet exports. The findings are in the order of the
// rules.
func Lint(in []AlertingRule, have Exported) []Finding {
	out, known := []Finding{}, newInventory(have)
	for _, r := range in {
		l := linter{rule: r, inventory: known}
		l.lint()
		out = append(out, l.found...)
	}
	return out
}

// A linter checks one rule.
type linter struct {
	rule AlertingRule
	*inventory
	expanded
	behind string // the recording rule that contains the present finding
	found  []Finding
}

// report adds a finding. In a fix, only PromQL is in backquotes.
func (l *linter) report(s state.Severity, what, fix string) {
	if l.behind != "" {
		what += ", in the recording rule " + l.behind
	}
	f := Finding{Group: text.Phrase(l.rule.Group), Rule: text.Phrase(l.rule.Name), Severity: s,
		Text: text.Clean(what),
		Fix:  text.Clean(fix)}
	if !slices.Contains(l.found, f) {
		l.found = append(l.found, f)
	}
}

func (l *linter) lint() {
	if len(l.rule.Expr) > maxLinted {
		l.report(state.Info, fmt.Sprintf("the expression has %d characters and was not checked", len(l.rule.Expr)),
			"split the rule")
		return
	}
	if _, err := promql.Parser.ParseExpr(l.rule.Expr); err != nil {
		l.report(state.Critical, "the expression does not parse: "+text.Phrase(err.Error()),
			"correct it; promtool check rules shows the place")
		return
	}
	for e := range l.readings(l.rule.Expr) {
		l.expanded = e
		l.look()
	}
}

// look checks one reading of the expression.
func (l *linter) look() {
	nothing := l.dead(l.expr)
	for _, g := range nothing {
		l.behind = l.from[g.sel]
		l.gone(g)
	}
	if len(nothing) == 0 {
		l.thresholdless()
	}
	dead := func(n parser.Node) bool {
		return slices.ContainsFunc(nothing, func(g deadSelector) bool { return g.sel == n })
	}
	parser.Inspect(l.expr, func(n parser.Node, path []parser.Node) error {
		if n == nil || len(nothing) > 0 &&
			slices.ContainsFunc(promql.SelectorsOf(n), func(s *parser.VectorSelector) bool { return dead(s) }) {
			return nil // one reason is enough
		}
		l.behind = l.origin(n)
		switch x := n.(type) {
		case *parser.Call:
			l.call(x)
			l.sparse(x, path)
		case *parser.AggregateExpr:
			l.grouped(x)
		case *parser.BinaryExpr:
			l.compared(x, path)
			l.boolean(x, path)
			l.inferred(x)
			l.matched(x)
		case *parser.VectorSelector:
			l.bucket(x)
		}
		return nil
	})
	var uses []promql.MetricUse
	promql.Walk(l.expr, promql.MetricUse{}, 0, &uses)
	l.habits(slices.DeleteFunc(uses, func(u promql.MetricUse) bool { return dead(u.Sel) }))
}

// deadSelector is a selector that matches no series: the metric does not exist, or no series has a
// label that a matcher needs.
type deadSelector struct {
	sel     *parser.VectorSelector
	matcher *labels.Matcher
}

// dead returns the selectors that match no series and without which the expression has no value.
func (l *linter) dead(e parser.Expr) []deadSelector {
	switch x := e.(type) {
	case *parser.VectorSelector:
		return l.lacks(x)
	case *parser.MatrixSelector:
		return l.dead(x.VectorSelector)
	case *parser.SubqueryExpr:
		return l.dead(x.Expr)
	case *parser.ParenExpr:
		if sel := l.recorded[x]; sel != nil {
			if g := l.unlabelled(sel); g != nil {
				return g
			}
		}
		return l.dead(x.Expr)
	case *parser.StepInvariantExpr:
		return l.dead(x.Expr)
	case *parser.UnaryExpr:
		return l.dead(x.Expr)
	case *parser.AggregateExpr:
		return l.dead(x.Expr)
	case *parser.Call:
		if strings.HasPrefix(x.Func.Name, "absent") {
			return nil // it expects missing series
		}
		var out []deadSelector
		for _, a := range x.Args {
			out = append(out, l.dead(a)...)
		}
		return out
	case *parser.BinaryExpr:
		left := l.dead(x.LHS)
		if x.Op == parser.LUNLESS {
			return left
		}
		right := l.dead(x.RHS)
		if x.Op == parser.LOR && (len(left) == 0 || len(right) == 0) {
			return nil // the other side has a value
		}
		return append(left, right...)
	}
	return nil
}

// call checks single functions.
func (l *linter) call(x *parser.Call) {
	switch x.Func.Name {
	case "absent", "absent_over_time":
		if sel := promql.Selector(x.Args[0]); sel != nil {
			old, ok := formerly(sel.Name)
			switch {
			case l.have.Metrics == nil || l.have.Metrics[sel.Name]:
			case ok:
				l.report(state.Critical, fmt.Sprintf("always fires: no engine of this fleet exports %s; %s",
					sel.Name, old.why), old.instead(sel.Name))
			default:
				l.misspeltAbsence(x, sel)
			}
		}
	case "histogram_quantile":
		l.quantile(x)
	default:
		l.unchanging(x)
	}
}

// unchanging reports functions of change over the gauge of the last Xid if its exporter puts the
// code into a label: the value of each series never changes.
func (l *linter) unchanging(x *parser.Call) {
	if !slices.Contains(moving, x.Func.Name) {
		return
	}
	sel := lastXid(x)
	if _, labelled := l.have.Labels[xidErrors]["err_code"]; sel == nil || !labelled {
		return
	}
	l.report(state.Critical, fmt.Sprintf(
		"never fires: the exporter here puts the code into the label err_code. A new code is a new "+
			"series, and %s of each series is zero", x.Func.Name),
		fmt.Sprintf("remove the label first: `changes((max by (UUID) (%s))[15m:15s]) > 0`", xidErrors))
}

// lastXid returns the selector of the last Xid if the function reads its series directly, not
// aggregated; else nil.
func lastXid(x *parser.Call) *parser.VectorSelector {
	if len(x.Args) == 0 {
		return nil
	}
	e := promql.Unwrap(x.Args[0])
	if sub, ok := e.(*parser.SubqueryExpr); ok {
		e = promql.Unwrap(sub.Expr)
	}
	if m, ok := e.(*parser.MatrixSelector); ok {
		e = m.VectorSelector
	}
	if sel, ok := e.(*parser.VectorSelector); ok && sel.Name == xidErrors {
		return sel
	}
	return nil
}

// quantile checks the argument of histogram_quantile.
func (l *linter) quantile(x *parser.Call) {
	metric := bucketOf(x.Args[1])
	if metric == "" {
		return // a native or recorded histogram, with unknown buckets
	}
	which := "0.95"
	if q, ok := threshold.Constant(x.Args[0]); ok {
		which = threshold.Format(q)
		if q < 0 || q > 1 {
			fix := "use a quantile from 0 to 1"
			if q > 1 && q <= 100 {
				fix = fmt.Sprintf("write %s for %s %%", threshold.Format(q/100), which)
			}
			l.report(state.Critical, fmt.Sprintf(
				"the quantile %s is not between 0 and 1: histogram_quantile then returns an infinite number for every value of "+
					"%s", which, metric), fix)
			return
		}
	}
	for _, part := range parts(x.Args[1]) {
		agg, ok := part.(*parser.AggregateExpr)
		if !ok {
			if bucketOf(part) != "" {
				l.report(state.Warning, fmt.Sprintf(
					"takes the quantile of every single series of %s: one slow worker or one rare label value fires it",
					metric),
					fmt.Sprintf("aggregate first: `%s`", quantileOf(which, metric, l.plainly(part, metric))))
			}
			continue
		}
		for ; ok; agg, ok = promql.Unwrap(agg.Expr).(*parser.AggregateExpr) {
			if slices.Contains(agg.Grouping, "le") == agg.Without {
				l.report(state.Critical, fmt.Sprintf(
					"never fires: the aggregation removes the label le, so histogram_quantile has no "+
						"buckets of %s", metric),
					fmt.Sprintf("keep le: `%s`", quantileOf(which, metric, l.plainly(agg.Expr, metric))))
				break
			}
		}
	}
}

// plainly returns the rule's own expression for the buckets if it is short and has no aggregation,
// and a rate otherwise.
func (l *linter) plainly(e parser.Expr, metric string) string {
	if call, ok := promql.Unwrap(e).(*parser.Call); ok && len(call.Args) == 1 && promql.Selector(call.Args[0]) != nil &&
		len(call.String()) < 200 {
		return call.String()
	}
	return "rate(" + metric + "[5m])"
}

// quantileOf returns a quantile by model, with the model label of the metric's engine. Metrics of
// unknown origin get one quantile.
func quantileOf(q, metric, of string) string {
	by := "le, model_name"
	switch family(metric) {
	case "":
		by = "le"
	case "dynamo_":
		by = "le, model"
	}
	return fmt.Sprintf("histogram_quantile(%s, sum by (%s) (%s))", q, by, of)
}

// parts returns the operands of binary operations, recursively, or the expression itself.
func parts(e parser.Expr) []parser.Expr {
	switch x := promql.Unwrap(e).(type) {
	case *parser.BinaryExpr:
		return append(parts(x.LHS), parts(x.RHS)...)
	case *parser.Call:
		if strings.HasPrefix(x.Func.Name, "label_") {
			return parts(x.Args[0])
		}
		return []parser.Expr{x}
	default:
		return []parser.Expr{x}
	}
}

// bucketOf returns the first bucket metric that an expression reads; "" if there is none.
func bucketOf(e parser.Expr) string {
	for _, x := range promql.SelectorsOf(e) {
		if strings.HasSuffix(x.Name, "_bucket") {
			return x.Name
		}
	}
	return ""
}
