package prometheus

import (
	"cmp"
	"slices"
	"time"

	"paramedic/rules/enrich/prometheus/query"
	"paramedic/rules/signals"
)

// A quotient holds the sums of one entity by time: dividend (over) and divisor (under).
type quotient struct {
	labels      map[string]string
	over, under map[time.Time]float64
}

// A seriesKey identifies a series of a member.
type seriesKey struct {
	member *query.Member
	labels string
}

// seriesKeyOf returns the key of a series of the member.
func seriesKeyOf(m *query.Member, labels map[string]string) seriesKey {
	return seriesKey{m, keyOf(m.Own(labels))}
}

// addTo adds one series to its quotient. A pool's quotient sums the series of all its pods.
func addTo(quotients map[seriesKey]*quotient, m *query.Member, s series, divisor bool) {
	labels := m.Own(s.labels)
	key := seriesKey{m, keyOf(labels)}
	q := quotients[key]
	if q == nil {
		q = &quotient{labels: labels, over: map[time.Time]float64{}, under: map[time.Time]float64{}}
		quotients[key] = q
	}
	to := q.over
	if divisor {
		to = q.under
	}
	for _, p := range s.points {
		to[p.at] += p.v
	}
}

// points returns the quotient at each time with a positive divisor. A ratio without a dividend is
// zero, for example if there was never a 5xx; a mean needs both.
func (q *quotient) points(src signals.Source) []point {
	var out []point
	for at, whole := range q.under {
		part, ok := q.over[at]
		if !(whole > 0) || !ok && src.Fn == signals.FnMean {
			continue
		}
		if v := part / whole * src.Scale; v != 0 || !src.Nonzero {
			out = append(out, point{at, v})
		}
	}
	slices.SortFunc(out, func(a, b point) int { return cmp.Compare(a.at.UnixMilli(), b.at.UnixMilli()) })
	return out
}
