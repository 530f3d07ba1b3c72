package alerting

import (
	"maps"
	"math"
	"slices"
	"sort"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// history keeps the scraped samples that the rules read, and evaluates the PromQL functions that
// they use.
type history struct {
	series map[string]*family // by metric name
	last   float64            // the last scrape
	epoch  float64            // the Unix time at which the fleet began; other times are seconds since then
	keep   float64            // seconds
}

// family holds the series of one metric name, sorted by key.
type family struct {
	byKey map[string]*series
	list  []*series
}

type series struct {
	key    string
	labels map[string]string
	points []point
}

type point struct{ at, value float64 }

func newHistory(keep float64) *history {
	return &history{series: map[string]*family{}, keep: keep}
}

// add records a sample. The key is unique among the series of a name. The labels are only computed
// for a new series.
func (h *history) add(name, key string, at, value float64, labels func() map[string]string) {
	f := h.series[name]
	if f == nil {
		f = &family{byKey: map[string]*series{}}
		h.series[name] = f
	}
	s := f.byKey[key]
	if s == nil {
		s = &series{key: key, labels: labels()}
		f.byKey[key] = s
		i, _ := slices.BinarySearchFunc(f.list, key,
			func(s *series, key string) int { return strings.Compare(s.key, key) })
		f.list = slices.Insert(f.list, i, s)
	}
	s.points = append(s.points, point{at, value})
	if cut := sort.Search(len(s.points), func(i int) bool { return s.points[i].at >= at-h.keep }); cut > 64 {
		s.points = append(s.points[:0], s.points[cut:]...)
	}
}

// scrape records the families in want.
func (h *history) scrape(at float64, families []*dto.MetricFamily, want map[string]bool) {
	for _, f := range families {
		name := f.GetName()
		if !want[name] {
			continue
		}
		for _, m := range f.Metric {
			key, labels := seriesKey(m.Label), func() map[string]string { return labelMap(m.Label) }
			switch {
			case m.Gauge != nil:
				h.add(name, key, at, m.Gauge.GetValue(), labels)
			case m.Counter != nil:
				h.add(name, key, at, m.Counter.GetValue(), labels)
			case m.Histogram != nil:
				if want[name+"_sum"] {
					h.add(name+"_sum", key, at, m.Histogram.GetSampleSum(), labels)
				}
				bucket := name + "_bucket"
				for _, b := range append(m.Histogram.Bucket,
					&dto.Bucket{UpperBound: new(math.Inf(1)), CumulativeCount: m.Histogram.SampleCount}) {
					edge := formatEdge(b.GetUpperBound())
					h.add(bucket, key+"\xff"+edge, at, float64(b.GetCumulativeCount()), func() map[string]string {
						with := labelMap(m.Label)
						with["le"] = edge
						return with
					})
				}
			}
		}
	}
}

// seriesKey returns a key that is unique within a family. It relies on a page writing a series'
// labels in the same order each time.
func seriesKey(labels []*dto.LabelPair) string {
	var b strings.Builder
	for _, l := range labels {
		b.WriteString(l.GetName())
		b.WriteByte(0xff)
		b.WriteString(l.GetValue())
		b.WriteByte(0xff)
	}
	return b.String()
}

func labelMap(pairs []*dto.LabelPair) map[string]string {
	out := make(map[string]string, len(pairs)+1)
	for _, l := range pairs {
		out[l.GetName()] = l.GetValue()
	}
	return out
}

// forget drops series without a sample in the time that is kept.
func (h *history) forget(now float64) {
	for _, f := range h.series {
		f.list = slices.DeleteFunc(f.list, func(s *series) bool {
			old := s.points[len(s.points)-1].at < now-h.keep
			if old {
				delete(f.byKey, s.key)
			}
			return old
		})
	}
}

// now returns the value of each series at the last scrape. A series that was not in it is stale and
// is left out.
func (h *history) now(name string) vector {
	return h.each(name, func(s *series) (float64, bool) {
		p := s.points[len(s.points)-1]
		return p.value, p.at == h.last
	})
}

func (h *history) each(name string, f func(*series) (float64, bool)) vector {
	all := h.series[name]
	if all == nil {
		return nil
	}
	var out vector
	for _, s := range all.list {
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

// rate returns a counter's growth per second over a window that ended offset seconds ago.
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
				grown += p[i].value // the counter was reset
			}
		}
		return grown * extrapolation(p, end-window, end, grown) / window, true
	})
}

