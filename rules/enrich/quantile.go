package enrich

import (
	"math"
	"slices"
)

// A Bucket is one bucket of a histogram: the observations up to an upper bound, or their rate.
type Bucket struct{ Le, Count float64 }

// Quantile computes Prometheus' histogram_quantile. It interpolates linearly within a bucket, from
// 0 in the first, and returns the last finite bound for values above it. It sorts the buckets. It
// returns false if there are no observations, or if the +Inf bucket is missing.
func Quantile(q float64, buckets []Bucket) (float64, bool) {
	slices.SortFunc(buckets, func(a, b Bucket) int {
		if a.Le < b.Le {
			return -1
		}
		return 1
	})
	if len(buckets) < 2 || !math.IsInf(buckets[len(buckets)-1].Le, 1) {
		return 0, false
	}
	for i := 1; i < len(buckets); i++ { // counts may disagree by a few, because pages are not read in one instant
		buckets[i].Count = math.Max(buckets[i].Count, buckets[i-1].Count)
	}
	total := buckets[len(buckets)-1].Count
	if total == 0 {
		return 0, false
	}
	rank := q * total
	b := 0
	for b < len(buckets)-1 && buckets[b].Count < rank {
		b++
	}
	switch {
	case b == len(buckets)-1:
		return buckets[b-1].Le, true
	case b == 0 && buckets[0].Le <= 0:
		return buckets[0].Le, true
	case b == 0:
		return buckets[0].Le * rank / buckets[0].Count, true
	}
	from := buckets[b-1]
	return from.Le + (buckets[b].Le-from.Le)*(rank-from.Count)/(buckets[b].Count-from.Count), true
}
