package lint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"

	"paramedic/rules/lint/threshold"
	"paramedic/rules/promql"
	"paramedic/state"
)

// alwaysPresentMetrics lists gauges of engines that have a value as long as the process runs. The
// same holds for those of [knownTops] and for the fields that DCGM reads from a GPU.
var alwaysPresentMetrics = []string{
	"vllm:num_requests_running", "vllm:num_requests_waiting", "sglang:num_running_reqs", "sglang:num_queue_reqs",
	"sglang:num_used_tokens", "sglang:gen_throughput", "trtllm_num_requests_running", "trtllm_num_requests_waiting",
	"dynamo_frontend_active_requests", "dynamo_frontend_inflight_requests",
}

// newXid is an expression for an Xid that is younger than 15 minutes.
const newXid = "changes((max by (UUID) (" + xidErrors + "))[15m:15s]) > 0"

// thresholdless reports rules without a comparison: Prometheus fires for every series of an
// expression, even if its value is 0.
func (l *linter) thresholdless() {
	sel := l.alwaysHolds(l.expr)
	if sel == nil {
		return
	}
	l.behind = l.from[sel]
	fix := "compare with the value at which it is a problem"
	switch {
	case sel.Name == xidErrors:
		fix = "look for a new code: `" + newXid + "`"
	case slices.ContainsFunc(caches, func(c cache) bool { return c.usage == sel.Name }):
		fix = "watch " + caches[slices.IndexFunc(caches, func(c cache) bool { return c.usage == sel.Name })].watched()
	case knownTops[sel.Name] == 1:
		fix += fmt.Sprintf(", such as `%s > 0.9`", sel.Name)
	}
	l.report(state.Critical, fmt.Sprintf(
		"always fires: there is no comparison, so the rule fires for every value, also for 0; %s always has a value",
		sel.Name), fix)
}

// alwaysHolds returns a gauge that gives the expression a value as long as its exporter runs. It
// returns nil if there is none, or if that is unknown.
func (l *linter) alwaysHolds(e parser.Expr) *parser.VectorSelector {
	switch x := promql.Unwrap(e).(type) {
	case *parser.VectorSelector:
		if l.alwaysPresent(x) {
			return x
		}
	case *parser.MatrixSelector:
		return l.alwaysHolds(x.VectorSelector)
	case *parser.SubqueryExpr:
		return l.alwaysHolds(x.Expr)
	case *parser.UnaryExpr:
		return l.alwaysHolds(x.Expr)
	case *parser.AggregateExpr:
		return l.alwaysHolds(x.Expr)
	case *parser.Call:
		if strings.HasPrefix(x.Func.Name, "absent") {
			return nil
		}
		for _, a := range x.Args {
			if sel := l.alwaysHolds(a); sel != nil {
				return sel
			}
		}
	case *parser.BinaryExpr:
		return l.bothStand(x)
	}
	return nil
}

// bothStand does the same for a binary operation. A comparison filters series, so its result may be
// empty.
func (l *linter) bothStand(x *parser.BinaryExpr) *parser.VectorSelector {
	if x.Op.IsComparisonOperator() || x.Op == parser.LUNLESS {
		return nil
	}
	left, right := l.alwaysHolds(x.LHS), l.alwaysHolds(x.RHS)
	if x.Op == parser.LOR {
		if left != nil {
			return left
		}
		return right
	}
	if _, number := threshold.Constant(x.RHS); number {
		return left
	}
	if _, number := threshold.Constant(x.LHS); number {
		return right
	}
	if left == nil || right == nil {
		return nil
	}
	return left
}

// alwaysPresent reports whether a selector always matches a series. Labels other than those of
// [identity] have values that come and go.
func (l *linter) alwaysPresent(x *parser.VectorSelector) bool {
	known := knownTops[x.Name] > 0 || slices.Contains(alwaysPresentMetrics, x.Name) || strings.HasPrefix(x.Name, "DCGM_FI_")
	if !known || !l.have.Metrics[x.Name] {
		return false
	}
	for _, m := range x.LabelMatchers {
		if m.Name != promql.NameLabel && selective(m) && !slices.Contains(identity, m.Name) {
			return false
		}
	}
	return true
}
