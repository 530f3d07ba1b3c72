package lab

import (
	"math"
	"slices"
	"sort"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// history is as much of a Prometheus as the rules need: scraped samples of some families, and a few of PromQL's functions.
type history struct {
	series map[string]map[string]*series // by metric name, then labels
	last   float64                       // the last scrape
	epoch  float64                       // the Unix time that it counts from
	keep   float64
}

type series struct {
	labels map[string]string
	points []point
}

type point struct{ at, value float64 }

// vector is what an expression evaluates to, in the order of its labels.
type vector []sample

type sample struct {
	labels map[string]string
	value  float64
}

func newHistory(keep float64) *history {
	return &history{series: map[string]map[string]*series{}, keep: keep}
}

func (h *history) add(name string, labels map[string]string, at, value float64) {
	all := h.series[name]
	if all == nil {
		all = map[string]*series{}
		h.series[name] = all
	}
	key := labelKey(labels)
	s := all[key]
	if s == nil {
		s = &series{labels: labels}
		all[key] = s
	}
	s.points = append(s.points, point{at, value})
	if cut := sort.Search(len(s.points), func(i int) bool { return s.points[i].at >= at-h.keep }); cut > 64 {
		s.points = append(s.points[:0], s.points[cut:]...)
	}
}

// scrape records the families that are wanted.
func (h *history) scrape(at float64, families []*dto.MetricFamily, want map[string]bool) {
	for _, f := range families {
		name := f.GetName()
		if !want[name] {
			continue
		}
		for _, m := range f.Metric {
			labels := make(map[string]string, len(m.Label)+1)
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			switch {
			case m.Gauge != nil:
				h.add(name, labels, at, m.Gauge.GetValue())
			case m.Counter != nil:
				h.add(name, labels, at, m.Counter.GetValue())
			case m.Histogram != nil:
				for _, b := range append(m.Histogram.Bucket, &dto.Bucket{UpperBound: new(math.Inf(1)), CumulativeCount: m.Histogram.SampleCount}) {
					with := make(map[string]string, len(labels)+1)
					for k, v := range labels {
						with[k] = v
					}
					with["le"] = formatEdge(b.GetUpperBound())
					h.add(name+"_bucket", with, at, float64(b.GetCumulativeCount()))
				}
			}
		}
	}
}

// forget drops series that have not been seen for as long as anything is kept.
func (h *history) forget(now float64) {
	for _, all := range h.series {
		for k, s := range all {
			if s.points[len(s.points)-1].at < now-h.keep {
				delete(all, k)
			}
		}
	}
}

// now is the value of each series at the last scrape; what was not in it is stale.
func (h *history) now(name string) vector {
	return h.each(name, func(s *series) (float64, bool) {
		p := s.points[len(s.points)-1]
		return p.value, p.at == h.last
	})
}

func (h *history) each(name string, f func(*series) (float64, bool)) vector {
	var out vector
	for _, key := range sortedKeys(h.series[name]) {
		s := h.series[name][key]
		if v, ok := f(s); ok {
			out = append(out, sample{s.labels, v})
		}
	}
	return out
}

func (s *series) within(from, to float64) []point {
	i := sort.Search(len(s.points), func(i int) bool { return s.points[i].at > from })
	j := sort.Search(len(s.points), func(i int) bool { return s.points[i].at > to })
	return s.points[i:j]
}

// rate is the counter's growth a second over a window that ended offset seconds ago.
func (h *history) rate(name string, window, offset float64) vector {
	end := h.last - offset
	return h.each(name, func(s *series) (float64, bool) {
		p := s.within(end-window, end)
		if len(p) < 2 {
			return 0, false
		}
		grown := 0.0
		for i := 1; i < len(p); i++ {
			if d := p[i].value - p[i-1].value; d >= 0 {
				grown += d
			} else {
				grown += p[i].value // the counter began again
			}
		}
		return grown / (p[len(p)-1].at - p[0].at), true
	})
}

// age is how long ago a gauge of a Unix time was: time() - name.
func (h *history) age(name string) vector {
	v := h.now(name)
	for i := range v {
		v[i].value = h.epoch + h.last - v[i].value
	}
	return v
}

// changes counts how often a gauge changed in the window.
func (h *history) changes(name string, window float64) vector {
	return h.each(name, func(s *series) (float64, bool) {
		p := s.within(h.last-window, h.last)
		n := 0.0
		for i := 1; i < len(p); i++ {
			if p[i].value != p[i-1].value {
				n++
			}
		}
		return n, len(p) > 0 && p[len(p)-1].at == h.last
	})
}

// predict is PromQL's predict_linear: least squares over the window, ahead seconds from now.
func (h *history) predict(name string, window, ahead float64) vector {
	return h.each(name, func(s *series) (float64, bool) {
		p := s.within(h.last-window, h.last)
		if len(p) < 2 || p[len(p)-1].at != h.last {
			return 0, false
		}
		var n, sx, sy, sxx, sxy float64
		for _, q := range p {
			x := q.at - h.last
			n, sx, sy, sxx, sxy = n+1, sx+x, sy+q.value, sxx+x*x, sxy+x*q.value
		}
		slope := (n*sxy - sx*sy) / (n*sxx - sx*sx)
		return (sy-slope*sx)/n + slope*ahead, true
	})
}

// quantile is histogram_quantile over the rates of a histogram's buckets, summed by labels.
func (h *history) quantile(q float64, name string, window float64, by ...string) vector {
	groups := map[string]vector{}
	for _, s := range h.rate(name+"_bucket", window, 0).sum(append([]string{"le"}, by...)...) {
		le := s.labels["le"]
		key := labelKey(pick(s.labels, by))
		groups[key] = append(groups[key], sample{map[string]string{"le": le, "": key}, s.value})
	}
	var out vector
	for _, s := range h.rate(name+"_bucket", window, 0).sum(by...) {
		g := groups[labelKey(s.labels)]
		sort.Slice(g, func(i, j int) bool { return parseEdge(g[i].labels["le"]) < parseEdge(g[j].labels["le"]) })
		if v := bucketQuantile(q, g); !math.IsNaN(v) {
			out = append(out, sample{s.labels, v})
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

// sum and largest aggregate by labels.
func (v vector) sum(by ...string) vector {
	return v.aggregate(by, func(a, b float64) float64 { return a + b })
}

func (v vector) largest(by ...string) vector { return v.aggregate(by, math.Max) }

func (v vector) aggregate(by []string, join func(a, b float64) float64) vector {
	at := map[string]int{}
	var out vector
	for _, s := range v {
		labels := pick(s.labels, by)
		key := labelKey(labels)
		if i, ok := at[key]; ok {
			out[i].value = join(out[i].value, s.value)
			continue
		}
		at[key] = len(out)
		out = append(out, sample{labels, s.value})
	}
	slices.SortFunc(out, func(a, b sample) int { return strings.Compare(labelKey(a.labels), labelKey(b.labels)) })
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

// with keeps the samples whose label has one of the values.
func (v vector) with(label string, values ...string) vector {
	var out vector
	for _, s := range v {
		if slices.Contains(values, s.labels[label]) {
			out = append(out, s)
		}
	}
	return out
}

// and keeps the samples that the other vector has too, matched on labels.
func (v vector) and(o vector, on ...string) vector {
	have := map[string]bool{}
	for _, s := range o {
		have[labelKey(pick(s.labels, on))] = true
	}
	var out vector
	for _, s := range v {
		if have[labelKey(pick(s.labels, on))] {
			out = append(out, s)
		}
	}
	return out
}

// renamed gives every sample new labels with the values of old ones, as label_replace does: pairs of a new name and an old one.
func (v vector) renamed(pairs ...string) vector {
	out := make(vector, len(v))
	for i, s := range v {
		labels := make(map[string]string, len(s.labels)+len(pairs)/2)
		for k, value := range s.labels {
			labels[k] = value
		}
		for k := 0; k+1 < len(pairs); k += 2 {
			labels[pairs[k]] = s.labels[pairs[k+1]]
		}
		out[i] = sample{labels, s.value}
	}
	return out
}

// per divides by the other vector, matched on labels.
func (v vector) per(o vector, on ...string) vector {
	by := map[string]float64{}
	for _, s := range o {
		by[labelKey(pick(s.labels, on))] = s.value
	}
	var out vector
	for _, s := range v {
		if d, ok := by[labelKey(pick(s.labels, on))]; ok && d != 0 {
			out = append(out, sample{s.labels, s.value / d})
		}
	}
	return out
}
