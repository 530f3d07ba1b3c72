package prometheus

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"paramedic/rules"
	"paramedic/rules/enrich"
	"paramedic/state"
)

// gathering collects the answers of one Read.
type gathering struct {
	query   enrich.Query
	scope   narrow
	samples map[string]*sample
	members map[string]member
}

// sample is one signal on one entity as one source gives it, before the sources are weighed against each other.
type sample struct {
	member         member
	entity         state.Entity
	text           string
	now, base, day *enrich.Parts
	week           *enrich.Parts
	series         map[int64]float64
	at             time.Time
}

func (g *gathering) jobs() []job {
	g.members = map[string]member{}
	var all, past, chart []member
	for _, s := range g.query.Signals {
		ms := compile(s, g.scope)
		for _, m := range ms {
			g.members[m.id()] = m
		}
		all = append(all, ms...)
		if s.Compared() {
			past = append(past, ms...)
		}
		if s.Chart {
			chart = append(chart, g.charted(ms)...)
		}
	}
	now, onset := g.query.Now, g.query.Onset
	var out []job
	for _, ms := range split(all, unionsNow) {
		out = append(out, job{members: ms, at: now})
	}
	for _, ms := range split(past, unionsBefore) {
		out = append(out, job{members: ms, at: onset.Add(-time.Hour), name: baseline})
	}
	for _, ms := range split(g.distant(past), unionsDistant) {
		out = append(out, job{members: ms, at: onset.Add(-24 * time.Hour), name: distant})
	}
	for _, ms := range split(chart, unionsRange) {
		out = append(out, job{members: ms, span: span(onset, now), name: "series"})
	}
	return out
}

// distant are the members a day ago with themselves a week ago. It is the key signals that tell what is usual, and
// of quantiles and ratios the pool's. The hour before is asked for apart from them: old data can be slow to come, from an object store or
// not at all, and what a verdict rests on most must not wait for it.
func (g *gathering) distant(past []member) []member {
	out := make([]member, 0, 2*len(past))
	for _, m := range past {
		if (m.signal.Chart || m.signal.Seasonal) && !m.twin() {
			out = append(out, m, m.weekEarlier(g.scope))
		}
	}
	return out
}

// charted are the members whose course is asked for: that of quantiles and ratios for the pool, and for the pods that the incident is
// about.
func (g *gathering) charted(ms []member) []member {
	own, few := g.scope.named()
	var out []member
	for _, m := range ms {
		switch {
		case !m.twin():
			out = append(out, m)
		case few:
			out = append(out, m.compiled(own))
		}
	}
	return out
}

// span is the hour before the onset until now, in whole seconds.
func span(onset, now time.Time) *v1.Range {
	start := onset.Add(-time.Hour)
	step := max(enrich.ChartStep(onset, now), 15*time.Second)
	if whole := step.Truncate(time.Second); whole < step {
		step = whole + time.Second
	}
	return &v1.Range{Start: start, End: now, Step: step}
}

// split divides members evenly over at most n unions, the sources of a signal together.
func split(ms []member, n int) [][]member {
	if len(ms) == 0 {
		return nil
	}
	size := (len(ms) + n - 1) / n
	var out [][]member
	var cur []member
	for i, m := range ms {
		if len(cur) >= size && len(out) < n-1 && m.signal.ID != ms[i-1].signal.ID {
			out, cur = append(out, cur), nil
		}
		cur = append(cur, m)
	}
	return append(out, cur)
}

func (g *gathering) take(j job, a answer) {
	for _, s := range a.vector {
		v := float64(s.Value)
		at := s.Timestamp.Time()
		if math.IsNaN(v) || math.IsInf(v, 0) || j.at.Sub(at) > Stale {
			continue
		}
		sm, from := g.at(s.Metric)
		if sm == nil {
			continue
		}
		if v = sm.member.value(s.Metric, v); math.IsNaN(v) {
			continue
		}
		into := &sm.now
		switch {
		case j.name == baseline:
			into = &sm.base
		case j.name == distant && from.week:
			into = &sm.week
		case j.name == distant:
			into = &sm.day
		default:
			sm.at = at
		}
		if *into == nil {
			*into = &enrich.Parts{}
		}
		(*into).Add(from.instance, from.job, v)
	}
	for _, s := range a.matrix {
		if sm, _ := g.at(s.Metric); sm != nil {
			g.series(sm, s)
		}
	}
}

