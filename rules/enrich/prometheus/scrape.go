package prometheus

import (
	"math"
	"time"

	"paramedic/rules/enrich/prometheus/query"
	"paramedic/rules/signals"
)

// An instant query returns its own time with every value, even if the scrape was four minutes ago.
// For values that a write may rely on, each part of the query therefore also reads the scrape
// times.

// fresh returns the queries for values that a write may rely on. They read only the present. They
// do not use the end of a chart, because it does not give the scrape time.
func (g *gathering) fresh() []plannedQuery {
	var all []*query.Member
	for _, s := range g.query.Signals {
		all = append(all, query.Compile(s, g.filter)...)
	}
	return plannedQuery{moments: []moment{present}, at: g.query.Now, timed: true}.spreadOver(all, unionsNow)
}

// spreadOver divides members over at most the given number of queries of this kind.
func (j plannedQuery) spreadOver(ms []*query.Member, unions int) []plannedQuery {
	var out []plannedQuery
	for _, j.union = range query.Unions(ms, unions, j.timed) {
		out = append(out, j)
	}
	return out
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
		members, kind := j.union.Of(s.labels)
		if kind != query.Times {
			continue
		}
		for _, m := range members {
			for _, x := range s.points {
				at, key := time.UnixMilli(int64(math.Round(1000*x.v))), seriesKeyOf(m, s.labels)
				if have, ok := out[key]; !ok || at.Before(have) {
					out[key] = at
				}
			}
		}
	}
	return out
}

// take adds the answer of a query.
func (g *gathering) take(j plannedQuery, all []series) {
	histograms, quotients, scraped := map[string]*histogram{}, map[seriesKey]*quotient{}, j.scrapes(all)
	for _, s := range all {
		members, kind := j.union.Of(s.labels)
		switch {
		case len(members) == 0, kind == query.Times:
		case members[0].IsPoolQuantile():
			collect(histograms, members, s)
		case members[0].IsQuotient():
			for _, m := range members {
				addTo(quotients, m, s, kind == query.Divisors)
			}
		default:
			for _, m := range members {
				g.put(j, m, s, scraped)
			}
		}
	}
	for _, h := range histograms {
		for _, m := range h.members {
			g.put(j, m, series{h.labels, h.quantile(m.Source.Q)}, scraped)
		}
	}
	for of, q := range quotients {
		g.put(j, of.member, series{q.labels, q.points(of.member.Source)}, scraped)
	}
}

// put adds one series of a member to its sample.
func (g *gathering) put(j plannedQuery, m *query.Member, s series, scraped scrapes) {
	sm, from := g.at(m, s.labels)
	if m.Source.Engine == target && jobOf(s.labels) != "" {
		g.scraped[scrapedBy(g.query.Cluster, s.labels)] = true
	}
	var at time.Time // of the scrape
	if j.timed {
		at = scraped[seriesKeyOf(m, s.labels)]
	}
	for _, p := range s.points {
		if p.v = m.Value(s.labels, p.v); math.IsNaN(p.v) || math.IsInf(p.v, 0) {
			empty := m.Source.Fn == signals.FnQuantile || m.IsQuotient() // without requests they have no value
			sm.incomplete = sm.incomplete || j.timed && !empty
			continue
		}
		switch {
		case j.span != nil:
			g.plot(sm, j, m, from, p)
		case j.at.Sub(p.at) > Stale:
		case j.covers(baseline):
			from.add(&sm.base, p.v)
		case m.Week:
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
