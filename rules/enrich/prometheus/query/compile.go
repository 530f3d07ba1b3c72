package query

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"paramedic/rules/promql"
	"paramedic/rules/signals"
)

// weekOffset is the time from a day ago to a week ago. One query reads both, the week with an
// offset.
const weekOffset = 6 * 24 * time.Hour

// A Member reads one source of one signal, in one spelling of its names.
type Member struct {
	ID     string // of the source and whether it is read per pool; the same at all moments
	Signal signals.Signal
	Source signals.Source // with the spelled names
	Index  int            // rank among the signal's sources and their spellings; the lowest is preferred
	Pool   bool           // read per pool, not per pod
	// NamedPods is set if the member reads only the pods that the scope names.
	NamedPods bool
	// Week moves every selector six days back: from a day before the onset to a week before it.
	Week bool

	filter Filter
	// pods is the member of a pool's pods, set for a pool's quotient that can be summed from them.
	// It is nil if they lack a label of the pool's.
	pods *Member
}

// Compile returns the members of a signal: one for each source and spelling that the filter admits.
// If the pool's value is no aggregate of its pods' values, there is a second one per pool.
func Compile(sig signals.Signal, filter Filter) []*Member {
	var out []*Member
	for i, src := range sig.Sources {
		if !filter.canHave(src) {
			continue
		}
		for n, spelling := range filter.spellingsOf(src) {
			index := i*len(promql.Spellings) + n
			id := sig.ID + "#" + strconv.Itoa(index)
			m := &Member{ID: id, Signal: sig, Source: src.Spelled(spelling.Of), filter: filter, Index: index,
				Pool: src.Per == signals.PerPool && sig.Per == signals.PerPod}
			out = append(out, m)
			if sig.Pooled && !m.Pool && summable(src.Fn) {
				pooled := &Member{ID: id + "#pool", Signal: sig, Source: m.Source, filter: filter, Index: index, Pool: true}
				if m.IsQuotient() && subset(pooled.labels(), m.labels()) {
					pooled.pods = m
				}
				out = append(out, pooled)
			}
		}
	}
	return out
}

// HasPoolTwin reports whether the member reads for each pod what another member reads for the whole
// pool. Such a member is expensive: a quantile needs dozens of series, a ratio two.
func (m *Member) HasPoolTwin() bool {
	return !m.Pool && m.Signal.Pooled && summable(m.Source.Fn)
}

// IsPoolQuantile reports whether the member is a quantile of a whole pool. Its series are the
// summed rates of buckets, with the label le, from which the caller computes the quantile. These
// are few, and all quantiles of the same histogram share them.
func (m *Member) IsPoolQuantile() bool {
	return m.Source.Fn == signals.FnQuantile && (m.Pool || m.Signal.Per == signals.PerPool) && m.Source.Scale == 1
}

// summable reports whether applying the function to a pool's summed series gives the pool's value.
func summable(fn signals.Fn) bool {
	return fn == signals.FnQuantile || fn == signals.FnMean || fn == signals.FnRatio
}

// IsQuotient reports whether the member is a quotient of two sums. Its series are the sums,
// [Values] and [Divisors], and the caller divides them. In PromQL, the divisor would be read twice,
// to give zero if the dividend is missing. The series of a pool would also be read again after
// those of its pods.
func (m *Member) IsQuotient() bool {
	return m.Source.Fn == signals.FnMean || m.Source.Fn == signals.FnRatio
}