// extrapolation returns the factor by which Prometheus extends the growth between the first and the
// last sample to the whole window. It extends to the window's end if the sample is within 1.1 steps
// of it, else by half a step, and never to before the counter was zero.
func extrapolation(p []point, from, to, grown float64) float64 {
	first, last := p[0], p[len(p)-1]
	watched := last.at - first.at
	step := watched / float64(len(p)-1)
	before, after := first.at-from, to-last.at
	if before >= 1.1*step {
		before = step / 2
	}
	if grown > 0 && first.value >= 0 {
		before = min(before, watched*first.value/grown)
	}
	if after >= 1.1*step {
		after = step / 2
	}
	return (watched + before + after) / watched
}

// average evaluates PromQL's avg_over_time over a window that ended offset seconds ago.
func (h *history) average(name string, window, offset float64) vector {
	end := h.last - offset
	return h.each(name, func(s *series) (float64, bool) {
		p := s.within(end-window, end)
		total := 0.0
		for _, x := range p {
			total += x.value
		}
		return total / float64(len(p)), len(p) > 0
	})
}

// age evaluates time() - name for a gauge that holds a Unix time.
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

// changesWithout counts the changes of max without (drop). It serves exporters that repeat the
// value in a label, so that each new value is a new series.
func (h *history) changesWithout(name string, window float64, drop ...string) vector {
	if h.series[name] == nil {
		return nil
	}
	courses, of := map[string]map[float64]float64{}, map[string]map[string]string{}
	for _, s := range h.series[name].list {
		rest := maps.Clone(s.labels)
		for _, label := range drop {
			delete(rest, label)
		}
		key := keyBy(rest, slices.Sorted(maps.Keys(rest)))
		if courses[key] == nil {
			courses[key], of[key] = map[float64]float64{}, rest
		}
		for _, p := range s.within(h.last-window, h.last) {
			if have, ok := courses[key][p.at]; !ok || p.value > have {
				courses[key][p.at] = p.value
			}
		}
	}
	var out vector
	for _, key := range slices.Sorted(maps.Keys(courses)) {
		times := slices.Sorted(maps.Keys(courses[key]))
		if len(times) == 0 || times[len(times)-1] != h.last {
			continue
		}
		n := 0.0
		for i := 1; i < len(times); i++ {
			if courses[key][times[i]] != courses[key][times[i-1]] {
				n++
			}
		}
		out = append(out, sample{of[key], n})
	}
	return out
}

// predict evaluates PromQL's predict_linear: least squares over the window, ahead seconds from now.
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

// quantile evaluates histogram_quantile over the rates of a histogram's buckets, summed by labels.
func (h *history) quantile(q float64, name string, window float64, by ...string) vector {
	groups := map[string]vector{}
	rates := h.rate(name+"_bucket", window, 0)
	for _, s := range rates.sum(append([]string{"le"}, by...)...) {
		key := keyBy(s.labels, by)
		groups[key] = append(groups[key], sample{map[string]string{"le": s.labels["le"]}, s.value})
	}
	var out vector
	for _, s := range rates.sum(by...) {
		g := groups[keyBy(s.labels, by)]
		sort.Slice(g, func(i, j int) bool { return parseEdge(g[i].labels["le"]) < parseEdge(g[j].labels["le"]) })
		if v := bucketQuantile(q, g); !math.IsNaN(v) {
			out = append(out, sample{s.labels, v})
		}
	}
	return out
}

// lowest evaluates PromQL's min_over_time, highest its max_over_time.
func (h *history) lowest(name string, window float64) vector {
	return h.extreme(name, window, math.Inf(1), math.Min)
}

func (h *history) highest(name string, window float64) vector {
	return h.extreme(name, window, math.Inf(-1), math.Max)
}

func (h *history) extreme(name string, window, none float64, pick func(a, b float64) float64) vector {
	return h.each(name, func(s *series) (float64, bool) {
		out := none
		for _, p := range s.within(h.last-window, h.last) {
			out = pick(out, p.value)
		}
		return out, out != none
	})
}
