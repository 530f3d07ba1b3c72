package prometheus

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"paramedic/rules"
	"paramedic/rules/enrich"
	"paramedic/state"
)

// gathering collects the answers of one Read.
type gathering struct {
	query   enrich.Query
	scope   narrow
	samples map[sampleKey]*sample
	scraped map[enrich.Scraped]bool
}

// sampleKey is what a sample is of.
type sampleKey struct {
	member string
	entity state.Entity
	text   string
}

// sample is one signal on one entity as one source gives it, before the sources are weighed against
// each other.
type sample struct {
	member         *member
	entity         state.Entity
	text           string
	now, base, day *enrich.Parts
	week           *enrich.Parts
	charts         []chart
	at             time.Time
	torn           bool // a part of it is no number, so that the rest is not the whole
}

// given reports whether the sample has a value now.
func (sm *sample) given() bool { return sm.now != nil && !sm.torn }

// chart is an entity's course as one scrape shows it. Of almost every entity there is one.
type chart struct {
	from   origin
	points []state.Point
}

// young is the age until which an incident's charts also give the present and the hour before it,
// which are their ends, so that each series of its pool is read once. Of an older one, and of more
// than one pool, the charts may take longer than a verdict should wait, or not come at all, and are
// asked for apart.
const young = 2 * time.Hour

func (g *gathering) jobs() []job {
	if g.query.Fresh {
		return g.fresh()
	}
	var all, past, old, chart []*member
	for _, s := range g.query.Signals {
		ms := compile(s, g.scope)
		all = append(all, ms...)
		if s.Compared() {
			past = append(past, ms...)
		}
		if s.Seasonal {
			old = append(old, daysAgo(ms)...)
		}
		if s.Chart {
			chart = append(chart, g.charted(ms)...)
		}
	}
	now, onset := g.query.Now, g.query.Onset
	var out []job
	add := func(j job, ms []*member, unions int) { out = append(out, j.over(ms, unions)...) }
	charts := []moment{course}
	if g.scope.pods != "" && now.Sub(onset) <= young {
		charts = []moment{present, course}
		all, chart = shared(all, chart)
		if !g.brief() {
			charts = append(charts, baseline)
			past = apart(past, chart)
		}
	}
	before, distant := g.before(), onset.Add(-24*time.Hour)
	add(job{moments: charts, span: span(onset, now), settled: g.settled(onset)}, chart, unionsRange)
	add(job{moments: []moment{present}, at: now}, all, unionsNow)
	add(job{moments: []moment{baseline}, at: before, settled: g.settled(before)}, past, unionsBefore)
	add(job{moments: []moment{dayAgo, weekAgo}, at: distant, settled: g.settled(distant)}, old, unionsDistant)
	return out
}

// settled is a moment that may be asked for again: an incident's onset stays, that of a look at the
// fleet is now.
func (g *gathering) settled(moment time.Time) time.Time {
	if !g.query.Onset.Before(g.query.Now) {
		return time.Time{}
	}
	return moment.Round(0).UTC() // what compares with itself
}

// shared are all members but those that charts give, and the charts' members with those that need
// no expression of their own there.
func shared(all, chart []*member) (others, charts []*member) {
	drawn := map[string]bool{}
	for _, m := range chart {
		drawn[m.reads()] = true
	}
	for _, m := range apart(all, chart) {
		if m.bucketed() && drawn[m.reads()] {
			chart = append(chart, m)
		} else {
			others = append(others, m)
		}
	}
	return others, chart
}

// apart are the members without those that are among others for the whole scope.
func apart(members, others []*member) []*member {
	given := map[string]bool{}
	for _, m := range others {
		given[m.id] = given[m.id] || !m.few
	}
	return slices.DeleteFunc(slices.Clone(members), func(m *member) bool { return given[m.id] })
}

// daysAgo are the members a day ago with themselves a week ago; of quantiles and ratios the pool's.
// The hour before is asked for apart from them: old data can be slow to come, from an object store
// or not at all, and what a verdict rests on most must not wait for it.
func daysAgo(ms []*member) []*member {
	var out []*member
	for _, m := range ms {
		if !m.twin() {
			week := *m
			week.week = true
			out = append(out, m, &week)
		}
	}
	return out
}

// charted are the members whose course is asked for: that of quantiles and ratios for the pool, and
// for the pods that the incident is about.
func (g *gathering) charted(ms []*member) []*member {
	own, few := g.scope.named()
	var out []*member
	for _, m := range ms {
		if m.twin() {
			if !few {
				continue
			}
			m = &member{id: m.id, signal: m.signal, source: m.source, index: m.index, scope: own, few: true}
		}
		out = append(out, m)
	}
	return out
}

// span is the hour before the onset until now, in steps of whole seconds, of which the last one
// ends now.
func span(onset, now time.Time) *v1.Range {
	whole := now.Sub(onset) + time.Hour
	step := max(enrich.ChartStep(onset, now), 15*time.Second)
	if seconds := step.Truncate(time.Second); seconds < step {
		step = seconds + time.Second
	}
	steps := (whole + step - 1) / step
	return &v1.Range{Start: now.Add(-steps * step), End: now, Step: step}
}

