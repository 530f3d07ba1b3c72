package prometheus

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"paramedic/rules/enrich"
	"paramedic/rules/enrich/prometheus/query"
)

// A histogram holds the buckets of one entity by time.
type histogram struct {
	members []*query.Member
	labels  map[string]string // without le
	buckets map[time.Time][]enrich.Bucket
}

// collect adds one bucket's series to its histogram. It skips a series without a valid edge.
func collect(to map[string]*histogram, members []*query.Member, s series) {
	le, err := strconv.ParseFloat(s.labels[model.BucketLabel], 64)
	if err != nil {
		return
	}
	labels := maps.Clone(s.labels)
	delete(labels, model.BucketLabel)
	key := keyOf(labels)
	h := to[key]
	if h == nil {
		h = &histogram{members: members, labels: labels, buckets: map[time.Time][]enrich.Bucket{}}
		to[key] = h
	}
	for _, x := range s.points {
		h.buckets[x.at] = append(h.buckets[x.at], enrich.Bucket{Le: le, Count: x.v})
	}
}

// keyOf returns a set of labels as a key.
func keyOf(labels map[string]string) string {
	var key strings.Builder
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		key.WriteString(name + "\x00" + labels[name] + "\x00")
	}
	return key.String()
}

// quantile returns the histogram's quantile at each time that has one.
func (h *histogram) quantile(q float64) []point {
	var out []point
	for at, buckets := range h.buckets {
		if v, ok := enrich.Quantile(q, slices.Clone(buckets)); ok {
			out = append(out, point{at, v})
		}
	}
	slices.SortFunc(out, func(a, b point) int { return cmp.Compare(a.at.UnixMilli(), b.at.UnixMilli()) })
	return out
}
