package rules

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"paramedic/state"
)

// xidWindow is the age up to which an Xid is recent: the window of gpu_xid_changes.
const xidWindow = 15 * time.Minute

// A Recovery is what a GPU needs after an Xid.
type Recovery struct {
	ID     string   `json:"id"`
	Title  string   `json:"title"`            // the name of such an Xid in a verdict's title
	Driver string   `json:"driver,omitempty"` // the driver's name for it, in the text of Xid 154
	Code   int      `json:"code"`             // DCGM's GPU_RECOVERY_ACTION; -1: the driver has no such action
	Action string   `json:"action"`
	Do     []string `json:"do,omitempty"`
	Avoid  []string `json:"avoid,omitempty"`

	rank int // by the effort of the recovery; 0 is the largest
}

// classRank orders the classes of Xids: the lowest decides. A code that is not in the table may be
// of any class.
var classRank = map[string]int{"hardware": 0, "application": 1, "": 2, "notice": 3}

// recovery returns the recovery with the ID; nil for an unknown ID.
func (c *Catalog) recovery(id string) *Recovery {
	for _, r := range c.recoveries {
		if r.ID == id {
			return r
		}
	}
	return nil
}

func (c *Catalog) recoveryIDs() []string {
	out := make([]string, len(c.recoveries))
	for i, r := range c.recoveries {
		out[i] = r.ID
	}
	return out
}

// worst compares two codes by class, then by the effort of the recovery.
func (c *Catalog) worst(a, b int) int {
	x, y := c.xids[a], c.xids[b]
	rank := func(x Xid) int {
		if r := c.recovery(x.Needs); r != nil {
			return r.rank
		}
		return len(c.recoveries)
	}
	return cmp.Or(cmp.Compare(classRank[x.Class], classRank[y.Class]), cmp.Compare(rank(x), rank(y)), cmp.Compare(a, b))
}

// gpuNews holds the recent Xids of a GPU.
type gpuNews struct {
	codes   []int     // the worst first
	driver  *Recovery // the recovery that the driver requests; nil if unknown
	at      int       // index of the sample of the last Xid's gauge; -1: there is none
	entity  state.Entity
	changed bool
	message string // the exporter's text for the last Xid
}

// judged returns the samples of gpu_xid with the worst recent Xid of each GPU in place of the last
// one; nil if all are the same. The gauge holds only the last Xid, so that the consequences of a
// fault would hide it: 45 for each process that is cleaned up, 63 and 154 from the driver. The
// exporter's count has every code. The gauge's points have the codes that a scrape saw, and the
// alerts have their own.
func (v *view) judged(ev *state.Evidence, c *census, cat *Catalog) []state.Sample {
	told, gauges := xidSamples(ev)
	if len(told) == 0 {
		return nil
	}
	news := map[string]*gpuNews{}
	for _, i := range told {
		s := &ev.Samples[i]
		e := c.find(&s.Entity).e
		key := e.Node + "/" + e.GPU
		n := news[key]
		if n == nil {
			n = &gpuNews{at: -1, entity: s.Entity}
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
			n.driver = cmp.Or(n.driver, cat.askedFor(s.Text))
		case "gpu_recovery_action":
			for _, r := range cat.recoveries {
				if r.Code >= 0 && s.Value == float64(r.Code) {
					n.driver = r
				}
			}
		}
	}
	worst := map[int]float64{} // by the index of the gauge's sample
	var out []state.Sample     // first those of GPUs without a gauge
	for _, key := range slices.Sorted(maps.Keys(news)) {
		n := news[key]
		if n.at >= 0 && n.changed {
			n.codes = append(n.codes, shown(ev.Samples[n.at], ev.At)...)
		}
		if len(n.codes) > 0 {
			n.codes = append(n.codes, v.facts.xidsAt(key)...)
		}
		if n.driver != nil && n.driver.ID == "none" { // the driver reports that no action is needed any more
			n.codes = slices.DeleteFunc(n.codes, func(code int) bool { return cat.xids[code].Needs == "ask_the_driver" })
		}
		slices.SortFunc(n.codes, cat.worst)
		n.codes = slices.Compact(n.codes)
		code := 0.0
		if len(n.codes) > 0 {
			code = float64(n.codes[0])
		}
		switch {
		case len(n.codes) == 0 && !n.changed:
		case n.at < 0:
			out = append(out, state.Sample{Signal: "gpu_xid", Entity: n.entity, Value: code, Unit: cat.units["gpu_xid"], At: ev.At})
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

var recoveryWords = regexp.MustCompile(`(?i)recovery action changed.{0,40}\bto\b[^(]{0,16}\(([^)]{1,40})\)`)

// askedFor returns the recovery in a text of Xid 154: "GPU recovery action changed from 0x0 (None)
// to 0x1 (GPU Reset Required)". Unknown words are ignored. So is the number, which has several
// meanings in different drivers. The exporter's own text for the code, "GPU Recovery Action
// Changed", has no recovery.
func (c *Catalog) askedFor(text string) *Recovery {
	words := strings.TrimSpace(text)
	if m := recoveryWords.FindStringSubmatch(text); m != nil {
		words = strings.TrimSpace(m[1])
	}
	for _, r := range c.recoveries {
		if r.Driver != "" && strings.EqualFold(words, r.Driver) {
			return r
		}
	}
	return nil
}

// xidHint returns the hint key for an alert's Xid. The hints of all alerts are merged, and a common
// key would keep only the first.
func xidHint(code string, e state.Entity) string {
	return "xid:" + code + "@" + e.Node + "/" + e.GPU
}

var xidHintForm = regexp.MustCompile(`^xid:([0-9]{1,3})@(.*)$`)

// xidsAt returns the codes that alerts reported for a GPU.
func (f *factsVal) xidsAt(gpu string) []int {
	var out []int
	for _, x := range f.xids {
		if x.gpu == gpu {
			out = append(out, x.code)
		}
	}
	return out
}

// An alertedXid is a code that an alert carried, with its GPU as node/gpu.
type alertedXid struct {
	code int
	gpu  string
}

// alertedXids parses the codes from the hints, the worst first.
func (c *Catalog) alertedXids(hints map[string]string) []alertedXid {
	var out []alertedXid
	for key := range hints {
		if m := xidHintForm.FindStringSubmatch(key); m != nil {
			code, _ := strconv.Atoi(m[1]) // the pattern matches only digits
			out = append(out, alertedXid{code: code, gpu: m[2]})
		}
	}
	slices.SortFunc(out, func(a, b alertedXid) int { return cmp.Or(c.worst(a.code, b.code), cmp.Compare(a.gpu, b.gpu)) })
	return out
}

// Placeholder lines of do and avoid, which are replaced by the advice for the Xid.
const (
	xidDo    = "{xid_do}"
	xidAvoid = "{xid_avoid}"
	xidNote  = "{xid_note}"
)
