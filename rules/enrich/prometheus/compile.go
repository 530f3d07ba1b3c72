package prometheus

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"paramedic/rules"
)

// The labels that say what entity a series is about; everything else (ranks, finish reasons,
// containers) is combined away.
var (
	workerLabels = []string{"namespace", "kubernetes_namespace", "pod", "kubernetes_pod_name", "pod_name", "instance", "job", "model_name", "model", "node"}
	poolLabels   = []string{"namespace", "kubernetes_namespace", "model_name", "model"}
	gpuLabels    = []string{"namespace", "exported_namespace", "pod", "exported_pod", "gpu", "UUID", "node", "Hostname", "hostname"}
	podLabels    = []string{"namespace", "exported_namespace", "pod", "exported_pod"}
	nodeLabels   = []string{"node", "exported_node"}
	routeLabels  = []string{"destination_service_namespace", "exported_namespace", "namespace"}
	ownerLabels  = []string{"namespace", "exported_namespace", "deployment", "statefulset", "replicaset"}
)

// weekAfter is how much longer ago than a day a week is: both are asked for in one query, the week
// with an offset.
const weekAfter = 6 * 24 * time.Hour

// A member is one source of one signal, at the moments that a query is about.
type member struct {
	id     string // what it reads, at whatever moment
	signal rules.Signal
	source rules.Source
	scope  narrow
	index  int     // of the source in the signal
	pool   bool    // read per pool, not per pod
	pods   *member // of a pool's quotient: that of its pods, of whose sums it can be made; nil where those lack a label of the pool's
	few    bool    // of the pods that the incident names alone
	week   bool    // six days before the moment that it is asked for, which is a day before the onset
}

// compile makes the members of a signal: each source, and each again per pool where the pool's
// value is no aggregate of the pods'.
func compile(sig rules.Signal, scope narrow) []*member {
	var out []*member
	for i, src := range sig.Sources {
		if !scope.asks(src) {
			continue
		}
		id := sig.ID + "#" + strconv.Itoa(i)
		m := &member{id: id, signal: sig, source: src, scope: scope, index: i, pool: src.Per == rules.PerPool && sig.Per == rules.PerPod}
		out = append(out, m)
		if sig.Pooled && !m.pool && summable(src.Fn) {
			whole := &member{id: id + "#pool", signal: sig, source: src, scope: scope, index: i, pool: true}
			if m.divided() && subset(whole.labels(), m.labels()) {
				whole.pods = m
			}
			out = append(out, whole)
		}
	}
	return out
}

// twin says that the member has each pod's value of what another member has for the pool as a
// whole, and is dear to read: a quantile is made of dozens of series, a ratio of two.
func (m *member) twin() bool {
	return !m.pool && m.signal.Pooled && summable(m.source.Fn)
}

// bucketed says that the member is a quantile of a whole pool. It is made here of the sums of the
// buckets, which are few, and which every quantile of the same histogram shares.
func (m *member) bucketed() bool {
	return m.source.Fn == rules.FnQuantile && (m.pool || m.signal.Per == rules.PerPool) && m.source.Scale == 1
}

// summable says whether the function of a pool's summed series is the pool's value.
func summable(fn rules.Fn) bool {
	return fn == rules.FnQuantile || fn == rules.FnMean || fn == rules.FnRatio
}

// divided says that the member is a quotient of two sums. Both are asked for and divided here: in
// PromQL the whole would be read twice, since a part that is not there is nothing of it, and the
// series of a pool again after those of its pods.
func (m *member) divided() bool {
	return m.source.Fn == rules.FnMean || m.source.Fn == rules.FnRatio
}

// exprs is the PromQL of the member's source: one expression, of a quotient what is divided and
// each that it is divided by. Series are narrowed to the scope as far as their labels can be
// trusted to be there: a label that a fleet does not set must not empty the evidence, so most
// matchers also accept its absence.
func (m *member) exprs() []string {
	src := m.source
	b := builder{sig: m.signal, src: src, by: strings.Join(m.labels(), ", ")}
	if m.week {
		b.ago = weekAfter
	}
	var out []string
	for _, b.narrow = range m.scope.matchers(src, m.signal.Per) {
		forms := m.forms(b)
		for i := range out {
			forms[i] = out[i] + " or " + forms[i]
		}
		out = forms
	}
	if m.divided() {
		return out
	}
	if src.Nonzero {
		out[0] = "(" + out[0] + ") != 0"
	}
	if src.Scale != 1 {
		out[0] = "(" + out[0] + ") * " + number(src.Scale)
	}
	return out
}

