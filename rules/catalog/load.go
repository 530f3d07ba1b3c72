package catalog

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"paramedic/internal/strictyaml"
	"paramedic/internal/text"
	"paramedic/rules/condition"
	"paramedic/rules/signals"
	"paramedic/state"
)

// Load reads the built-in catalogue and, if dir is not empty, the user's rules on top. The
// catalogue holds every valid entry; a server must refuse a catalogue with problems. The error
// covers only reading files.
func Load(dir string) (*Catalog, []Problem, error) {
	srcs, err := sources(dir)
	if err != nil {
		return nil, nil, err
	}
	all, err := signals.LoadSignals()
	if err != nil {
		return nil, nil, err
	}
	l := &loader{cat: newCatalog(all)}
	l.cat.readings, err = lru.New[string, Reading](maxReadings)
	if err != nil {
		return nil, nil, fmt.Errorf("remember readings: %w", err)
	}
	files := make([]fileYAML, len(srcs))
	format := strictyaml.Format[fileYAML]{Kinds: kinds}
	for i, src := range srcs {
		var ps []Problem
		files[i], ps = format.Read(src.name, src.data)
		l.problems = append(l.problems, ps...)
	}
	l.twice(srcs, files)
	if err := l.entries(srcs, files); err != nil {
		return nil, nil, err
	}
	for _, id := range slices.Sorted(maps.Keys(l.cat.byID)) {
		l.cat.causes = append(l.cat.causes, l.cat.byID[id])
	}
	l.cat.expressions = l.env.Count()
	l.references()
	l.cat.used, l.cat.commonness = l.cat.reads(), l.cat.common()
	sortProblems(l.problems)
	return l.cat, l.problems, nil
}

// newCatalog returns a catalogue that knows the signals and has no entries.
func newCatalog(all []signals.Signal) *Catalog {
	c := &Catalog{
		symptoms:    map[state.Symptom]Symptom{},
		byID:        map[state.Cause]*Cause{},
		alerts:      map[string]alertRule{},
		xids:        map[int]Xid{},
		pathologies: map[string]*Pathology{},
		units:       make(map[string]string, len(all)),
		textSignals: map[string]bool{},
		engines:     map[string]bool{},
		titles:      make(map[string]string, len(all)),
		windows:     make(map[string]time.Duration, len(all)),
		measured:    make(map[string]signals.Per, len(all)),
		ages:        map[string]bool{},
		numbers:     make(map[string]int, len(all)),
		past:        map[string]map[string]bool{"baseline": {}, "hour_ago": {}, "day_ago": {}, "week_ago": {}},
	}
	for i, s := range all {
		c.past["baseline"][s.ID], c.past["hour_ago"][s.ID] = s.Compared(), s.Compared()
		c.past["day_ago"][s.ID], c.past["week_ago"][s.ID] = s.Seasonal, s.Seasonal
		c.units[s.ID], c.titles[s.ID], c.textSignals[s.ID] = s.Unit, s.Title, s.Text
		c.numbers[s.ID], c.measured[s.ID] = i, s.Per
		if s.Cut {
			c.truncated = append(c.truncated, s.ID)
		}
		for _, src := range s.Sources {
			c.windows[s.ID] = max(c.windows[s.ID], src.Window)
			ofEngine := slices.Contains([]string{"vllm", "sglang", "trtllm", "dynamo"}, src.Engine)
			c.engines[s.ID] = c.engines[s.ID] || ofEngine
			c.ages[s.ID] = c.ages[s.ID] || src.Fn == signals.FnAge || src.Fn == signals.FnRollout
		}
	}
	return c
}

// entries loads the entries of all files. Causes refer to all other entries, so they come last. A
// user's entry comes before a built-in one of the same kind.
func (l *loader) entries(srcs []source, files []fileYAML) error {
	for i, f := range files {
		l.file = srcs[i].name
		l.symptoms(f.Symptoms)
		l.recoveries(f.Recover)
		l.xids(f.Xids)
	}
	for i, f := range slices.Backward(files) {
		l.file = srcs[i].name
		l.alerts(f.Alerts)
		l.metrics(f.Metrics)
		l.words(f.Words)
	}
	env, err := condition.NewEnvironment(l.cat.Vocabulary())
	if err != nil {
		return err
	}
	l.env = env
	for i, f := range files {
		l.file = srcs[i].name
		for _, y := range f.Causes {
			l.cause(y)
		}
		for _, y := range f.Pathologies {
			l.pathology(y)
		}
	}
	return nil
}

