package evidence

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"paramedic/rules/catalog"
	"paramedic/state"
)

// xidWindow is the age up to which an Xid is recent: the window of gpu_xid_changes.
const xidWindow = 15 * time.Minute

// recentXids holds the recent Xids of a GPU.
type recentXids struct {
	codes   []int             // the worst first
	driver  *catalog.Recovery // the recovery that the driver requests; nil if unknown
	at      int               // index of the sample of the last Xid's gauge; -1: there is none
	entity  state.Entity
	changed bool
	message string // the exporter's text for the last Xid
}

// judged returns the samples of gpu_xid with the worst recent Xid of each GPU in place of the last
// one; nil if all are the same. The gauge holds only the last Xid, so that the consequences of a
// fault would hide it: 45 for each process that is cleaned up, 63 and 154 from the driver. The
// exporter's count has every code. The gauge's points have the codes that a scrape saw, and the
// alerts have their own.
func (v *View) judged(ev *state.Evidence, c *entityIndex, cat *catalog.Catalog) []state.Sample {
	told, gauges := xidSamples(ev)
	if len(told) == 0 {
		return nil
	}
	news := readNews(ev, told, c, cat)
	worst := map[int]float64{} // by the index of the gauge's sample
	var out []state.Sample     // first those of GPUs without a gauge
	for _, key := range slices.Sorted(maps.Keys(news)) {
		n := news[key]
		v.completeCodes(n, key, ev, cat)
		code := 0.0
		if len(n.codes) > 0 {
			code = float64(n.codes[0])
		}
		switch {
		case len(n.codes) == 0 && !n.changed:
		case n.at < 0:
			out = append(out, state.Sample{Signal: "gpu_xid", Entity: n.entity, Value: code, Unit: cat.Units()["gpu_xid"],
				At: ev.At})
		case ev.Samples[n.at].Value != code:
			worst[n.at] = code
		}
	}
	v.news = news
	if len(worst) == 0 && len(out) == 0 {
		return nil
	}
	for _, i := range gauges {
		s := ev.Samples[i]
		if code, ok := worst[i]; ok {
			s.Value = code
		}
		out = append(out, s)
	}
	return out
}

// readNews groups the samples about recent Xids by GPU, with node/gpu as the key.
func readNews(ev *state.Evidence, samples []int, c *entityIndex, cat *catalog.Catalog) map[string]*recentXids {
	news := map[string]*recentXids{}
	for _, i := range samples {
		s := &ev.Samples[i]
		e := c.find(&s.Entity).e
		key := e.Node + "/" + e.GPU
		n := news[key]
		if n == nil {
			n = &recentXids{at: -1, entity: s.Entity}
			news[key] = n
		}
		switch s.Signal {
		case "gpu_xid":
			n.at = i
		case "gpu_xid_changes":
			n.changed = n.changed || s.Value > 0
		case "gpu_xid_count":
			if code, err := strconv.Atoi(s.Text); err == nil && s.Value > 0 {
				n.codes = append(n.codes, code)
			}
		case "gpu_xid_message":
			n.message = s.Text
			n.driver = cmp.Or(n.driver, cat.AskedFor(s.Text))
		case "gpu_recovery_action":
			for _, r := range cat.Recoveries() {
				if r.Code >= 0 && s.Value == float64(r.Code) {
					n.driver = r
				}
			}
		}
	}
	return news
}

// completeCodes adds the codes of the gauge's points and of the alerts to those of the exporter's
// count, the worst first. It drops codes that the driver no longer requests an action for.
func (v *View) completeCodes(n *recentXids, gpu string, ev *state.Evidence, cat *catalog.Catalog) {
	if n.at >= 0 && n.changed {
		n.codes = append(n.codes, shown(ev.Samples[n.at], ev.At)...)
	}
	if len(n.codes) > 0 {
		n.codes = append(n.codes, v.facts.XidsAt(gpu)...)
	}
	if n.driver != nil && n.driver.ID == "none" {
		n.codes = slices.DeleteFunc(n.codes, func(code int) bool { return cat.XidTable()[code].Needs == "ask_the_driver" })
	}
	slices.SortFunc(n.codes, cat.Worst)
	n.codes = slices.Compact(n.codes)
}

// xidSamples returns the indices of the samples about recent Xids, and of all gauges of the last
// one. It returns none if no GPU has a recent Xid, which is the usual case.
func xidSamples(ev *state.Evidence) (told, gauges []int) {
	oldest := ev.At.Add(-stale)
	tells := func(s *state.Sample) bool { return s.Entity.GPU != "" && (s.At.IsZero() || !s.At.Before(oldest)) }
	news := false
	ofXids(ev, func(s *state.Sample, _ int) {
		news = news || s.Signal != "gpu_xid" && (s.Value > 0 || s.Text != "") && tells(s)
	})
	if !news {
		return nil, nil
	}
	ofXids(ev, func(s *state.Sample, i int) {
		if s.Signal == "gpu_xid" {
			gauges = append(gauges, i)
		}
		if tells(s) {
			told = append(told, i)
		}
	})
	return told, gauges
}

// ofXids calls f for the samples of all signals about Xids.
func ofXids(ev *state.Evidence, f func(s *state.Sample, i int)) {
	signal, looked := "", false
	for i := range ev.Samples {
		s := &ev.Samples[i]
		if s.Signal != signal {
			signal, looked = s.Signal, strings.HasPrefix(s.Signal, "gpu_xid") || s.Signal == "gpu_recovery_action"
		}
		if looked {
			f(s, i)
		}
	}
}

// shown returns the codes that the gauge took within the window: its last value, and the values to
// which it changed.
func shown(s state.Sample, now time.Time) []int {
	var out []int
	add := func(v float64) {
		if v > 0 && !slices.Contains(out, int(v)) {
			out = append(out, int(v))
		}
	}
	add(s.Value)
	before, known := 0.0, false
	for _, p := range s.Series {
		switch {
		case p.At.After(now):
		case p.At.Before(now.Add(-xidWindow)):
			before, known = p.Value, true
		case !known || p.Value != before:
			if known {
				add(p.Value)
			}
			before, known = p.Value, true
		}
	}
	return out
}
