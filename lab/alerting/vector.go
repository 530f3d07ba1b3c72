package alerting

import (
	"maps"
	"math"
	"slices"
	"strings"
)

// vector holds an expression's result, sorted by labels.
type vector []sample

type sample struct {
	labels map[string]string
	value  float64
}

// sum and largest aggregate by labels.
func (v vector) sum(by ...string) vector {
	return v.aggregate(by, func(a, b float64) float64 { return a + b })
}

func (v vector) largest(by ...string) vector { return v.aggregate(by, math.Max) }

func (v vector) aggregate(by []string, join func(a, b float64) float64) vector {
	at := map[string]int{}
	var out vector
	for _, s := range v {
		key := keyBy(s.labels, by)
		if i, ok := at[key]; ok {
			out[i].value = join(out[i].value, s.value)
			continue
		}
		at[key] = len(out)
		out = append(out, sample{pick(s.labels, by), s.value})
	}
	slices.SortFunc(out, func(a, b sample) int { return strings.Compare(keyBy(a.labels, by), keyBy(b.labels, by)) })
	return out
}

// where keeps the samples whose value passes.
func (v vector) where(ok func(float64) bool) vector {
	var out vector
	for _, s := range v {
		if ok(s.value) {
			out = append(out, s)
		}
	}
	return out
}

func (v vector) above(limit float64) vector {
	return v.where(func(x float64) bool { return x > limit })
}

func (v vector) below(limit float64) vector {
	return v.where(func(x float64) bool { return x < limit })
}

func (v vector) equal(value float64) vector {
	return v.where(func(x float64) bool { return x == value })
}

// with keeps the samples whose label has any of the values.
func (v vector) with(label string, values ...string) vector {
	var out vector
	for _, s := range v {
		if slices.Contains(values, s.labels[label]) {
			out = append(out, s)
		}
	}
	return out
}

// and keeps the samples that have a match in the other vector, by the given labels.
func (v vector) and(o vector, on ...string) vector {
	have := map[string]bool{}
	for _, s := range o {
		have[keyBy(s.labels, on)] = true
	}
	var out vector
	for _, s := range v {
		if have[keyBy(s.labels, on)] {
			out = append(out, s)
		}
	}
	return out
}

// renamed copies labels under new names, as label_replace does. The arguments are pairs of a new
// name and an old one.
func (v vector) renamed(pairs ...string) vector {
	out := make(vector, len(v))
	for i, s := range v {
		labels := maps.Clone(s.labels)
		for k := 0; k+1 < len(pairs); k += 2 {
			labels[pairs[k]] = s.labels[pairs[k+1]]
		}
		out[i] = sample{labels, s.value}
	}
	return out
}

// per divides by the other vector, matched by the given labels.
func (v vector) per(o vector, on ...string) vector {
	by := map[string]float64{}
	for _, s := range o {
		by[keyBy(s.labels, on)] = s.value
	}
	var out vector
	for _, s := range v {
		if d, ok := by[keyBy(s.labels, on)]; ok && d != 0 {
			out = append(out, sample{s.labels, s.value / d})
		}
	}
	return out
}

func bucketQuantile(q float64, buckets vector) float64 {
	if len(buckets) < 2 || buckets[len(buckets)-1].value <= 0 {
		return math.NaN()
	}
	rank := q * buckets[len(buckets)-1].value
	low, below := 0.0, 0.0
	for i, b := range buckets {
		edge := parseEdge(b.labels["le"])
		if b.value < rank {
			low, below = edge, b.value
			continue
		}
		if i == len(buckets)-1 {
			return low
		}
		return low + (edge-low)*(rank-below)/(b.value-below)
	}
	return low
}
