package prometheus

import (
	"fmt"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"paramedic/rules/enrich"
	"paramedic/rules/enrich/prometheus/query"
)

const (
	// cacheFor is the time for which an answer is reused. Late samples, or those of a store that
	// did not answer, appear after it.
	cacheFor = 30 * time.Minute
	// maxAnswers limits the cached answers: those of ten incidents, about 36 MB for pools of 64
	// workers.
	maxAnswers = 64
	// shortCacheFor is the time for which an answer is reused that may change soon: an empty
	// answer, and the prefetched discovery of engines, which one gathering uses. The first
	// gathering of an incident starts ten seconds after its opening.
	shortCacheFor = 30 * time.Second
	// lateness is the assumed longest delay of a sample: the longest usual scrape interval of
	// engines.
	lateness = time.Minute
)

// A pastCache keeps answers about the past. An open incident is gathered repeatedly. More than half
// of Prometheus' work for it would be on data that no longer change: the charts up to the onset,
// the hour before it, the day and the week before.
type pastCache struct {
	answers     *lru.Cache[cacheKey, cachedAnswer]
	discoveries *lru.Cache[discoveryKey, recentDiscovery]
}

func newPastCache() (*pastCache, error) {
	answers, err := lru.New[cacheKey, cachedAnswer](maxAnswers)
	if err != nil {
		return nil, fmt.Errorf("making a memory of %d answers: %w", maxAnswers, err)
	}
	discoveries, err := lru.New[discoveryKey, recentDiscovery](maxAnswers)
	if err != nil {
		return nil, fmt.Errorf("making a memory of %d looks: %w", maxAnswers, err)
	}
	return &pastCache{answers, discoveries}, nil
}

// A discoveryKey identifies a discovery of engines.
type discoveryKey struct {
	namespace, pool string
	compared        bool
	onset           time.Time
	jobs            string
}

func discoveryKeyOf(q enrich.Query) discoveryKey {
	return discoveryKey{q.Scope.Namespace, q.Scope.Pool, comparing(q), q.Onset.Round(0).UTC(),
		strings.Join(q.Jobs, "\n")}
}

type recentDiscovery struct {
	query.Discovery
	at time.Time
}

// takeDiscovery returns the prefetched discovery and removes it.
func (m *pastCache) takeDiscovery(q enrich.Query) (query.Discovery, bool) {
	of := discoveryKeyOf(q)
	l, ok := m.discoveries.Get(of)
	m.discoveries.Remove(of)
	return l.Discovery, ok && within(shortCacheFor, l.at, q.Now)
}

// isFull reports whether more answers would evict recent ones. In a storm of incidents, prefetched
// answers would otherwise evict each other before use.
func (m *pastCache) isFull(more int, now time.Time) bool {
	_, oldest, ok := m.answers.GetOldest()
	return ok && m.answers.Len()+more > maxAnswers && within(shortCacheFor, oldest.asked, now)
}

// within reports whether a time is not before another, and at most that much later.
func within(most time.Duration, from, to time.Time) bool {
	return !to.Before(from) && to.Sub(from) <= most
}

// A cacheKey identifies a cached answer.
type cacheKey struct {
	query   string
	chart   bool // a range; with few signals, an instant query has the same text
	settled time.Time
}

func (j plannedQuery) cacheKey() cacheKey { return cacheKey{j.union.Text(), j.span != nil, j.settled} }

// A cachedAnswer holds the part of an answer that no longer changes: points up to the key's moment
// that are older than the lateness.
type cachedAnswer struct {
	asked  time.Time // the time of the query
	until  time.Time
	span   *v1.Range // of the query
	series []series
}

// usable reports whether the answer can be used. An empty answer may come from a store that was
// down, so it is used only briefly.
func (r cachedAnswer) usable(now time.Time) bool {
	return !r.asked.IsZero() && (len(r.series) > 0 || within(shortCacheFor, r.asked, now))
}

// A knownQuery is a query with its cached answer.
type knownQuery struct {
	plannedQuery
	series []series
}

// lookup divides queries into those with a cached answer and those to send. Charts are used only if
// all of them were queried at the same time. Signals are correlated by points of the same times,
// and two gatherings have different times before the onset.
func (m *pastCache) lookup(planned []plannedQuery, now time.Time) (answered []knownQuery, rest []plannedQuery) {
	found := make([]cachedAnswer, len(planned))
	var chartsAsked []time.Time // when the charts with points were queried; zero if one is not cached
	for i, j := range planned {
		if r, ok := m.answers.Get(j.cacheKey()); ok && within(cacheFor, r.asked, now) {
			found[i] = r
		}
		if r := found[i]; j.span != nil && (r.asked.IsZero() || len(r.series) > 0) {
			chartsAsked = append(chartsAsked, r.asked)
		}
	}
	mixed := len(slices.Compact(chartsAsked)) > 1
	for i, j := range planned {
		r := found[i]
		if !r.usable(now) || j.span != nil && mixed {
			rest = append(rest, j)
			continue
		}
		past := j
		past.span = r.span
		if j.span != nil {
			past.moments = j.momentsExcept(present)
			since := j
			since.moments = j.momentsExcept(baseline)
			since.settled = time.Time{}
			since.span = after(j.span, r.until)
			rest = append(rest, since)
		}
		answered = append(answered, knownQuery{past, r.series})
	}
	return answered, rest
}

// keep caches the settled part of an answer. It skips a partial answer, because a store behind the
// server did not answer.
func (m *pastCache) keep(j plannedQuery, a answer, now time.Time) {
	if j.settled.IsZero() || a.err != nil || a.partial {
		return
	}
	last := j.settled
	if latest := now.Add(-lateness); latest.Before(last) {
		last = latest
	}
	m.answers.Add(j.cacheKey(), cachedAnswer{asked: now, until: last, span: j.span, series: until(a.series, last)})
}

// until returns the series without their points after a moment.
func until(all []series, moment time.Time) []series {
	out := make([]series, 0, len(all))
	for _, s := range all {
		n, _ := slices.BinarySearchFunc(s.points, moment, func(p point, t time.Time) int {
			if p.at.After(t) {
				return 1
			}
			return -1
		})
		if n > 0 {
			// A copy, so that the later points can be freed.
			out = append(out, series{s.labels, slices.Clone(s.points[:n])})
		}
	}
	return out
}

// after returns the part of a range after a moment.
func after(span *v1.Range, moment time.Time) *v1.Range {
	steps := span.End.Sub(moment.Add(1)) / span.Step
	return &v1.Range{Start: span.End.Add(-steps * span.Step), End: span.End, Step: span.Step}
}
