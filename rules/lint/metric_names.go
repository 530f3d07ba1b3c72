package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"paramedic/internal/text"
	"paramedic/rules/promql"
	"paramedic/state"
)

// The linter is careful with names of metrics that belong neither to an engine nor to a GPU. Many
// metrics appear with the first event, an exporter may be down, and other teams have metrics that
// are unknown here. It reports a missing name only in two cases: an existing name is so similar
// that it was probably meant, or the name looks recorded and no rule records it.

// exists reports whether series or a recording rule have the name.
func (c *inventory) exists(name string) bool { return c.have.Metrics[name] || c.records[name] != nil }

// absenceMatters reports whether it is a problem that no series has the name.
func (c *inventory) absenceMatters(name string) bool {
	if f := family(name); f != "" {
		return !slices.Contains(eventual, name) || !c.exports(f)
	}
	return !c.have.Earlier[name] && c.suspect(name)
}

// eventual lists counters that engines and routers export only after the first event.
var eventual = []string{
	"sglang:num_aborted_requests_total", "trtllm_request_error_total", "dynamo_component_errors_total",
	"dynamo_frontend_model_cancellation_total", "dynamo_frontend_model_migration_total",
	"dynamo_frontend_model_rejection_total", "llm_d_epp_request_error_total", "llm_d_epp_datalayer_poll_errors_total",
	"inference_objective_request_error_total",
}

// exports reports whether the fleet has a metric with a prefix of [families].
func (c *inventory) exports(prefix string) bool {
	for name := range c.have.Metrics {
		if family(name) == prefix {
			return true
		}
	}
	return false
}

// suspect reports whether a missing name is probably wrong.
func (c *inventory) suspect(name string) bool {
	return strings.Contains(name, ":") || c.have.Metrics[name+"_bucket"] || c.like(name) != ""
}

// Suspects returns the names in rules that are probably wrong. The caller should find out whether
// they had series earlier, see [Exported.Earlier].
func Suspects(in []AlertingRule, have Exported) []string {
	known := newInventory(have)
	return known.nameless(in, func(name string, _ bool) bool { return family(name) == "" && known.suspect(name) })
}

// Unjudged returns the names in rules without series about which Lint reports nothing. Names inside
// absent functions are not among them.
func Unjudged(in []AlertingRule, have Exported) []string {
	known := newInventory(have)
	out := known.nameless(in, func(name string, absent bool) bool { return !absent && !known.absenceMatters(name) })
	for i := range out {
		out[i] = text.Clean(out[i])
	}
	return out
}

// nameless returns the names in rules that no series has and that wanted accepts. absent reports
// whether the name is inside an absent function.
func (c *inventory) nameless(in []AlertingRule, wanted func(name string, absent bool) bool) []string {
	found := map[string]bool{}
	for _, r := range in {
		if len(r.Expr) > maxLinted {
			continue
		}
		for e := range c.readings(r.Expr) {
			parser.Inspect(e.expr, func(n parser.Node, path []parser.Node) error {
				sel, ok := n.(*parser.VectorSelector)
				if !ok || sel.Name == "" || found[sel.Name] || c.exists(sel.Name) {
					return nil
				}
				absent := slices.ContainsFunc(path, func(p parser.Node) bool {
					call, ok := p.(*parser.Call)
					return ok && strings.HasPrefix(call.Func.Name, "absent")
				})
				found[sel.Name] = wanted(sel.Name, absent)
				return nil
			})
		}
	}
	maps.DeleteFunc(found, func(_ string, is bool) bool { return !is })
	return slices.Sorted(maps.Keys(found))
}

// lacks returns the selector if it matches no series.
func (l *linter) lacks(x *parser.VectorSelector) []deadSelector {
	if l.have.Metrics == nil {
		return l.unlabelled(x)
	}
	switch {
	case x.Name == "":
		if m := namesMatcher(x); m != nil && family(m.Prefix()) != "" && len(l.named(m)) == 0 {
			return []deadSelector{{sel: x, matcher: m}}
		}
	case !l.exists(x.Name) && l.absenceMatters(x.Name):
		return []deadSelector{{sel: x}}
	}
	return l.unlabelled(x)
}

// gone reports a selector that matches no series, with a replacement.
func (l *linter) gone(g deadSelector) {
	switch {
	case g.matcher == nil:
		l.missing(g.sel.Name)
	case g.matcher.Name == promql.NameLabel:
		l.report(state.Warning, fmt.Sprintf("does not fire: no metric here has a name like %s", g.matcher.Value),
			"look on the engine's /metrics page for the metrics of its version")
	default:
		l.unmatched(g.sel, g.matcher)
	}
}