// plot adds a point of a range to the sample's chart of this origin, and to its values where the
// range's ends are those.
func (g *gathering) plot(sm *sample, j job, m *member, from origin, p point) {
	if j.gives(present) && !m.few && j.span.End.Sub(p.at) < j.span.Step {
		from.add(&sm.now, p.v)
		sm.at = p.at
	}
	if j.gives(baseline) && !m.few && m.signal.Compared() && p.at.Sub(j.span.Start) < j.span.Step {
		from.add(&sm.base, p.v)
	}
	if !j.gives(course) || !m.signal.Chart {
		return
	}
	i := slices.IndexFunc(sm.charts, func(c chart) bool { return c.from == from })
	if i < 0 {
		i, sm.charts = len(sm.charts), append(sm.charts, chart{from, make([]state.Point, 0, j.span.End.Sub(j.span.Start)/j.span.Step+1)})
	}
	c := &sm.charts[i]
	at, found := slices.BinarySearchFunc(c.points, p.at, func(x state.Point, t time.Time) int { return x.At.Compare(t) })
	if found {
		c.points[at].Value = enrich.Combine(enrich.CombineOf(m.signal, m.source), c.points[at].Value, p.v)
	} else {
		c.points = slices.Insert(c.points, at, state.Point{At: p.at.UTC(), Value: p.v})
	}
}

// series is the entity's course: where several scrapes show it (a pod under two addresses, or by
// two jobs), their parts are combined moment by moment, as its values are, or else the chart and
// the value would not be of the same quantity.
func (sm *sample) series(how rules.Combine) []state.Point {
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

// lost says what a query would have given.
func (j job) lost(out *enrich.Reading, reason string) {
	for _, what := range j.moments {
		note := state.Missing{Signal: string(what), Reason: reason}
		switch {
		case what == present:
			for _, p := range j.parts {
				for _, m := range p.members {
					out.Fail(m.signal.ID, reason)
				}
			}
		case !slices.Contains(out.Notes, note):
			out.Notes = append(out.Notes, note)
		}
	}
}

// origin is where a series comes from, besides what it is about.
type origin struct{ job, instance string }

func (o origin) add(to **enrich.Parts, v float64) {
	if *to == nil {
		*to = &enrich.Parts{}
	}
	(*to).Add(o.instance, o.job, v)
}

// at is the sample of the entity that a series is about.
func (g *gathering) at(m *member, labels map[string]string) (*sample, origin) {
	src := m.source
	if m.pool {
		src.Per = rules.PerPool
	}
	e := enrich.Identify(g.query.Cluster, m.signal, src, labels)
	text := ""
	if src.Label != "" {
		text = labels[src.Label]
	}
	key := sampleKey{m.id, e, text}
	if e.Pod != "" {
		key.entity.Instance = ""
	}
	sm := g.samples[key]
	if sm == nil {
		sm = &sample{member: m, entity: e, text: text}
		g.samples[key] = sm
	}
	return sm, origin{job: labels["job"], instance: labels["instance"]}
}

// value is the sample's value: that of a label where the source says so.
func (m *member) value(labels map[string]string, v float64) float64 {
	if m.source.Value == "" {
		return v
	}
	f, err := strconv.ParseFloat(labels[m.source.Value], 64)
	if err != nil {
		return math.NaN()
	}
	return f
}

// finish makes the samples: per signal and entity, of the first source with a value now.
func (g *gathering) finish(r *enrich.Reading) {
	type slot struct {
		signal string
		of     state.Entity
	}
	of := func(sm *sample) slot { return slot{sm.member.signal.ID, enrich.SlotOf(sm.entity)} }
	first := make(map[slot]int, len(g.samples))
	for _, sm := range g.samples {
		if !sm.given() {
			continue
		}
		if i, ok := first[of(sm)]; !ok || sm.member.index < i {
			first[of(sm)] = sm.member.index
		}
	}
	g.succeed()
	g.enginesPages()
	given := make([]*sample, 0, len(first))
	for _, sm := range g.samples {
		if sm.given() && first[of(sm)] == sm.member.index {
			given = append(given, sm)
		}
	}
	if g.brief() && g.scope.began.After(g.query.Onset.Add(-time.Hour)) {
		r.Began = g.scope.began
	}
	slices.SortFunc(given, func(a, b *sample) int { // the same every time
		if c := strings.Compare(a.member.signal.ID, b.member.signal.ID); c != 0 {
			return c
		}
		return cmp.Or(enrich.CompareEntities(a.entity, b.entity), strings.Compare(a.entity.Model, b.entity.Model), strings.Compare(a.text, b.text))
	})
	r.Samples = make([]state.Sample, 0, len(given))
	for _, sm := range given {
		r.Samples = append(r.Samples, g.sample(sm))
		r.Runs(sm.entity, sm.member.source.Engine)
	}
	r.Gone = g.gone()
}

func (g *gathering) sample(sm *sample) state.Sample {
	sig := sm.member.signal
	how := enrich.CombineOf(sig, sm.member.source)
	series := sm.series(how)
	return state.Sample{Signal: sig.ID, Entity: sm.entity, Value: sm.now.Value(how), Text: sm.text, Unit: sig.Unit, At: sm.at.UTC(),
		Baseline: sm.base.Pointer(how), DayAgo: sm.day.Pointer(how), WeekAgo: sm.week.Pointer(how),
		Series: series, Z: enrich.ZScore(sm.now.Value(how), sig.Unit, series, g.query.Onset)}
}
