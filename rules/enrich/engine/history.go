package engine

import (
	"math"
	"time"
)

// How long history is kept, and how densely. Rates need every scrape of the last minutes; baselines
// and slopes do not.
const (
	denseFor = 16 * time.Minute
	thinFor  = 3 * time.Hour // one row a minute
	keepFor  = 6 * time.Hour // one row in five minutes
)

// A row is one page. Values are in the order of history.series; NaN marks a missing line.
type row struct {
	at     time.Time
	values []float64
}

// A history holds the pages of one target. It is not safe for concurrent use.
type history struct {
	series   []*line // of all pages in the history
	byKey    map[string]int
	byMetric map[string][]int
	rows     []row
}

func newHistory() *history {
	return &history{byKey: map[string]int{}, byMetric: map[string][]int{}}
}

// add adds a page. If the number of series exceeds the limit, the history starts again, because
// labels that change would otherwise grow it without limit.
func (h *history) add(at time.Time, points []point) {
	if n := len(h.rows); n > 0 && !at.After(h.rows[n-1].at) {
		return
	}
	if len(h.series)+len(points) > 2*maxSeries {
		*h = *newHistory()
	}
	for _, p := range points {
		if _, ok := h.byKey[p.key]; !ok {
			h.byKey[p.key] = len(h.series)
			h.byMetric[p.metric] = append(h.byMetric[p.metric], len(h.series))
			h.series = append(h.series, p.line)
		}
	}
	values := make([]float64, len(h.series))
	for i := range values {
		values[i] = math.NaN()
	}
	for _, p := range points {
		values[h.byKey[p.key]] = p.value
	}
	h.rows = append(h.rows, row{at, values})
	h.thin(at)
}

// thin drops rows that are too old, or too close to the previous row for their age.
func (h *history) thin(now time.Time) {
	kept := h.rows[:0]
	for _, r := range h.rows {
		age := now.Sub(r.at)
		gap := time.Duration(0)
		switch {
		case age > keepFor:
			continue
		case age > thinFor:
			gap = 5 * time.Minute
		case age > denseFor:
			gap = time.Minute
		}
		if n := len(kept); n > 0 && r.at.Sub(kept[n-1].at) < gap {
			continue
		}
		kept = append(kept, r)
	}
	clear(h.rows[len(kept):])
	h.rows = kept
}

// between returns the rows after from, up to and including to.
func (h *history) between(from, to time.Time) []row {
	lo, hi := h.search(from), h.search(to)
	return h.rows[lo:hi]
}

// search returns the number of rows at or before t.
func (h *history) search(t time.Time) int {
	lo, hi := 0, len(h.rows)
	for lo < hi {
		if mid := (lo + hi) / 2; h.rows[mid].at.After(t) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// value returns a series' value in a row, or NaN if it is missing.
func (r row) value(i int) float64 {
	if i >= len(r.values) {
		return math.NaN()
	}
	return r.values[i]
}
