package prometheus

import (
	"cmp"
	"slices"
	"strings"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"paramedic/rules/enrich"
	"paramedic/rules/enrich/prometheus/query"
	"paramedic/rules/signals"
	"paramedic/state"
)

// A gathering collects the answers of one Read.
type gathering struct {
	query   enrich.Query
	filter  query.Filter
	began   time.Time // the first scrape of the scope's engines within the searched past; zero if unknown
	samples map[sampleKey]*sample
	scraped map[enrich.Scraped]bool
}

// A sampleKey identifies a sample.
type sampleKey struct {
	member string
	entity state.Entity
	text   string
}

// A sample is one signal of one entity from one source, before the sources are compared.
type sample struct {
	member         *query.Member
	entity         state.Entity
	text           string
	now, base, day *enrich.Parts
	week           *enrich.Parts
	charts         []chart
	at             time.Time
	incomplete     bool // one part is not a number, so the rest is not the whole value
}

// given reports whether the sample has a current value.
func (sm *sample) given() bool { return sm.now != nil && !sm.incomplete }

// A chart is an entity's series from one scrape. Almost every entity has one.
type chart struct {
	from   origin
	points []state.Point
}

// youngIncident is the greatest age of an incident whose charts also give the current values and
// those of the hour before, from their ends. Each series of its pool is then read once. The charts
// of an older incident, or of more than one pool, may take too long or fail. They are then queried
// separately.
const youngIncident = 2 * time.Hour

func (g *gathering) queries() []plannedQuery {
	if g.query.Fresh {
		return g.fresh()
	}
	var all, past, old, chart []*query.Member
	for _, s := range g.query.Signals {
		ms := query.Compile(s, g.filter)
		all = append(all, ms...)
		if s.Compared() {
			past = append(past, ms...)
		}
		if s.Seasonal {
			old = append(old, daysAgo(ms)...)
		}
		if s.Chart {
			chart = append(chart, charted(ms)...)
		}
	}
	now, onset := g.query.Now, g.query.Onset
	var out []plannedQuery
	add := func(j plannedQuery, ms []*query.Member, unions int) { out = append(out, j.spreadOver(ms, unions)...) }
	charts := []moment{course}
	if g.filter.OnlyPool() && now.Sub(onset) <= youngIncident {
		charts = []moment{present, course}
		all, chart = splitCharted(all, chart)
		if !g.hasShortPast() {
			charts = append(charts, baseline)
			past = exceptRead(past, chart)
		}
	}
	before, distant := g.before(), onset.Add(-24*time.Hour)
	add(plannedQuery{moments: charts, span: span(onset, now), settled: g.settled(onset)}, chart, unionsRange)
	add(plannedQuery{moments: []moment{present}, at: now}, all, unionsNow)
	add(plannedQuery{moments: []moment{baseline}, at: before, settled: g.settled(before)}, past, unionsBefore)
	add(plannedQuery{moments: []moment{dayAgo, weekAgo}, at: distant, settled: g.settled(distant)}, old, unionsDistant)
	return out
}

// settled returns a moment whose answer can be cached, or the zero time if the onset is not in the
// past. An incident's onset stays the same; that of a survey is its current time.
func (g *gathering) settled(moment time.Time) time.Time {
	if !g.query.Onset.Before(g.query.Now) {
		return time.Time{}
	}
	return moment.Round(0).UTC() // comparable with ==
}

// splitCharted returns the members that the charts do not give, and the charts' members. The latter
// include pool quantiles that share an expression with a chart.
func splitCharted(all, chart []*query.Member) (others, charts []*query.Member) {
	drawn := map[string]bool{}
	for _, m := range chart {
		drawn[m.Reads()] = true
	}
	for _, m := range exceptRead(all, chart) {
		if m.IsPoolQuantile() && drawn[m.Reads()] {
			chart = append(chart, m)
		} else {
			others = append(others, m)
		}
	}
	return others, chart
}

