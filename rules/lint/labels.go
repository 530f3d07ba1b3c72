package lint

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"paramedic/rules/lint/threshold"
	"paramedic/rules/promql"
	"paramedic/state"
)

// selective reports whether a matcher requires its label to be present.
func selective(m *labels.Matcher) bool { return !m.Matches("") }

// valuesOf returns the values of a label of a metric's series, if they are known.
func (c *inventory) valuesOf(metric, label string) []string { return c.have.Labels[metric][label] }

// unlabelled returns the first matcher of a selector that no series of its metric satisfies.
func (l *linter) unlabelled(x *parser.VectorSelector) []deadSelector {
	has, known := l.have.Labels[x.Name]
	if !known {
		return nil
	}
	for _, m := range x.LabelMatchers {
		if m.Name == promql.NameLabel || !selective(m) {
			continue
		}
		values, exists := has[m.Name]
		switch {
		case !exists:
			return []deadSelector{{sel: x, matcher: m}}
		case values == nil || slices.ContainsFunc(values, m.Matches):
		case lasting(x.Name, m):
			return []deadSelector{{sel: x, matcher: m}}
		}
	}
	return nil
}

// identity lists the labels that identify a worker, model or node. The values of other labels
// describe events, and appear with the first event.
var identity = []string{"le", "model_name", "model", "engine", "namespace", "exported_namespace", "pod", "exported_pod",
	"container", "exported_container", "job", "instance", "service", "endpoint", "cluster", "node", "Hostname",
	"hostname", "gpu", "UUID", "device", "modelName", "pool", "name", "inference_pool", "server"}

// reasons maps metrics to their label for the reason why a request finished. vLLM exports all
// reasons of its version from the start.
var reasons = map[string]string{"vllm:request_success_total": "finished_reason"}

// lasting reports whether all values of a matcher's label exist from the start.
func lasting(metric string, m *labels.Matcher) bool {
	return slices.Contains(identity, m.Name) || reasons[metric] == m.Name
}

// labelSynonyms lists labels that are often confused: exporters in this field use two names for one
// thing.
var labelSynonyms = map[string]string{
	"model": "model_name", "model_name": "model",
	"pod": "exported_pod", "exported_pod": "pod",
	"namespace": "exported_namespace", "exported_namespace": "namespace",
	"container": "exported_container", "exported_container": "container",
	"hostname": "Hostname", "Hostname": "hostname",
	"node": "Hostname", "finish_reason": "finished_reason",
	"finished_reason": "finish_reason", "gpu_id": "gpu",
	"uuid": "UUID",
}

// unmatched reports that no series of a metric satisfies a matcher, with the labels or values that
// exist.
func (l *linter) unmatched(x *parser.VectorSelector, m *labels.Matcher) {
	has := l.have.Labels[x.Name]
	values, exists := has[m.Name]
	twin, twinned := labelSynonyms[m.Name]
	if _, there := has[twin]; twinned && there &&
		(!exists || len(has[twin]) == 0 || slices.ContainsFunc(has[twin], m.Matches)) {
		l.report(state.Critical, fmt.Sprintf("never fires: no series of %s has %s here; the label is called %s", x.Name,
			m, twin),
			fmt.Sprintf("use `%s`", inPlace(x, m, twin)))
		return
	}
	switch {
	case !exists && x.Name == xidErrors && (m.Name == "err_code" || m.Name == "xid"):
		code := "79"
		if m.Type == labels.MatchEqual {
			if _, err := strconv.Atoi(m.Value); err == nil {
				code = m.Value
			}
		}
		l.report(state.Critical, fmt.Sprintf(
			"never fires: %s has no label %s from the exporter here; its value is the code", x.Name, m.Name),
			fmt.Sprintf("compare the value: `%[1]s == %[2]s unless %[1]s offset 15m == %[2]s`", x.Name, code))
	case !exists:
		l.report(state.Critical, fmt.Sprintf("never fires: no series of %s has a label %s here", x.Name, m.Name),
			"use "+oneOf(slices.Sorted(maps.Keys(has))))
	case m.Name == "le":
		l.report(state.Critical, fmt.Sprintf("%s has no bucket %s, so the selector matches nothing", x.Name, m),
			"use "+nearest(values, m.Value))
	default:
		l.report(state.Warning, fmt.Sprintf("does not fire: no series of %s has %s here", x.Name, m),
			"use "+oneOf(slices.Sorted(slices.Values(values))))
	}
}