// series adds a series to the sample's: several (a pod that was scraped under two addresses) are combined point by point.
func (g *gathering) series(sm *sample, s *model.SampleStream) {
	if sm.series == nil {
		sm.series = map[int64]float64{}
	}
	how := enrich.CombineOf(sm.member.signal, sm.member.source)
	for _, p := range s.Values {
		v := float64(p.Value)
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		at := int64(p.Timestamp)
		if have, ok := sm.series[at]; ok {
			v = enrich.Combine(how, have, v)
		}
		sm.series[at] = v
	}
}

// origin is what a series says of itself besides what it is about.
type origin struct {
	job, instance string
	week          bool
}

// at finds the sample that a series belongs to.
func (g *gathering) at(labels model.Metric) (*sample, origin) {
	id, week := strings.CutSuffix(string(labels[marker]), weekMark)
	m, ok := g.members[id]
	if !ok {
		return nil, origin{}
	}
	plain := make(map[string]string, len(labels))
	for k, v := range labels {
		plain[string(k)] = string(v)
	}
	src := m.source
	if m.pool {
		src.Per = rules.PerPool
	}
	e := enrich.Identify(g.query.Cluster, m.signal, src, plain)
	text := ""
	if src.Label != "" {
		text = plain[src.Label]
	}
	key := strings.Join([]string{id, e.Namespace, e.Model, e.Pool, e.Pod, e.Node, e.GPU, text}, "\x00")
	if e.Pod == "" {
		key += "\x00" + e.Instance
	}
	if g.samples[key] == nil {
		g.samples[key] = &sample{member: m, entity: e, text: text}
	}
	return g.samples[key], origin{job: plain["job"], instance: plain["instance"], week: week}
}

// value is the sample's value: that of a label where the source says so.
func (m member) value(labels model.Metric, v float64) float64 {
	if m.source.Value == "" {
		return v
	}
	f, err := strconv.ParseFloat(string(labels[model.LabelName(m.source.Value)]), 64)
	if err != nil {
		return math.NaN()
	}
	return f
}

// finish makes the samples: per signal and entity, the first source with a value now.
func (g *gathering) finish() []state.Sample {
	keys := slices.SortedFunc(maps.Keys(g.samples), func(a, b string) int {
		x, y := g.samples[a], g.samples[b]
		if x.member.index != y.member.index {
			return x.member.index - y.member.index
		}
		return strings.Compare(a, b)
	})
	taken := map[string]int{} // signal and entity → the source that gave it
	var out []state.Sample
	for _, k := range keys {
		sm := g.samples[k]
		if sm.now == nil {
			continue
		}
		slot := sm.member.signal.ID + "\x00" + enrich.SlotOf(sm.entity)
		if by, ok := taken[slot]; ok && by != sm.member.index {
			continue
		}
		taken[slot] = sm.member.index
		out = append(out, g.sample(sm))
	}
	return out
}

func (g *gathering) sample(sm *sample) state.Sample {
	how := enrich.CombineOf(sm.member.signal, sm.member.source)
	s := state.Sample{Signal: sm.member.signal.ID, Entity: sm.entity, Value: sm.now.Value(how), Text: sm.text,
		Unit: sm.member.signal.Unit, At: sm.at.UTC(), Baseline: sm.base.Pointer(how), DayAgo: sm.day.Pointer(how), WeekAgo: sm.week.Pointer(how)}
	for _, at := range slices.Sorted(maps.Keys(sm.series)) {
		s.Series = append(s.Series, state.Point{At: time.UnixMilli(at).UTC(), Value: sm.series[at]})
	}
	s.Z = enrich.ZScore(s.Value, s.Unit, s.Series, g.query.Onset)
	return s
}
