package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/prometheus/promql/parser"

	"paramedic/state"
)

// An AlertingRule is one of the fleet's own alert rules.
type AlertingRule struct {
	Group string
	Name  string
	Expr  string
	For   time.Duration
}

// Exported is what the fleet's Prometheus holds.
type Exported struct {
	// Metrics are the names of all series; nil: they are not known, and nothing is said of metrics that do not exist.
	Metrics map[string]bool
	// Router says that vllm:num_requests_* come twice: from engines, and with the label server from a router.
	Router bool
}

// A LintFinding is a reason why an alert rule does not do what it was written for, and what to do about it. It is critical where the rule
// can never fire or fires always, a warning where it misleads, and information where it may be meant.
type LintFinding struct {
	Group    string         `json:"group"`
	Rule     string         `json:"rule"`
	Severity state.Severity `json:"severity"`
	Text     string         `json:"text"`
	Fix      string         `json:"fix"`
}

// maxLinted is the longest expression that is looked at.
const maxLinted = 16 << 10

// Lint compares alert rules with what the fleet exports, in the order of the rules.
func Lint(in []AlertingRule, have Exported) []LintFinding {
	out := []LintFinding{}
	for _, r := range in {
		l := linter{rule: r, have: have}
		l.lint()
		out = append(out, l.found...)
	}
	return out
}

// A linter looks at one rule.
type linter struct {
	rule  AlertingRule
	have  Exported
	found []LintFinding
}

func (l *linter) say(s state.Severity, text, fix string) {
	f := LintFinding{Group: plain(l.rule.Group), Rule: plain(l.rule.Name), Severity: s, Text: printable(text), Fix: printable(fix)}
	if !slices.Contains(l.found, f) {
		l.found = append(l.found, f)
	}
}

// printable leaves out what a name of a metric could do to a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
}

func (l *linter) lint() {
	if len(l.rule.Expr) > maxLinted {
		l.say(state.Info, fmt.Sprintf("the expression has %d characters and was not looked at", len(l.rule.Expr)), "split the rule")
		return
	}
	expr, err := promql.ParseExpr(l.rule.Expr)
	if err != nil {
		l.say(state.Critical, "the expression does not parse: "+plain(err.Error()), "correct it; `promtool check rules` shows the place")
		return
	}
	for _, name := range l.dead(expr) {
		l.missing(name)
	}
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		switch x := n.(type) {
		case *parser.Call:
			l.call(x)
		case *parser.BinaryExpr:
			l.compared(x)
		case *parser.VectorSelector:
			l.bucket(x)
		}
		return nil
	})
	l.habits(usesOf(l.rule.Expr))
}

// dead are the metrics that do not exist and for want of which the expression never has a value.
func (l *linter) dead(e parser.Expr) []string {
	switch x := e.(type) {
	case *parser.VectorSelector:
		if name := selected(x); name != "" && l.have.Metrics != nil && !l.have.Metrics[name] && family(name) != "" {
			return []string{name}
		}
	case *parser.MatrixSelector:
		return l.dead(x.VectorSelector)
	case *parser.SubqueryExpr:
		return l.dead(x.Expr)
	case *parser.ParenExpr:
		return l.dead(x.Expr)
	case *parser.StepInvariantExpr:
		return l.dead(x.Expr)
	case *parser.UnaryExpr:
		return l.dead(x.Expr)
	case *parser.AggregateExpr:
		return l.dead(x.Expr)
	case *parser.Call:
		if strings.HasPrefix(x.Func.Name, "absent") {
			return nil // it is about what does not exist
		}
		var out []string
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
			return nil // the other side answers
		}
		return append(left, right...)
	}
	return nil
}

// selected is the metric that a selector names, if it names one.
func selected(x *parser.VectorSelector) string {
	if x.Name != "" {
		return x.Name
	}
	for _, m := range x.LabelMatchers {
		if m.Name == "__name__" && m.Type.String() == "=" {
			return m.Value
		}
	}
	return ""
}

// missing says what to use in place of a metric that is not exported.
func (l *linter) missing(name string) {
	if old, ok := formerly(name); ok {
		l.say(state.Critical, fmt.Sprintf("can never fire: %s is not exported here; %s", name, old.why), old.instead(name))
		return
	}
	if l.have.Metrics[name+"_bucket"] {
		l.say(state.Critical, fmt.Sprintf("can never fire: %s is a histogram and has no series of that name", name), fmt.Sprintf("take a quantile of %s_bucket, or divide rate(%s_sum[5m]) by rate(%s_count[5m])", name, name, name))
		return
	}
	for _, near := range []string{name + "_total", strings.TrimSuffix(name, "_total"), strings.Replace(name, "vllm_", "vllm:", 1), strings.Replace(name, "sglang_", "sglang:", 1)} {
		if near != name && l.have.Metrics[near] {
			l.say(state.Critical, fmt.Sprintf("can never fire: %s is not exported here, but %s is", name, near), "use "+near)
			return
		}
	}
	prefix := family(name)
	for have := range l.have.Metrics {
		if family(have) == prefix {
			text := fmt.Sprintf("cannot fire: %s is not exported here, though other %s* metrics are", name, prefix)
			if strings.HasSuffix(name, "_total") {
				text += " (or has not counted anything yet)"
			}
			l.say(state.Warning, text, "look at the engine's /metrics for what its version exports")
			return
		}
	}
	l.say(state.Info, fmt.Sprintf("cannot fire: nothing exports %s* metrics here, %s among them", prefix, name), "remove the rule, or scrape what it is about")
}