// inPlace returns the selector with the matcher's label replaced.
func inPlace(x *parser.VectorSelector, m *labels.Matcher, label string) string {
	var all []string
	for _, o := range x.LabelMatchers {
		if o.Name == promql.NameLabel {
			continue
		}
		if o == m {
			o = &labels.Matcher{Type: m.Type, Name: label, Value: m.Value}
		}
		all = append(all, o.String())
	}
	return x.Name + "{" + strings.Join(all, ",") + "}"
}

// nearest returns the bucket edges next to a wanted one, as the engine writes them.
func nearest(values []string, want string) string {
	at, err := strconv.ParseFloat(want, 64)
	if err != nil {
		return oneOf(values)
	}
	below, above := "", ""
	for _, v := range sortedEdges(values) {
		switch edge, _ := strconv.ParseFloat(v, 64); { // sortedEdges returns only numbers
		case edge == at:
			return fmt.Sprintf("le=%q, as the engine exports it", v)
		case edge < at:
			below = v
		case above == "":
			above = v
		}
	}
	switch {
	case below == "":
		return fmt.Sprintf("le=%q", above)
	case above == "":
		return fmt.Sprintf("le=%q", below)
	}
	return fmt.Sprintf("le=%q or le=%q", below, above)
}

// sortedEdges returns a histogram's finite edges in ascending order, as the engine writes them.
func sortedEdges(values []string) []string {
	at := map[string]float64{}
	for _, v := range values {
		if edge, err := strconv.ParseFloat(v, 64); err == nil && v != "+Inf" {
			at[v] = edge
		}
	}
	return slices.SortedFunc(maps.Keys(at), func(a, b string) int {
		switch {
		case at[a] < at[b]:
			return -1
		case at[a] > at[b]:
			return 1
		}
		return strings.Compare(a, b)
	})
}

// oneOf returns the choice of some names, or the only one.
func oneOf(all []string) string {
	if len(all) == 1 {
		return all[0]
	}
	return "one of " + few(all)
}

// few returns the first items of a list and the number of the others.
func few(all []string) string {
	const shown = 8
	if len(all) == 0 {
		return "none"
	}
	if more := len(all) - shown; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:shown], ", "), more)
	}
	return strings.Join(all, ", ")
}

// single returns the only selector of an expression if the expression keeps its labels; else nil.
func single(e parser.Expr) *parser.VectorSelector {
	switch x := promql.Unwrap(e).(type) {
	case *parser.VectorSelector:
		return x
	case *parser.MatrixSelector:
		return single(x.VectorSelector)
	case *parser.SubqueryExpr:
		return single(x.Expr)
	case *parser.Call:
		if len(x.Args) == 1 && !strings.HasPrefix(x.Func.Name, "absent") && x.Func.Name != "vector" {
			return single(x.Args[0])
		}
	case *parser.BinaryExpr:
		if _, ok := threshold.Constant(x.RHS); ok {
			return single(x.LHS)
		}
		if _, ok := threshold.Constant(x.LHS); ok {
			return single(x.RHS)
		}
	}
	return nil
}

// grouped reports grouping labels that no series has: the aggregation then merges too many series.
func (l *linter) grouped(x *parser.AggregateExpr) {
	sel := single(x.Expr)
	if sel == nil || x.Without || len(x.Grouping) == 0 {
		return
	}
	has, known := l.have.Labels[sel.Name]
	if !known {
		return
	}
	var lost []string
	for _, label := range x.Grouping {
		if _, ok := has[label]; ok || label == "le" {
			continue
		}
		lost = append(lost, label)
		twin := labelSynonyms[label]
		if _, there := has[twin]; there && !slices.Contains(x.Grouping, twin) {
			l.report(state.Warning, fmt.Sprintf("groups everything into one: no series of %s has a label %s here; it is called %s",
				sel.Name, label, twin), "group by "+twin)
			return
		}
	}
	if len(lost) == len(x.Grouping) {
		l.report(state.Warning, fmt.Sprintf("groups everything into one: no series of %s has a label %s here", sel.Name,
			strings.Join(lost, ", ")), "group by "+few(slices.Sorted(maps.Keys(has))))
	}
}

