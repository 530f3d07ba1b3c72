package prometheus

import (
	"math"
	"slices"
	"strings"
	"time"

	"paramedic/rules"
)

// An instant query gives its own time to every value, also to that of a scrape four minutes before.
// Where a write may rest on the values, each part of the query also asks when its series were
// scraped.

// fresh are the queries of values that a write may rest on: of the present alone, and not off the
// end of a chart, which does not tell when its last point was scraped.
func (g *gathering) fresh() []job {
	var all []*member
	for _, s := range g.query.Signals {
		all = append(all, compile(s, g.scope)...)
	}
	return job{moments: []moment{present}, at: g.query.Now, timed: true}.over(all, unionsNow)
}

// over divides members over at most so many queries of the job's kind.
func (j job) over(ms []*member, unions int) []job {
	var out []job
	for _, j.parts = range spread(parts(ms), unions) {
		j.query = union(j.parts, j.timed)
		out = append(out, j)
	}
	return out
}

// when follows a part's mark on the series that tell the time.
const when = "@"

// scraped returns the PromQL of when the member's values were scraped, in seconds. Of series that
// were scraped at different times it is the oldest: the value is not newer than its oldest part.
func (m *member) scraped() string {
	b := builder{sig: m.signal, src: m.source, by: strings.Join(m.labels(), ", ")}
	var out []string
	for _, b.narrow = range m.scope.matchers(m.source, m.signal.Per) {
		for _, sel := range b.timed() {
			out = append(out, b.agg("min", "timestamp("+sel+")"))
		}
	}
	return strings.Join(out, " or ")
}

// timed returns the selectors of the fewest series that were scraped together with the value: of a
// histogram one bucket, of a quotient what is always there.
func (b builder) timed() []string {
	s := b.src
	switch s.Fn {
	case rules.FnQuantile:
		return []string{b.sel(s.Metric+"_bucket", append(slices.Clone(s.Match), rules.Matcher{Label: "le", Op: "=", Value: "+Inf"}))}
	case rules.FnMean:
		return []string{b.sel(s.Metric+"_count", s.Match)}
	case rules.FnRatio:
		out := []string{b.sel(s.Over, s.Denominator())}
		for _, counter := range s.With {
			out = append(out, b.sel(counter, s.Denominator()))
		}
		return out
	}
	return []string{b.sel(s.Metric, s.Match)}
}

// scrapes are the times of the series of one answer. A series that its scrape marked as stale has
// none, though a rate goes on to show it for minutes.
type scrapes map[seriesKey]time.Time

// scrapes reads the times from an answer.
func (j job) scrapes(all []series) scrapes {
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

// A kind is what the series of a part are.
type kind int

const (
	values   kind = iota
	divisors      // of a quotient
	times         // of the scrapes
)

// part returns the part that a series came from, and what it is of that.
func (j job) part(labels map[string]string) (p part, of kind, ok bool) {
	mark, timed := strings.CutSuffix(labels[marker], when)
	plain := strings.TrimRight(mark, under)
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

// take adds what a query gave.
func (g *gathering) take(j job, all []series) {
	histograms, quotients, scraped := map[string]*histogram{}, map[seriesKey]*quotient{}, j.scrapes(all)
	for _, s := range all {
		p, of, ok := j.part(s.labels)
		switch {
		case !ok, of == times:
		case p.members[0].bucketed():
			collect(histograms, p, s)
		case p.members[0].divided():
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
func (g *gathering) put(j job, m *member, s series, scraped scrapes) {
	sm, from := g.at(m, s.labels)
	if m.source.Engine == target && s.labels["job"] != "" {
		g.scraped[scrapedBy(g.query.Cluster, s.labels)] = true
	}
	var at time.Time // of the scrape
	if j.timed {
		at = scraped[m.key(s.labels)]
	}
	for _, p := range s.points {
		if p.v = m.value(s.labels, p.v); math.IsNaN(p.v) || math.IsInf(p.v, 0) {
			sm.torn = sm.torn || j.timed && !summable(m.source.Fn) // a quantile of no requests is none
			continue
		}
		switch {
		case j.span != nil:
			g.plot(sm, j, m, from, p)
		case j.at.Sub(p.at) > Stale:
		case j.gives(baseline):
			from.add(&sm.base, p.v)
		case m.week:
			from.add(&sm.week, p.v)
		case j.gives(dayAgo):
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