// exceptRead returns the members that the others do not read for the whole scope.
func exceptRead(members, others []*query.Member) []*query.Member {
	given := map[string]bool{}
	for _, m := range others {
		given[m.ID] = given[m.ID] || !m.NamedPods
	}
	return slices.DeleteFunc(slices.Clone(members), func(m *query.Member) bool { return given[m.ID] })
}

// daysAgo returns the members for a day ago and for a week ago; quantiles and ratios only per pool.
// They are queried separately from the hour before, because old data may be slow or missing in an
// object store. The verdict relies most on the hour before and must not wait for them.
func daysAgo(ms []*query.Member) []*query.Member {
	var out []*query.Member
	for _, m := range ms {
		if !m.HasPoolTwin() {
			week := *m
			week.Week = true
			out = append(out, m, &week)
		}
	}
	return out
}

// charted returns the members with a chart. Quantiles and ratios have charts for the pool, and for
// the pods that the incident names.
func charted(ms []*query.Member) []*query.Member {
	var out []*query.Member
	for _, m := range ms {
		if m.HasPoolTwin() {
			named, ok := m.ForNamedPods()
			if !ok {
				continue
			}
			m = named
		}
		out = append(out, m)
	}
	return out
}

// span returns the range from an hour before the onset until now, in steps of whole seconds, with
// the last point now.
func span(onset, now time.Time) *v1.Range {
	total := now.Sub(onset) + time.Hour
	step := max(enrich.ChartStep(onset, now), 15*time.Second)
	if seconds := step.Truncate(time.Second); seconds < step {
		step = seconds + time.Second
	}
	steps := (total + step - 1) / step
	return &v1.Range{Start: now.Add(-steps * step), End: now, Step: step}
}

// plot adds a point of a range to the sample's chart. If the point is at an end of the range, it
// adds it to the current value or the baseline as well.
func (g *gathering) plot(sm *sample, j plannedQuery, m *query.Member, from origin, p point) {
	if j.covers(present) && !m.NamedPods && j.span.End.Sub(p.at) < j.span.Step {
		from.add(&sm.now, p.v)
		sm.at = p.at
	}
	if j.covers(baseline) && !m.NamedPods && m.Signal.Compared() && p.at.Sub(j.span.Start) < j.span.Step {
		from.add(&sm.base, p.v)
	}
	if !j.covers(course) || !m.Signal.Chart {
		return
	}
	i := slices.IndexFunc(sm.charts, func(c chart) bool { return c.from == from })
	if i < 0 {
		i, sm.charts = len(sm.charts), append(sm.charts,
			chart{from, make([]state.Point, 0, j.span.End.Sub(j.span.Start)/j.span.Step+1)})
	}
	c := &sm.charts[i]
	at, found := slices.BinarySearchFunc(c.points, p.at,
		func(x state.Point, t time.Time) int { return x.At.Compare(t) })
	if found {
		c.points[at].Value = enrich.Combine(enrich.CombineOf(m.Signal, m.Source), c.points[at].Value, p.v)
	} else {
		c.points = slices.Insert(c.points, at, state.Point{At: p.at.UTC(), Value: p.v})
	}
}

// series returns the entity's chart. If several scrapes show the entity (a pod with two addresses,
// or in two jobs), their points are combined like the values. Otherwise, the chart and the value
// would be different quantities.
func (sm *sample) series(how signals.Combine) []state.Point {
	switch len(sm.charts) {
	case 0:
		return nil
	case 1:
		return sm.charts[0].points
	}
	moments := map[time.Time]*enrich.Parts{}
	for _, c := range sm.charts {
		for _, p := range c.points {
			parts := moments[p.At]
			c.from.add(&parts, p.Value)
			moments[p.At] = parts
		}
	}
	out := make([]state.Point, 0, len(moments))
	for at, parts := range moments {
		out = append(out, state.Point{At: at, Value: parts.Value(how)})
	}
	slices.SortFunc(out, func(a, b state.Point) int { return a.At.Compare(b.At) })
	return out
}