// matched reports binary operations whose sides never match, because only one side has a label that
// they are matched on.
func (l *linter) matched(x *parser.BinaryExpr) {
	v := x.VectorMatching
	if v == nil || x.Op == parser.LOR || v.Card != parser.CardOneToOne && v.Card != parser.CardManyToMany && !v.On {
		return
	}
	left, right := l.labelsOf(x.LHS), l.labelsOf(x.RHS)
	if left == nil || right == nil {
		return
	}
	var alone []string
	for _, label := range slices.Sorted(maps.Keys(left)) {
		if !right[label] {
			alone = append(alone, label)
		}
	}
	for _, label := range slices.Sorted(maps.Keys(right)) {
		if !left[label] {
			alone = append(alone, label)
		}
	}
	alone = slices.DeleteFunc(alone, func(label string) bool {
		if v.On {
			return !slices.Contains(v.MatchingLabels, label)
		}
		return slices.Contains(v.MatchingLabels, label) || !slices.Contains(inherent, label)
	})
	if len(alone) == 0 {
		return
	}
	what := "never matches"
	if x.Op == parser.LUNLESS {
		what = "excludes nothing"
	}
	var both []string
	for _, label := range slices.Sorted(maps.Keys(left)) {
		if right[label] && !slices.Contains(scraped, label) {
			both = append(both, label)
		}
	}
	fix := "relabel the series of one side, so that both sides share a label"
	if len(both) > 0 {
		fix = fmt.Sprintf("match with on (…) by labels that mean the same on both sides; both have %s", few(both))
	}
	l.report(state.Warning, fmt.Sprintf("%s %s: it matches by %s, which only one side has", x.Op, what,
		few(alone)), fix)
}

// inherent lists labels that all series of a metric have if one has them, because the exporter sets
// them. Scrapes and routers add other labels only to some series.
var inherent = []string{"le", "finished_reason", "reason", "status", "mode", "UUID"}

// scraped lists labels of the scrape target, which differ between exporters.
var scraped = []string{"job", "instance", "endpoint", "service", "container"}

// labelsOf returns the labels that the series of an expression can have; nil if unknown.
func (l *linter) labelsOf(e parser.Expr) map[string]bool {
	switch x := promql.Unwrap(e).(type) {
	case *parser.VectorSelector:
		has, known := l.have.Labels[x.Name]
		if !known {
			return nil
		}
		out := map[string]bool{}
		for label := range has {
			out[label] = true
		}
		return out
	case *parser.MatrixSelector:
		return l.labelsOf(x.VectorSelector)
	case *parser.SubqueryExpr:
		return l.labelsOf(x.Expr)
	case *parser.UnaryExpr:
		return l.labelsOf(x.Expr)
	case *parser.AggregateExpr:
		return l.aggregated(x)
	case *parser.Call:
		if len(x.Args) == 1 && !strings.HasPrefix(x.Func.Name, "absent") && x.Func.Name != "vector" &&
			x.Func.Name != "scalar" {
			return l.labelsOf(x.Args[0])
		}
		if x.Func.Name == "histogram_quantile" {
			out := l.labelsOf(x.Args[1])
			delete(out, "le")
			return out
		}
	case *parser.BinaryExpr:
		switch _, number := threshold.Constant(x.RHS); {
		case number, x.Op == parser.LAND, x.Op == parser.LUNLESS:
			return l.labelsOf(x.LHS)
		}
		if _, number := threshold.Constant(x.LHS); number {
			return l.labelsOf(x.RHS)
		}
	}
	return nil
}

// aggregated returns the labels that an aggregation keeps.
func (l *linter) aggregated(x *parser.AggregateExpr) map[string]bool {
	inner := l.labelsOf(x.Expr)
	if inner == nil {
		return nil
	}
	switch x.Op {
	case parser.TOPK, parser.BOTTOMK, parser.LIMITK, parser.LIMIT_RATIO:
		return inner
	case parser.COUNT_VALUES:
		return nil // its result has a new label with the values
	}
	maps.DeleteFunc(inner, func(label string, _ bool) bool { return slices.Contains(x.Grouping, label) == x.Without })
	return inner
}