// exprs returns the PromQL of the member's source. It is one expression; a quotient has one for the
// dividend and one for each divisor. The expressions select the scope only by labels that exist for
// sure. Most matchers also accept a missing label, so that a fleet that does not set it still gets
// evidence.
func (m *Member) exprs() []string {
	src := m.Source
	b := builder{sig: m.Signal, src: src, by: strings.Join(m.labels(), ", ")}
	if m.Week {
		b.ago = weekOffset
	}
	var out []string
	for _, b.matchers = range m.filter.matchers(src, m.Signal.Per) {
		forms := m.forms(b)
		for i := range out {
			forms[i] = out[i] + " or " + forms[i]
		}
		out = forms
	}
	if m.IsQuotient() {
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

func (m *Member) forms(b builder) []string {
	switch {
	case m.IsPoolQuantile():
		return []string{b.buckets()}
	case m.IsQuotient():
		return b.sums()
	}
	return []string{b.build()}
}

// Reads returns the member's expressions as one key: members with the same key query the same.
func (m *Member) Reads() string { return strings.Join(m.exprs(), "\n") }

func subset(some, all []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

type builder struct {
	sig      signals.Signal
	src      signals.Source
	by       string
	matchers []string
	ago      time.Duration // offset of every selector
}

// at returns an instant selector at the builder's offset, and over one over a window.
func (b builder) at(sel string) string { return sel + b.offset() }

func (b builder) over(sel, w string) string { return sel + "[" + w + "]" + b.offset() }

// steps returns the range of a subquery. Exporters are scraped every 15 to 60 s (kube-prometheus'
// default is 30), so a step of 15 s misses no scrape. Over an hour or more that would read too many
// samples.
func (b builder) steps(w string) string {
	switch {
	case b.src.Window > time.Hour:
		return "[" + w + ":2m]"
	case b.src.Window == time.Hour:
		return "[" + w + ":1m]"
	}
	return "[" + w + ":15s]"
}

func (b builder) offset() string {
	if b.ago == 0 {
		return ""
	}
	return " offset " + window(b.ago)
}

func (b builder) sel(metric string, matchers []signals.Matcher) string {
	all := make([]string, 0, len(matchers)+len(b.matchers))
	for _, m := range matchers {
		all = append(all, m.String())
	}
	all = append(all, b.matchers...)
	if len(all) == 0 {
		return metric
	}
	return metric + "{" + strings.Join(all, ",") + "}"
}

// agg aggregates over all labels but the entity's. A container of cAdvisor has a new series after a
// restart, and the old one remains for five minutes where its end is not marked. So each container
// counts once.
func (b builder) agg(op, expr string) string {
	if b.src.Engine == "cadvisor" && op == string(signals.CombineSum) {
		expr = "max by (" + b.by + ", container) (" + expr + ")"
	}
	return op + " by (" + b.by + ") (" + expr + ")"
}

func (b builder) build() string {
	s, w := b.src, window(b.src.Window)
	one := b.sel(s.Metric, s.Match)
	divisor := func() string { return b.sel(s.Over, s.Denominator()) }
	op := string(b.sig.Combine)
	switch s.Fn {
	case signals.FnAvg:
		return b.agg(op, "avg_over_time("+b.over(one, w)+")")
	case signals.FnMax:
		return b.agg(op, "max_over_time("+b.over(one, w)+")")
	case signals.FnMin:
		return b.minimum(w)
	case signals.FnRise:
		return b.rise(w)
	case signals.FnRate:
		return b.agg(op, "rate("+b.over(one, w)+")")
	case signals.FnIncrease:
		return b.agg(op, "increase("+b.over(one, w)+")")
	case signals.FnChanges:
		return b.agg(op, "changes("+b.over(one, w)+")")
	case signals.FnNews:
		// VictoriaMetrics counts the first value of a series that began within the window. Only a
		// rise from it counts.
		now, before := b.agg(op, b.at(one)), b
		before.ago += b.src.Window
		past := "(" + now + ")" + b.steps(w)
		return "(changes(" + past + ") and " + b.agg(op, before.at(one)) + " or " + now + " > bool min_over_time(" + past + "))"
	case signals.FnSlope:
		// deriv of a series that ended remains for the whole window, so only current series count.
		return b.agg(op, fmt.Sprintf("deriv(%s) and count_over_time(%s) >= %d and %s",
			b.over(one, w), b.over(one, w), slopePoints, b.at(one)))
	case signals.FnQuantile:
		return "histogram_quantile(" + number(s.Q) + ", " + b.buckets() + ")"
	case signals.FnRest:
		return "clamp_min(" + b.rate(one) + " - (" + b.rate(divisor()) + " or " + b.rate(one) + " * 0), 0)"
	case signals.FnShare:
		return "(" + b.agg("max", b.at(one)) + " / (" + b.agg("max", b.at(one)) + " + " +
			b.agg("max", b.at(divisor())) + "))"
	case signals.FnLess:
		return "(" + b.agg("max", b.at(one)) + " < bool " + b.agg("max", b.at(divisor())) + ")"
	case signals.FnTotal:
		return "(" + b.total(one) + ")"
	case signals.FnExcess:
		return "clamp_min(" + b.total(one) + " - " + b.agg("sum", b.at(divisor())) + ", 0)"
	case signals.FnAge:
		return "(" + b.clock() + " - " + b.agg("max", b.at(one)) + ")"
	case signals.FnRollout:
		return b.rollout(one, divisor())
	case signals.FnFlow:
		expr := b.rate(one)
		for _, gauge := range s.With {
			expr += " + " + b.agg("sum", "deriv("+b.over(b.sel(gauge, s.Match), w)+")")
		}
		return "clamp_min(" + expr + ", 0)"
	default:
		return b.agg(op, b.at(one))
	}
}

// total returns the sum of a gauge and the gauges of With.
func (b builder) total(one string) string {
	expr := b.agg("sum", b.at(one))
	for _, gauge := range b.src.With {
		expr += " + " + b.agg("sum", b.at(b.sel(gauge, b.src.Match)))
	}
	return expr
}

// rate returns the summed rate of counters.
func (b builder) rate(sel string) string {
	return b.agg("sum", "rate("+b.over(sel, window(b.src.Window))+")")
}

// sums returns the expressions of a quotient: the dividend, then all divisors.
func (b builder) sums() []string {
	s := b.src
	if s.Fn == signals.FnMean {
		return []string{b.rate(b.sel(s.Metric+"_sum", s.Match)), b.rate(b.sel(s.Metric+"_count", s.Match))}
	}
	out := []string{b.rate(b.sel(s.Metric, s.Match)), b.rate(b.sel(s.Over, s.Denominator()))}
	for _, counter := range s.With {
		out = append(out, b.rate(b.sel(counter, s.Denominator())))
	}
	return out
}

// buckets returns the summed rates of a histogram's buckets.
func (b builder) buckets() string {
	sel := b.sel(b.src.Metric+"_bucket", b.src.Match)
	return "sum by (le, " + b.by + ") (rate(" + b.over(sel, window(b.src.Window)) + "))"
}

// clock returns the time that the expression evaluates, in seconds.
func (b builder) clock() string {
	if b.ago == 0 {
		return "time()"
	}
	return "(time() - " + strconv.FormatInt(int64(b.ago/time.Second), 10) + ")"
}

// slopePoints is the least number of points of a slope.
const slopePoints = 10

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// window formats a duration as PromQL.
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