// missing reports a metric that is not exported, with a replacement.
func (l *linter) missing(name string) {
	if old, ok := formerly(name); ok {
		l.report(state.Critical, fmt.Sprintf("never fires: %s is not exported here; %s", name, old.why),
			old.instead(name))
		return
	}
	if l.have.Metrics[name+"_bucket"] {
		l.report(state.Critical, fmt.Sprintf("never fires: %s is a histogram, and no series has that name", name),
			fmt.Sprintf("use a quantile, `%s`, or the mean, `rate(%s_sum[5m]) / rate(%s_count[5m])`",
				quantileOf("0.95", name+"_bucket", "rate("+name+"_bucket[5m])"), name, name))
		return
	}
	for _, spelling := range promql.SpellingsOf(name) {
		if use := l.usable(spelling.Of(name)); use != "" {
			l.report(state.Critical, fmt.Sprintf("never fires: %s is not exported here, but %s is", name, spelling.Of(name)),
				fmt.Sprintf("rename the series to %s in the scrape configuration (deploy/prometheus/README.md), or use `%s`. "+
					"The diagnosis reads both", name, use))
			return
		}
	}
	if l.proposes(name, promql.EngineName(name)) {
		return
	}
	if family(name) == "" {
		l.misspelt(name)
		return
	}
	if l.proposes(name, name+"_total") || l.proposes(name, strings.TrimSuffix(name, "_total")) {
		return
	}
	if meant := l.like(name); meant != "" {
		l.report(state.Warning, fmt.Sprintf("does not fire: %s is not exported here, but %s is", name, meant),
			fmt.Sprintf("use `%s`, if you mean that", meant))
		return
	}
	prefix := family(name)
	if !l.exports(prefix) {
		l.report(state.Info, fmt.Sprintf("does not fire: there are no %s* metrics here, so also no %s", prefix, name),
			"remove the rule, or scrape the exporter of this metric")
		return
	}
	msg := fmt.Sprintf("does not fire: %s is not exported here, but other %s* metrics are", name, prefix)
	if strings.HasSuffix(name, "_total") {
		msg += " (or it has counted nothing yet)"
	}
	l.report(state.Warning, msg, "look on the engine's /metrics page for the metrics of its version")
}

// proposes reports a metric that is not exported, if the other one is.
func (l *linter) proposes(name, other string) bool {
	use := l.usable(other)
	if use != "" {
		l.report(state.Critical, fmt.Sprintf("never fires: %s is not exported here, but %s is", name, other), fmt.Sprintf("use `%s`", use))
	}
	return use != ""
}

// usable returns the expression of a metric that is exported here: its name, or a quantile of a
// histogram. It returns "" if the metric is not exported.
func (l *linter) usable(name string) string {
	switch {
	case l.have.Metrics[name]:
		return name
	case l.have.Metrics[name+"_bucket"]:
		return quantileOf("0.95", name+"_bucket", "rate("+name+"_bucket[5m])")
	}
	return ""
}

// never states that no series has the name, or has had it in the last week if that is known.
func (c *inventory) never(name string) string {
	if c.have.Earlier == nil {
		return "no series here has the name " + name
	}
	return "no series here has had the name " + name + " in the last week"
}

// misspelt reports the probable name for a name that is not of an engine.
func (l *linter) misspelt(name string) {
	if meant := l.like(name); meant != "" {
		l.report(state.Warning, fmt.Sprintf("does not fire: %s, but there is %s", l.never(name), meant),
			fmt.Sprintf("use `%s`, if you mean that", meant))
		return
	}
	l.report(state.Warning, fmt.Sprintf("does not fire: %s, and no recording rule here records it", l.never(name)),
		"add a recording rule, or use its source metric")
}

// misspeltAbsence reports alerts on absence whose metric is absent only because the name is
// misspelt.
func (l *linter) misspeltAbsence(x *parser.Call, sel *parser.VectorSelector) {
	if promql.Unwrap(l.expr) != parser.Expr(x) || l.exists(sel.Name) || !l.absenceMatters(sel.Name) {
		return
	}
	if meant := l.like(sel.Name); meant != "" {
		l.report(state.Warning, fmt.Sprintf("always fires: %s, but there is %s", l.never(sel.Name), meant),
			fmt.Sprintf("use `%s`, if you mean that", meant))
	}
}

// like returns the existing name that is most similar to a missing one; "" if none is similar
// enough.
func (c *inventory) like(name string) string {
	meant, known := c.meantBy[name]
	if known {
		return meant
	}
	want := promql.WordsOf(name)
	best := promql.Unlike
	for _, other := range c.families()[want[0]] {
		if is := promql.Likeness(want, promql.WordsOf(other)); is < best || is == best && is < promql.Unlike && other < meant {
			best, meant = is, other
		}
	}
	c.meantBy[name] = meant
	return meant
}

// families returns the existing names by their first words.
func (c *inventory) families() map[string][]string {
	if c.byWord != nil {
		return c.byWord
	}
	c.byWord = map[string][]string{}
	add := func(name string) {
		if !model.LegacyValidation.IsValidMetricName(name) {
			return // PromQL has to quote it
		}
		first := promql.WordsOf(name)[0]
		c.byWord[first] = append(c.byWord[first], name)
	}
	for name := range c.have.Metrics {
		add(name)
	}
	for name := range c.records {
		add(name)
	}
	return c.byWord
}