// call looks at single functions.
func (l *linter) call(x *parser.Call) {
	switch x.Func.Name {
	case "absent", "absent_over_time":
		if sel := selector(x.Args[0]); sel != nil {
			name := selected(sel)
			if old, ok := formerly(name); ok && l.have.Metrics != nil && !l.have.Metrics[name] {
				l.say(state.Critical, fmt.Sprintf("fires always: %s is absent on every engine of this fleet; %s", name, old.why), old.instead(name))
			}
		}
	case "histogram_quantile":
		l.quantile(x)
	}
}

// quantile looks at what a quantile is taken of.
func (l *linter) quantile(x *parser.Call) {
	metric := bucketOf(x.Args[1])
	if metric == "" {
		return // a native histogram, or recorded: nothing is known of its buckets
	}
	by := fmt.Sprintf("histogram_quantile(…, sum by (le, model_name) (rate(%s[5m])))", metric)
	agg, ok := unwrap(x.Args[1]).(*parser.AggregateExpr)
	if !ok {
		l.say(state.Warning, fmt.Sprintf("takes the quantile of every single series of %s: one slow worker, or one rare label, fires it", metric), "aggregate first: "+by)
		return
	}
	if slices.Contains(agg.Grouping, "le") == agg.Without {
		l.say(state.Critical, fmt.Sprintf("can never fire: the label le is aggregated away before histogram_quantile, which then has no buckets of %s", metric), "keep le: "+by)
	}
}

// compared looks at comparisons with a number.
func (l *linter) compared(x *parser.BinaryExpr) {
	if !x.Op.IsComparisonOperator() {
		return
	}
	side, limit := unwrap(x.LHS), x.RHS
	number, ok := unwrap(limit).(*parser.NumberLiteral)
	if !ok {
		return
	}
	call, ok := side.(*parser.Call)
	if !ok {
		if agg, isAgg := side.(*parser.AggregateExpr); isAgg {
			call, ok = unwrap(agg.Expr).(*parser.Call)
		}
		if !ok {
			return
		}
	}
	switch call.Func.Name {
	case "histogram_quantile":
		if below, above, between := betweenBuckets(bucketOf(call.Args[1]), number.Val); between {
			l.say(state.Warning, fmt.Sprintf("the threshold %s lies between the buckets %s and %s of %s: the quantile is a guess in between", edge(number.Val), edge(below), edge(above), bucketOf(call.Args[1])),
				fmt.Sprintf("use a bucket's edge: %s or %s", edge(below), edge(above)))
		}
	case "changes", "increase", "delta":
		window, ok := call.Args[0].(*parser.MatrixSelector)
		if ok && number.Val == 0 && x.Op == parser.GTR && l.rule.For > 0 && l.rule.For >= window.Range {
			l.say(state.Critical, fmt.Sprintf("can never fire for a single event: after `for: %s` it has left the window of %s", short(l.rule.For), short(window.Range)), "make the window longer than `for`, or drop `for`")
		}
	}
}

// bucket finds le matchers that no bucket has.
func (l *linter) bucket(x *parser.VectorSelector) {
	for _, m := range x.LabelMatchers {
		if m.Name != "le" || m.Type.String() != "=" {
			continue
		}
		value, err := strconv.ParseFloat(m.Value, 64)
		if err != nil {
			continue
		}
		if below, above, between := betweenBuckets(x.Name, value); between {
			l.say(state.Critical, fmt.Sprintf("%s has no bucket le=%q: the selector finds nothing", x.Name, m.Value), fmt.Sprintf("use le=%q or le=%q, written as the engine writes it", edge(below), edge(above)))
		}
	}
}

// unwrap takes parentheses away.
func unwrap(e parser.Expr) parser.Expr {
	for {
		switch x := e.(type) {
		case *parser.ParenExpr:
			e = x.Expr
		case *parser.StepInvariantExpr:
			e = x.Expr
		default:
			return e
		}
	}
}

// selector is the selector of an expression that is nothing else.
func selector(e parser.Expr) *parser.VectorSelector {
	switch x := unwrap(e).(type) {
	case *parser.VectorSelector:
		return x
	case *parser.MatrixSelector:
		return selector(x.VectorSelector)
	}
	return nil
}

// bucketOf is the first histogram that an expression reads, as its series of buckets; empty where it reads none.
func bucketOf(e parser.Expr) string {
	found := ""
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if x, ok := n.(*parser.VectorSelector); ok && found == "" && strings.HasSuffix(x.Name, "_bucket") {
			found = x.Name
		}
		return nil
	})
	return found
}

// short is a duration without its empty parts.
func short(d time.Duration) string {
	s := d.String()
	for _, empty := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, empty) {
			s = s[:len(s)-2]
		}
	}
	return s
}
