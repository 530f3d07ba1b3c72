package prometheus

import (
	"math"
	"slices"
	"strings"
	"time"

	"paramedic/rules/signals"
)

// An instant query returns its own time with every value, even if the scrape was four minutes ago.
// For values that a write may rely on, each part of the query therefore also reads the scrape
// times.

// fresh returns the queries for values that a write may rely on. They read only the present. They
// do not use the end of a chart, because it does not give the scrape time.
func (g *gathering) fresh() []plannedQuery {
	var all []*member
	for _, s := range g.query.Signals {
		all = append(all, compile(s, g.scope)...)
	}
	return plannedQuery{moments: []moment{present}, at: g.query.Now, timed: true}.spreadOver(all, unionsNow)
}

// spreadOver divides members over at most the given number of queries of this kind.
func (j plannedQuery) spreadOver(ms []*member, unions int) []plannedQuery {
	var out []plannedQuery
	for _, j.parts = range spread(parts(ms), unions) {
		j.query = union(j.parts, j.timed)
		out = append(out, j)
	}
	return out
}

// timeMark follows a part's mark on the series with the scrape times.
const timeMark = "@"

// scraped returns the PromQL for the scrape time of the member's values, in seconds. For several
// series it is the oldest time, because a value is not newer than its oldest part.
func (m *member) scraped() string {
	b := builder{sig: m.signal, src: m.source, by: strings.Join(m.labels(), ", ")}
	var out []string
	for _, b.matchers = range m.scope.matchers(m.source, m.signal.Per) {
		for _, sel := range b.timed() {
			out = append(out, b.agg("min", "timestamp("+sel+")"))
		}
	}
	return strings.Join(out, " or ")
}

// timed returns selectors of the fewest series that are scraped together with the value: one bucket
// of a histogram, the divisor of a quotient.
func (b builder) timed() []string {
	s := b.src
	switch s.Fn {
	case signals.FnQuantile:
		all := signals.Matcher{Label: "le", Op: "=", Value: "+Inf"}
		return []string{b.sel(s.Metric+"_bucket", append(slices.Clone(s.Match), all))}
	case signals.FnMean:
		return []string{b.sel(s.Metric+"_count", s.Match)}
	case signals.FnRatio:
		out := []string{b.sel(s.Over, s.Denominator())}
		for _, counter := range s.With {
			out = append(out, b.sel(counter, s.Denominator()))
		}
		return out
	}
	return []string{b.sel(s.Metric, s.Match)}
}

// scrapes holds the scrape times of the series of one answer. A series that is marked as stale has
// none, although its rate continues for minutes.
type scrapes map[seriesKey]time.Time

// scrapes reads the scrape times from an answer.
func (j plannedQuery) scrapes(all []series) scrapes {
	out := scrapes{}
	if !j.timed {
		return out
	}
	for _, s := range all {
		p, kind, ok := j.part(s.labels)
		if !ok || kind != times {
			continue
		}
		for _, m := range p.members {
			for _, x := range s.points {
				at, key := time.UnixMilli(int64(math.Round(1000*x.v))), m.key(s.labels)
				if have, ok := out[key]; !ok || at.Before(have) {
					out[key] = at
				}
			}
		}
	}
	return out
}

// A kind is the kind of a part's series.
type kind int

const (
	values   kind = iota
	divisors      // of a quotient
	times         // of the scrapes
)

// part returns the part of a series, and the kind of the series.
func (j plannedQuery) part(labels map[string]string) (p part, of kind, ok bool) {
	mark, timed := strings.CutSuffix(labels[marker], timeMark)
	plain := strings.TrimRight(mark, divisorMark)
	i := slices.IndexFunc(j.parts, func(p part) bool { return p.mark == plain })
	if i < 0 {
		return part{}, values, false
	}
	switch {
	case timed:
		of = times
	case plain != mark:
		of = divisors
	}
	return j.parts[i], of, true
}

// take adds the answer of a query.
func (g *gathering) take(j plannedQuery, all []series) {
	histograms, quotients, scraped := map[string]*histogram{}, map[seriesKey]*quotient{}, j.scrapes(all)
	for _, s := range all {
		p, of, ok := j.part(s.labels)
		switch {
		case !ok, of == times:
		case p.members[0].isPoolQuantile():
			collect(histograms, p, s)
		case p.members[0].isQuotient():
			for _, m := range p.members {
				addTo(quotients, m, s, of == divisors)
			}
		default:
			for _, m := range p.members {
				g.put(j, m, s, scraped)
			}
		}
	}
	for _, h := range histograms {
		for _, m := range h.part.members {
			g.put(j, m, series{h.labels, h.quantile(m.source.Q)}, scraped)
		}
	}
	for of, q := range quotients {
		g.put(j, of.member, series{q.labels, q.points(of.member.source)}, scraped)
	}
}

// put adds one series of a member to its sample.
func (g *gathering) put(j plannedQuery, m *member, s series, scraped scrapes) {
	sm, from := g.at(m, s.labels)
	if m.source.Engine == target && jobOf(s.labels) != "" {
		g.scraped[scrapedBy(g.query.Cluster, s.labels)] = true
	}
	var at time.Time // of the scrape
	if j.timed {
		at = scraped[m.key(s.labels)]
	}
	for _, p := range s.points {
		if p.v = m.value(s.labels, p.v); math.IsNaN(p.v) || math.IsInf(p.v, 0) {
			sm.incomplete = sm.incomplete || j.timed &&
				!summable(m.source.Fn) // a quantile without requests has no value
			continue
		}
		switch {
		case j.span != nil:
			g.plot(sm, j, m, from, p)
		case j.at.Sub(p.at) > Stale:
		case j.covers(baseline):
			from.add(&sm.base, p.v)
		case m.week:
			from.add(&sm.week, p.v)
		case j.covers(dayAgo):
			from.add(&sm.day, p.v)
		case !j.timed:
			from.add(&sm.now, p.v)
			sm.at = p.at
		case j.at.Sub(at) <= Stale:
			if sm.now == nil || at.Before(sm.at) {
				sm.at = at
			}
			from.add(&sm.now, p.v)
		}
	}
}