// Vocabulary returns what expressions over the catalogue may use.
func (c *Catalog) Vocabulary() condition.Vocabulary {
	return condition.Vocabulary{
		Signals: c.numbers,
		Past:    c.past,
		Symptoms: func(id string) bool {
			_, known := c.symptoms[state.Symptom(id)]
			return known
		},
		XIDClass: func(code int) string { return c.xids[code].Class },
	}
}

type loader struct {
	cat      *Catalog
	env      *condition.Environment
	file     string
	problems []Problem
}

func (l *loader) bad(line int, format string, args ...any) {
	l.problems = append(l.problems, Problem{File: l.file, Line: max(line, 1), Text: fmt.Sprintf(format, args...)})
}

var idPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// twice reports entries that are declared twice by one side, the user or the program, and IDs that
// other files could not refer to. A user's entry replaces a built-in one of the same name.
func (l *loader) twice(srcs []source, files []fileYAML) {
	type name struct {
		what, id string
		own      bool
	}
	first := map[name]Problem{}
	for i, f := range files {
		l.file = srcs[i].name
		declare := func(what string, id strictyaml.Text) {
			n := name{what, id.Value, srcs[i].own}
			if id.Value == "" {
				return
			}
			if what != "alert" && what != "xid" && !idPattern.MatchString(id.Value) {
				l.bad(id.Line, "%s %q cannot be an ID: cases, playbooks and addresses name it, so give it letters, "+
					"digits, _, - and . only", what, id.Value)
			}
			if at, ok := first[n]; ok {
				l.bad(id.Line, "%s %s is declared twice, first at %s:%d: take one out, or give it another name", what,
					id.Value, at.File, at.Line)
				return
			}
			first[n] = Problem{File: l.file, Line: id.Line}
		}
		for _, y := range f.Symptoms {
			declare("symptom", y.ID)
		}
		for _, y := range f.Alerts {
			declare("alert", y.Name)
		}
		for _, y := range f.Xids {
			declare("xid", y.Code)
		}
		for _, y := range f.Causes {
			declare("cause", y.ID)
		}
		for _, y := range f.Recover {
			declare("recovery", y.ID)
		}
		for _, y := range f.Pathologies {
			declare("pathology", y.ID)
		}
	}
}

func (l *loader) symptoms(ys []symptomYAML) {
	for _, y := range ys {
		if y.ID.Value == "" {
			continue // decode has reported it
		}
		id := state.Symptom(y.ID.Value)
		l.cat.symptoms[id] = Symptom{ID: id, Title: y.Title, Serving: y.Serving, Own: y.Own}
	}
}

func (l *loader) recoveries(ys []recoverYAML) {
	for _, y := range ys {
		if y.ID.Value == "" {
			continue // decode has reported it
		}
		r := &Recovery{ID: y.ID.Value, Title: y.Title.Value, Driver: y.Driver, Code: -1, Action: y.Action, Do: l.advice(y.Do),
			Avoid: l.advice(y.Avoid), Rank: len(l.cat.recoveries)}
		if y.Code != nil {
			r.Code = *y.Code
		}
		if have := l.cat.Recovery(r.ID); have != nil {
			r.Rank = have.Rank
			*have = *r
			continue
		}
		l.cat.recoveries = append(l.cat.recoveries, r)
	}
}

// needs maps classes of Xids to the recovery of entries that name none.
var needs = map[string]string{"hardware": "reset", "application": "restart_app", "notice": "none"}

func (l *loader) xids(ys []xidYAML) {
	for _, y := range ys {
		if y.Code.Value == "" {
			continue
		}
		code, err := strconv.Atoi(y.Code.Value)
		if err != nil || code < 1 || code > 999 {
			l.bad(y.Code.Line, "xid code %q is not a number from 1 to 999", y.Code.Value)
			continue
		}
		if !slices.Contains([]string{"hardware", "application", "notice"}, y.Class) {
			l.bad(y.Code.Line, "xid %d: class %q is none of hardware, application, notice", code, y.Class)
			continue
		}
		if y.Needs == "" {
			y.Needs = needs[y.Class]
		}
		if l.cat.Recovery(y.Needs) == nil {
			l.bad(y.Code.Line, "xid %d needs %q, which is no recovery; there are %s", code, y.Needs,
				strings.Join(l.cat.recoveryIDs(), ", "))
			continue
		}
		l.cat.xids[code] = Xid{Code: code, Name: y.Name, Class: y.Class, Needs: y.Needs, Meaning: y.Meaning,
			Action: y.Action}
	}
}

