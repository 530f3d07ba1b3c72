package engine

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"paramedic/rules/enrich"
	"paramedic/rules/signals"
	"paramedic/state"
)

// Read implements enrich.Source. If the newest pages are old, it scrapes first.
func (c *Client) Read(ctx context.Context, q enrich.Query) enrich.Reading {
	if c.newest().Before(q.Now.Add(-2 * c.interval)) {
		c.Scrape(ctx)
	}
	now := q.Now
	if n := c.newest(); n.After(now) && n.Sub(now) < time.Minute {
		now = n // a page that was read a moment after the query answers it
	}
	pages, ever := c.all() // fixed lists, even if discovery changes them meanwhile
	for _, t := range ever {
		t.mu.Lock()
		defer t.mu.Unlock()
	}
	var out enrich.Reading
	for _, s := range q.Signals {
		samples := c.signal(ctx, s, q, pages, ever, now, &out)
		if len(samples) == 0 {
			if why := why(ctx, s, pages); why != "" {
				out.Fail(s.ID, why)
			}
		}
		out.Samples = append(out.Samples, samples...)
	}
	if began := oldest(pages); began.After(q.Onset.Add(-time.Hour)) {
		out.Began = began
	}
	out.Notes = append(out.Notes, unseen(q, pages, now)...)
	for _, t := range pages {
		if t.problem != "" && len(out.Notes) < 3 {
			out.Notes = append(out.Notes, state.Missing{Signal: "engines",
				Reason: t.labels["instance"] + ": " + t.problem})
		}
	}
	return out
}

func (c *Client) newest() time.Time {
	var newest time.Time
	for _, t := range c.list() {
		t.mu.Lock()
		if n := len(t.history.rows); n > 0 && t.history.rows[n-1].at.After(newest) {
			newest = t.history.rows[n-1].at
		}
		t.mu.Unlock()
	}
	return newest
}

// oldest returns the time of the oldest page in the history.
func oldest(pages []*target) time.Time {
	var first time.Time
	for _, t := range pages {
		if rows := t.history.rows; len(rows) > 0 && (first.IsZero() || rows[0].at.Before(first)) {
			first = rows[0].at
		}
	}
	return first
}

// unseen returns a note for each signal that counts changes, if the history is shorter than its
// window. If the gauge has a value, it may have changed before the first page, and the count does
// not include that.
func unseen(q enrich.Query, pages []*target, now time.Time) []state.Missing {
	began := oldest(pages)
	var out []state.Missing
	for _, s := range q.Signals {
		for _, src := range s.Sources {
			if src.Fn != signals.FnNews || !began.After(now.Add(-src.Window)) {
				continue
			}
			last := evaluation{cluster: q.Cluster, signal: s, source: src, to: now}
			last.source.Fn = signals.FnLast
			for _, v := range last.run(pages) {
				if v != 0 {
					since := began.UTC().Format("15:04:05 UTC")
					out = append(out, state.Missing{Signal: s.ID,
						Reason: "scraped only since " + since + ", earlier changes are not counted"})
					break
				}
			}
		}
	}
	return out
}

// why returns the reason for a signal without a value: there was no time to evaluate it, or its
// page was not read often enough yet.
func why(ctx context.Context, s signals.Signal, pages []*target) string {
	if own, pool := levels(s); ctx.Err() != nil && len(own)+len(pool) > 0 {
		return enrich.Explain("engines", ctx.Err())
	}
	for _, t := range pages {
		for _, src := range s.Sources {
			if src.Window > 0 && len(t.history.byMetric[src.Metrics()[0]]) > 0 && len(t.history.rows) < slopePoints {
				return "too few scrapes yet to see a change"
			}
		}
	}
	return ""
}

type level struct {
	source signals.Source
	pool   bool
}

// levels returns the sources of a signal, the preferred first: those for its own entity, and those
// for its pool.
func levels(s signals.Signal) (own, pool []level) {
	if slices.Contains(s.By, "probe") {
		src := signals.Source{Engine: "target", Metric: healthMetric, Fn: signals.FnLast, Scale: 1}
		own = append(own, level{source: src})
	}
	for _, src := range s.Sources {
		poolOnly := src.Per == signals.PerPool && s.Per == signals.PerPod
		if !poolOnly {
			own = append(own, level{source: src})
		}
		if poolOnly || s.Pooled && (src.Fn == signals.FnQuantile || src.Fn == signals.FnMean || src.Fn == signals.FnRatio) {
			pool = append(pool, level{source: src, pool: true})
		}
	}
	return own, pool
}

// signal evaluates a signal on every entity. The first source with a value wins.
func (c *Client) signal(
	ctx context.Context, s signals.Signal, q enrich.Query, pages, ever []*target, now time.Time, r *enrich.Reading,
) []state.Sample {
	own, pool := levels(s)
	var out []state.Sample
	for _, ways := range [][]level{own, pool} {
		taken := map[state.Entity]bool{}
		for _, way := range ways {
			if ctx.Err() != nil {
				return out
			}
			targets := having(way.source, pages)
			if len(targets) == 0 {
				continue
			}
			fresh := map[state.Entity]bool{}
			for _, sample := range c.samples(s, way, targets, having(way.source, ever), q, now) {
				k := enrich.SlotOf(sample.Entity)
				if taken[k] {
					continue
				}
				fresh[k] = true
				out = append(out, sample)
				r.Runs(sample.Entity, way.source.Engine)
			}
			for k := range fresh {
				taken[k] = true
			}
		}
	}
	return out
}