func (m *member) forms(b builder) []string {
	switch {
	case m.bucketed():
		return []string{b.buckets()}
	case m.divided():
		return b.sums()
	}
	return []string{b.build()}
}

// reads is what the member asks for, for telling whether another asks for the same.
func (m *member) reads() string { return strings.Join(m.exprs(), "\n") }

func (m *member) labels() []string { return labelsOf(m.signal, m.source, m.pool) }

func subset(some, all []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

func labelsOf(sig rules.Signal, src rules.Source, pool bool) []string {
	var by []string
	switch {
	case pool:
		by = poolLabels
	case src.Engine == "dcgm":
		by = gpuLabels
	case sig.Per == rules.PerNode:
		by = nodeLabels
	case sig.Per == rules.PerPool && src.Engine == "kube_state":
		by = ownerLabels
	case src.Engine == "ingress":
		by = routeLabels
	case sig.Per == rules.PerPool:
		by = poolLabels
	case src.Engine == "kube_state" || src.Engine == "cadvisor":
		by = podLabels
	default:
		by = workerLabels
	}
	by = by[:len(by):len(by)]
	if src.Engine == target {
		by = append(by, "service")
	}
	for _, extra := range []string{src.Label, src.Value} {
		if extra != "" {
			by = append(by, extra)
		}
	}
	return by
}

type builder struct {
	sig    rules.Signal
	src    rules.Source
	by     string
	narrow []string
	ago    time.Duration // offset of every selector
}

// at is an instant selector, and over one over a window, at the builder's offset.
func (b builder) at(sel string) string { return sel + b.offset() }

func (b builder) over(sel, w string) string { return sel + "[" + w + "]" + b.offset() }

// steps is the range of a subquery. Exporters are scraped every 15 to 60 s (kube-prometheus'
// default is 30): a step of 15 s misses no scrape.
func (builder) steps(w string) string { return "[" + w + ":15s]" }

func (b builder) offset() string {
	if b.ago == 0 {
		return ""
	}
	return " offset " + window(b.ago)
}

func (b builder) sel(metric string, matchers []rules.Matcher) string {
	all := make([]string, 0, len(matchers)+len(b.narrow))
	for _, m := range matchers {
		all = append(all, m.String())
	}
	all = append(all, b.narrow...)
	if len(all) == 0 {
		return metric
	}
	return metric + "{" + strings.Join(all, ",") + "}"
}

func (b builder) agg(op, expr string) string { return op + " by (" + b.by + ") (" + expr + ")" }

func (b builder) build() string {
	s, w := b.src, window(b.src.Window)
	one := b.sel(s.Metric, s.Match)
	whole := func() string { return b.sel(s.Over, s.Denominator()) }
	op := string(b.sig.Combine)
	switch s.Fn {
	case rules.FnAvg:
		return b.agg(op, "avg_over_time("+b.over(one, w)+")")
	case rules.FnMax:
		return b.agg(op, "max_over_time("+b.over(one, w)+")")
	case rules.FnMin:
		return b.minimum(w)
	case rules.FnRate:
		return b.agg(op, "rate("+b.over(one, w)+")")
	case rules.FnIncrease:
		return b.agg(op, "increase("+b.over(one, w)+")")
	case rules.FnChanges:
		return b.agg(op, "changes("+b.over(one, w)+")")
	case rules.FnNews:
		return "changes((" + b.agg(op, b.at(one)) + ")" + b.steps(w) + ")"
	case rules.FnSlope:
		// A series that is gone keeps a slope for the whole window: only those that are still there
		// count.
		return b.agg(op, fmt.Sprintf("deriv(%s) and count_over_time(%s) >= %d and %s", b.over(one, w), b.over(one, w), SlopePoints, b.at(one)))
	case rules.FnQuantile:
		return "histogram_quantile(" + number(s.Q) + ", " + b.buckets() + ")"
	case rules.FnRest:
		return "clamp_min(" + b.rate(one) + " - (" + b.rate(whole()) + " or " + b.rate(one) + " * 0), 0)"
	case rules.FnShare:
		return "(" + b.agg("max", b.at(one)) + " / (" + b.agg("max", b.at(one)) + " + " + b.agg("max", b.at(whole())) + "))"
	case rules.FnLess:
		return "(" + b.agg("max", b.at(one)) + " < bool " + b.agg("max", b.at(whole())) + ")"
	case rules.FnTotal:
		return "(" + b.total(one) + ")"
	case rules.FnExcess:
		return "clamp_min(" + b.total(one) + " - " + b.agg("sum", b.at(whole())) + ", 0)"
	case rules.FnAge:
		return "(" + b.clock() + " - " + b.agg("max", b.at(one)) + ")"
	case rules.FnFlow:
		expr := b.rate(one)
		for _, gauge := range s.With {
			expr += " + " + b.agg("sum", "deriv("+b.over(b.sel(gauge, s.Match), w)+")")
		}
		return "clamp_min(" + expr + ", 0)"
	default:
		return b.agg(op, b.at(one))
	}
}

// total is a gauge and those beside it, together.
func (b builder) total(one string) string {
	expr := b.agg("sum", b.at(one))
	for _, gauge := range b.src.With {
		expr += " + " + b.agg("sum", b.at(b.sel(gauge, b.src.Match)))
	}
	return expr
}

// rate is how fast counters grow, summed.
func (b builder) rate(sel string) string {
	return b.agg("sum", "rate("+b.over(sel, window(b.src.Window))+")")
}

// sums are those of a quotient: what is divided, and all that it is divided by.
func (b builder) sums() []string {
	s := b.src
	if s.Fn == rules.FnMean {
		return []string{b.rate(b.sel(s.Metric+"_sum", s.Match)), b.rate(b.sel(s.Metric+"_count", s.Match))}
	}
	out := []string{b.rate(b.sel(s.Metric, s.Match)), b.rate(b.sel(s.Over, s.Denominator()))}
	for _, counter := range s.With {
		out = append(out, b.rate(b.sel(counter, s.Denominator())))
	}
	return out
}

// buckets are the rates at which a histogram's buckets fill, summed.
func (b builder) buckets() string {
	sel := b.sel(b.src.Metric+"_bucket", b.src.Match)
	return "sum by (le, " + b.by + ") (rate(" + b.over(sel, window(b.src.Window)) + "))"
}

// clock is the moment that the expression is about, in seconds.
func (b builder) clock() string {
	if b.ago == 0 {
		return "time()"
	}
	return "(time() - " + strconv.FormatInt(int64(b.ago/time.Second), 10) + ")"
}

// SlopePoints is how many points a slope needs.
const SlopePoints = 10

// minimum is the lowest value over the window, among the moments at which all gauges of With were
// zero.
func (b builder) minimum(w string) string {
	s := b.src
	one := b.sel(s.Metric, s.Match)
	if len(s.With) == 0 {
		return b.agg(string(b.sig.Combine), "min_over_time("+b.over(one, w)+")")
	}
	expr := b.agg(string(b.sig.Combine), b.at(one))
	for _, gauge := range s.With {
		expr += " and (" + b.agg("sum", b.at(b.sel(gauge, s.Match))) + " == 0)"
	}
	return "min_over_time((" + expr + ")" + b.steps(w) + ")"
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// window writes a duration as PromQL does.
func window(d time.Duration) string {
	s := int64(d / time.Second)
	switch {
	case s%86400 == 0 && s > 0:
		return strconv.FormatInt(s/86400, 10) + "d"
	case s%3600 == 0 && s > 0:
		return strconv.FormatInt(s/3600, 10) + "h"
	case s%60 == 0 && s > 0:
		return strconv.FormatInt(s/60, 10) + "m"
	default:
		return strconv.FormatInt(s, 10) + "s"
	}
}
