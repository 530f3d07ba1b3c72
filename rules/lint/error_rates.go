package lint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"paramedic/rules/lint/threshold"
	"paramedic/rules/promql"
	"paramedic/state"
)

// ended is vLLM's counter of requests that the engine finished, by reason. Requests that the API
// server rejects or answers with a 5xx never reach it; requests that a client cancels do.
const ended = "vllm:request_success_total"

// fixErrors is the fix: where errors are counted.
const fixErrors = "count the answers of the API server: " +
	"`sum(rate(http_requests_total{handler=~\"/v1/.*\",status=~\"5.*\"}[5m])) / " +
	"sum(rate(http_requests_total{handler=~\"/v1/.*\"}[5m])) > 0.01`"

// requestCounters matches the counters that rules compare that counter with.
var requestCounters = regexp.MustCompile(`requests?(_.*)?_(total|count)$`)

// reasonError reports rules that look for errors in the engine's finish reasons.
func (l *linter) reasonError(x *parser.VectorSelector) {
	for _, m := range x.LabelMatchers {
		if m.Name != reasons[ended] || m.Type != labels.MatchEqual && m.Type != labels.MatchRegexp {
			continue
		}
		if m.Value == "error" || slices.Contains(m.SetMatches(), "error") {
			l.report(state.Warning, fmt.Sprintf(
				"misses errors: %s counts only requests that the engine finished. Rejected requests and answers with 5xx have no "+
					"%s in it", ended, m.Name), fixErrors)
		}
	}
}

// inferred reports error rates that subtract the engine's finished requests from all requests.
func (l *linter) inferred(x *parser.BinaryExpr) {
	if !leftOver(x) {
		return
	}
	l.report(state.Warning, fmt.Sprintf(
		"is not an error rate: %s counts all requests that the engine finished, also cancelled ones. The others failed, still "+
			"run, or never reached the engine", ended), fixErrors)
}

// leftOver reports whether an expression computes or compares the share missing from that counter:
// 1 - a / b, a / b < 0.99 or (b - a) / b.
func leftOver(x *parser.BinaryExpr) bool {
	switch x.Op {
	case parser.SUB:
		if _, number := threshold.Constant(x.LHS); !number {
			return false
		}
		return endedShare(threshold.ValueOf(x.RHS))
	case parser.DIV:
		less, ok := promql.Unwrap(x.LHS).(*parser.BinaryExpr)
		return ok && less.Op == parser.SUB && promql.Unwrap(less.LHS).String() == promql.Unwrap(x.RHS).String() &&
			endedShare(&parser.BinaryExpr{Op: parser.DIV, LHS: less.RHS, RHS: x.RHS})
	}
	c, ok := threshold.Parse(x)
	return ok && (c.Op == parser.LSS || c.Op == parser.LTE) && endedShare(c.Of)
}

// endedShare reports whether an expression is the share of requests that the engine finished. A
// comparison of the counter with its own past shows less traffic, and requests with unusual finish
// reasons are no successes; neither counts.
func endedShare(e parser.Expr) bool {
	x, ok := promql.Unwrap(e).(*parser.BinaryExpr)
	if !ok || x.Op != parser.DIV {
		return false
	}
	part, ok := totalOf(x.LHS)
	if !ok || part.sel.Name != ended ||
		slices.ContainsFunc(part.sel.LabelMatchers,
			func(m *labels.Matcher) bool { return m.Name == reasons[ended] && !m.Matches("stop") }) {
		return false
	}
	narrowed := slices.ContainsFunc(part.sel.LabelMatchers,
		func(m *labels.Matcher) bool { return m.Name == reasons[ended] })
	whole := promql.SelectorsOf(x.RHS)
	return len(whole) > 0 && !slices.ContainsFunc(whole, func(s *parser.VectorSelector) bool {
		return s.OriginalOffset != part.sel.OriginalOffset ||
			!requestCounters.MatchString(strings.TrimPrefix(s.Name, "vllm:")) || s.Name == ended && !narrowed
	})
}