// having returns the targets whose pages have the source's metric.
func having(src signals.Source, pages []*target) []*target {
	var out []*target
	for _, t := range pages {
		if slices.ContainsFunc(src.Metrics(), func(m string) bool { return len(t.history.byMetric[m]) > 0 }) {
			out = append(out, t)
		}
	}
	return out
}

// samples evaluates a source on the targets, and their past on those that ever were.
func (c *Client) samples(s signals.Signal, way level, targets, ever []*target, q enrich.Query, now time.Time) []state.Sample {
	e := evaluation{cluster: q.Cluster, signal: s, source: way.source, pool: way.pool}
	evaluateAt := func(to time.Time) map[string]entityValue {
		e.to = to
		return e.entities(targets)
	}
	everAt := func(to time.Time) map[string]entityValue {
		e.to = to
		return e.entities(ever)
	}
	current := evaluateAt(now)
	if len(current) == 0 {
		return nil
	}
	var before, earlier map[string]entityValue
	if s.Compared() {
		p := pastOf(ever, q.Onset)
		before, earlier = e.baseline(p, everAt), e.earlier(p, everAt)
		inherit(s, stayed(targets, p.baseline()), current, before)
		inherit(s, stayed(targets, p.begun), current, earlier)
	}
	series := map[string][]state.Point{}
	if s.Chart {
		start := q.Onset.Add(-time.Hour)
		step := max(enrich.ChartStep(q.Onset, now), c.interval)
		for to := start; !to.After(now); to = to.Add(step) {
			for k, f := range evaluateAt(to) {
				series[k] = append(series[k], state.Point{At: to, Value: f.value})
			}
		}
	}
	keys := make([]string, 0, len(current))
	for k := range current {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	e.to = now
	asOf := e.asOf(targets, q.Fresh)
	var out []state.Sample
	for _, k := range keys {
		f := current[k]
		sample := state.Sample{Signal: s.ID, Entity: f.entity, Value: f.value, Text: f.text, Unit: s.Unit, At: asOf[k],
			Series: series[k], Z: enrich.ZScore(f.value, s.Unit, series[k], q.Onset)}
		if b, ok := before[k]; ok {
			sample.Baseline = &b.value
		}
		if b, ok := earlier[k]; ok {
			sample.Earlier = &b.value
		}
		out = append(out, sample)
	}
	return out
}

// asOf returns the time of the entities' values: the time of the newest pages that have their
// series. The value of several pages has the time of the oldest of them. If no newest page has the
// series, a rate still uses earlier pages. A fresh value then has the time of the last page that
// had it.
func (e *evaluation) asOf(targets []*target, fresh bool) map[string]time.Time {
	out := map[string]time.Time{}
	pages := func(visit func(group string, rows []row, series int)) {
		for _, t := range targets {
			rows := t.history.rows[:t.history.search(e.to)]
			for _, metric := range e.source.Metrics() {
				e.each([]*target{t}, metric, nil, func(_ *target, i int, k string) {
					visit(e.slots[k].group(), rows, i)
				})
			}
		}
	}
	pages(func(g string, rows []row, series int) {
		if n := len(rows); n > 0 && !math.IsNaN(rows[n-1].value(series)) {
			if have, ok := out[g]; !ok || rows[n-1].at.Before(have) {
				out[g] = rows[n-1].at
			}
		}
	})
	now := maps.Clone(out)
	pages(func(g string, rows []row, series int) {
		if _, ok := now[g]; ok || len(rows) == 0 {
			return
		}
		at := rows[len(rows)-1].at
		if fresh {
			at = newest(rows, series)
		}
		if at.After(out[g]) {
			out[g] = at
		}
	})
	return out
}

// newest returns the time of the last row that has a series, or the zero time.
func newest(rows []row, series int) time.Time {
	for _, r := range slices.Backward(rows) {
		if !math.IsNaN(r.value(series)) {
			return r.at
		}
	}
	return time.Time{}
}

// An entityValue is the value of one entity.
type entityValue struct {
	entity state.Entity
	text   string
	value  float64
}

// entities evaluates the source and combines the values that a pod has under several addresses.
func (e *evaluation) entities(targets []*target) map[string]entityValue {
	how := enrich.CombineOf(e.signal, e.source)
	parts := map[string]*enrich.Parts{}
	out := map[string]entityValue{}
	for k, v := range e.run(targets) {
		s := e.slots[k]
		g := s.group()
		if parts[g] == nil {
			parts[g] = &enrich.Parts{}
			out[g] = entityValue{entity: s.entity, text: s.text}
		}
		parts[g].Add(s.instance, "", v)
	}
	for g, p := range parts {
		f := out[g]
		if f.value = p.Value(how); math.IsNaN(f.value) {
			delete(out, g)
			continue
		}
		out[g] = f
	}
	return out
}