func (l *loader) symptom(line int, id string) bool {
	if _, ok := l.cat.symptoms[state.Symptom(id)]; !ok {
		l.bad(line, "no symptom %q; %s", id, text.DidYouMean(id, Words(l.cat.symptoms)))
		return false
	}
	return true
}

// references reports references to causes that do not exist. Causes of the Vocabulary without an
// entry are valid references.
func (l *loader) references() {
	for _, c := range l.cat.causes {
		l.file = c.File
		for _, id := range c.LeadsTo {
			switch {
			case id == c.ID:
				l.bad(c.Line, "cause %s leads to itself: take it out of leads_to", c.ID)
			case !l.cat.known(id):
				l.bad(c.Line, "cause %s leads to %q, which is no cause; %s", c.ID, id,
					text.DidYouMean(string(id), Words(l.cat.byID)))
			}
		}
		for _, e := range c.Evidence {
			for _, id := range e.Settles {
				if !l.cat.known(id) {
					l.bad(c.Line, "evidence of %s settles %q, which is no cause; %s", c.ID, id,
						text.DidYouMean(string(id), Words(l.cat.byID)))
				}
			}
			if o := e.LeavesOpen; o != nil && !l.cat.known(o.Cause) {
				l.bad(c.Line, "evidence of %s leaves %q open, which is no cause; %s", c.ID, o.Cause,
					text.DidYouMean(string(o.Cause), Words(l.cat.byID)))
			}
		}
		for _, a := range c.LookAlikes {
			switch {
			case a.Cause == c.ID:
				l.bad(c.Line, "cause %s looks like itself: take it out of look_alikes", c.ID)
			case !l.cat.known(a.Cause):
				l.bad(c.Line, "cause %s looks like %q, which is no cause; %s", c.ID, a.Cause,
					text.DidYouMean(string(a.Cause), Words(l.cat.byID)))
			}
		}
	}
	for _, p := range l.cat.Pathologies() {
		l.file = p.file
		for _, id := range p.PointsTo {
			if !l.cat.known(id) {
				l.bad(p.line, "pathology %s points to %q, which is no cause; %s", p.ID, id,
					text.DidYouMean(string(id), Words(l.cat.byID)))
			}
		}
	}
}

// known reports whether a cause has an entry or is in the Vocabulary.
func (c *Catalog) known(id state.Cause) bool {
	_, ok := c.byID[id]
	return ok || slices.Contains(Vocabulary, id)
}

// Vocabulary lists the IDs of causes that are a part of the API. A user can declare others.
var Vocabulary = []state.Cause{
	"kv_exhaustion", "kv_leak", "concurrency_cap", "traffic_surge", "retry_storm", "long_context_burst", "prefill_starvation",
	"decode_saturation", "routing_skew", "prefix_cache_collapse", "host_memory_leak", "gpu_memory_leak", "cuda_oom", "oom_killed",
	"bad_rollout", "cold_start", "engine_hang", "gpu_throttle", "gpu_fault", "node_failure", "client_cancellations", "gateway_failure",
	"model_load_failure", "gpu_underutilization", "quality_regression", "monitoring_gap", "benign_alert",
}

// Words returns the sorted keys of a map.
func Words[K ~string, V any](m map[K]V) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, string(k))
	}
	return out
}

// reads returns the signals that evidence or its texts use. Views leave out all others.
func (c *Catalog) reads() map[string]bool {
	used := map[string]bool{GatewayArrivals: true} // of arrival_rate
	for _, signal := range []string{"gpu_xid", "gpu_xid_changes", "gpu_xid_count", "gpu_xid_message",
		"gpu_recovery_action"} {
		used[signal] = true // titles and advice use them
	}
	for _, signal := range BottleneckReads {
		used[signal] = true
	}
	for _, cause := range c.causes {
		for _, link := range cause.Chain {
			for _, id := range link.Signals {
				used[id] = true
			}
		}
		for _, e := range cause.Evidence {
			used[e.Signal] = true
			texts := e.Text
			exprs := []*condition.Expression{e.Condition, e.Exception}
			if e.Else != nil {
				texts += e.Else.Text
				exprs = append(exprs, e.Else.Condition)
			}
			for _, x := range exprs {
				if x == nil {
					continue
				}
				for _, id := range x.Signals {
					used[id] = true
				}
			}
			for _, name := range placeholders(texts) {
				base, _, _ := strings.Cut(name, ".")
				used[base] = true
			}
		}
	}
	return used
}
