package query

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"paramedic/rules/promql"
	"paramedic/rules/topology"
	"paramedic/state"
)

// A firstSample is an engine with the time of its first sample in the searched range.
type firstSample struct {
	engineName
	pod, model string
	first      time.Time
}

// firstScrapes returns the expressions for the first scrape of each engine since Past before the
// onset.
func (s Search) firstScrapes(in []string) []string {
	subquery := fmt.Sprintf("[%ds:1m]", int(s.Past.Seconds()))
	if ago := int(s.Now.Sub(s.Onset).Seconds()); ago > 0 { // Prometheus 2 refuses an offset of zero
		subquery += fmt.Sprintf(" offset %ds", ago)
	}
	var out []string
	for _, src := range s.Running.Sources {
		if !slices.Contains(engines, src.Engine) {
			continue
		}
		for _, form := range promql.SpellingsOf(src.Metric) {
			spelled := src.Spelled(form.Of)
			b := builder{sig: s.Running, src: spelled, matchers: in}
			first := "timestamp(" + b.sel(spelled.Metric, spelled.Match) + ")" + subquery
			out = append(out, marked("min by (pod, model_name) (min_over_time("+first+"))", firstMark+spelled.Metric))
		}
	}
	return out
}

// preferred returns the samples without those of engines that also have a preferred name. Their
// values are read by that, so their past begins with it.
func preferred(all []firstSample) []firstSample {
	return slices.DeleteFunc(slices.Clone(all), func(s firstSample) bool {
		return slices.ContainsFunc(all, func(o firstSample) bool {
			return o.engine == s.engine && o.pod == s.pod && o.model == s.model && o.spelling < s.spelling
		})
	})
}

// Began returns the time of the first scrape of a scope's engines within the searched past: of the
// pool's own pods if their names show it, else of its model, else of all. It is zero if unknown.
func (d Discovery) Began(of state.Scope) time.Time {
	own := func(s firstSample) bool {
		pool := topology.PoolOf(s.pod)
		return of.Pool != "" && (pool == of.Pool || pool == "" && strings.HasPrefix(s.pod, of.Pool+"-"))
	}
	model := func(s firstSample) bool { return of.Model != "" && s.model == of.Model }
	all := func(firstSample) bool { return true }
	for _, belongs := range []func(firstSample) bool{own, model, all} {
		var began time.Time
		for _, s := range d.scraped {
			if belongs(s) && (began.IsZero() || s.first.Before(began)) {
				began = s.first
			}
		}
		if !began.IsZero() {
			return began
		}
	}
	return time.Time{}
}