// recordFailure records what a failed query would have given.
func (j plannedQuery) recordFailure(out *enrich.Reading, reason string) {
	for _, what := range j.moments {
		note := state.Missing{Signal: string(what), Reason: reason}
		switch {
		case what == present:
			for _, m := range j.union.Members() {
				out.Fail(m.Signal.ID, reason)
			}
		case !slices.Contains(out.Notes, note):
			out.Notes = append(out.Notes, note)
		}
	}
}

// An origin is the scrape of a series.
type origin struct{ job, instance string }

func (o origin) add(to **enrich.Parts, v float64) {
	if *to == nil {
		*to = &enrich.Parts{}
	}
	(*to).Add(o.instance, o.job, v)
}

// at returns the sample of a series' entity, and the series' origin.
func (g *gathering) at(m *query.Member, labels map[string]string) (*sample, origin) {
	src := m.Source
	if m.Pool {
		src.Per = signals.PerPool
	}
	e := enrich.Identify(g.query.Cluster, m.Signal, src, labels)
	text := m.Text(labels)
	key := sampleKey{m.ID, e, text}
	if e.Pod != "" {
		key.entity.Instance = ""
	}
	sm := g.samples[key]
	if sm == nil {
		sm = &sample{member: m, entity: e, text: text}
		g.samples[key] = sm
	}
	return sm, origin{job: jobOf(labels), instance: cmp.Or(labels["instance"], labels["exported_instance"])}
}

// finish makes the samples. For each signal and entity, the first source with a current value wins.
func (g *gathering) finish(r *enrich.Reading) {
	type slot struct {
		signal string
		of     state.Entity
	}
	of := func(sm *sample) slot { return slot{sm.member.Signal.ID, enrich.SlotOf(sm.entity)} }
	first := make(map[slot]int, len(g.samples))
	for _, sm := range g.samples {
		if !sm.given() {
			continue
		}
		if i, ok := first[of(sm)]; !ok || sm.member.Index < i {
			first[of(sm)] = sm.member.Index
		}
	}
	g.inheritBaselines()
	g.enginesPages()
	chosen := make([]*sample, 0, len(first))
	for _, sm := range g.samples {
		if sm.given() && first[of(sm)] == sm.member.Index {
			chosen = append(chosen, sm)
		}
	}
	if g.hasShortPast() && g.began.After(g.query.Onset.Add(-time.Hour)) {
		r.Began = g.began
	}
	slices.SortFunc(chosen, func(a, b *sample) int { // a stable order
		if c := strings.Compare(a.member.Signal.ID, b.member.Signal.ID); c != 0 {
			return c
		}
		return cmp.Or(enrich.CompareEntities(a.entity, b.entity), strings.Compare(a.entity.Model, b.entity.Model),
			strings.Compare(a.text, b.text))
	})
	r.Samples = make([]state.Sample, 0, len(chosen))
	for _, sm := range chosen {
		r.Samples = append(r.Samples, g.sample(sm))
		r.Runs(sm.entity, sm.member.Source.Engine)
	}
	r.Earlier = g.earlier(r)
	r.Gone = g.gone()
}

func (g *gathering) sample(sm *sample) state.Sample {
	sig := sm.member.Signal
	how := enrich.CombineOf(sig, sm.member.Source)
	series := sm.series(how)
	return state.Sample{
		Signal: sig.ID, Entity: sm.entity, Value: sm.now.Value(how), Text: sm.text, Unit: sig.Unit, At: sm.at.UTC(),
		Baseline: sm.base.Pointer(how), DayAgo: sm.day.Pointer(how), WeekAgo: sm.week.Pointer(how),
		Series: series, Z: enrich.ZScore(sm.now.Value(how), sig.Unit, series, g.query.Onset),
	}
}
