package metrics

import (
	"sort"

	dto "github.com/prometheus/client_model/go"
)

// A Histogram counts observations as a Prometheus client does.
type Histogram struct {
	edges  []float64
	counts []uint64 // by bucket, not cumulative; the last is +Inf
	sum    float64
	count  uint64
	// A step observes the same gap for its whole batch, so the last bucket is cached.
	lastValue  float64
	lastBucket int
}

// NewHistogram returns an empty histogram with the upper edges of its buckets, in rising order and
// without +Inf. It keeps the slice.
func NewHistogram(edges []float64) *Histogram {
	return &Histogram{edges: edges, counts: make([]uint64, len(edges)+1), lastValue: -1}
}

// Observe counts a value, which is not negative.
func (h *Histogram) Observe(v float64) {
	if v != h.lastValue {
		h.find(v)
	}
	h.counts[h.lastBucket]++
	h.sum += v
	h.count++
}

func (h *Histogram) find(v float64) {
	h.lastValue, h.lastBucket = v, sort.SearchFloat64s(h.edges, v)
}

// Count returns the number of observations.
func (h *Histogram) Count() uint64 { return h.count }

// Sum returns the sum of the observed values.
func (h *Histogram) Sum() float64 { return h.sum }

// export returns a copy, because a page must not change while the engine continues.
func (h *Histogram) export() *dto.Histogram {
	sum, count := h.sum, h.count
	out := &dto.Histogram{SampleCount: &count, SampleSum: &sum, Bucket: make([]*dto.Bucket, len(h.edges))}
	buckets, below := make([]dto.Bucket, len(h.edges)), make([]uint64, len(h.edges))
	total := uint64(0)
	for i := range h.edges {
		total += h.counts[i]
		below[i] = total
		buckets[i].UpperBound, buckets[i].CumulativeCount = &h.edges[i], &below[i]
		out.Bucket[i] = &buckets[i]
	}
	return out
}
