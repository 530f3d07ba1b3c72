package casetest

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/tools/txtar"

	"paramedic/internal/text"
	"paramedic/rules/catalog"
	"paramedic/state"
)

// caseTime is the time of every case: cases are about values, not dates.
var caseTime = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

// A CaseResult is the result of one case.
type CaseResult struct {
	Name      string            `json:"name"`
	File      string            `json:"file"`
	Want      []string          `json:"want"` // the causes that the case expects
	ToldApart []ToldApart       `json:"told_apart"`
	Failures  []string          `json:"failures"`
	Incidents []*state.Incident `json:"incidents"`
	// Evidence holds the samples and workers of the case.
	Evidence state.Evidence `json:"-"`
}

// A ToldApart is a cause that a case expects, with a look-alike that it must not name.
type ToldApart struct {
	Cause string `json:"cause"`
	From  string `json:"from"`
}

// OK reports whether the case has no failure.
func (r CaseResult) OK() bool { return len(r.Failures) == 0 }

// RunCases runs every *.txtar of a directory against the catalogue. A case has these files:
//
//	alerts.json   a list of alerts in the format of Alertmanager's webhook: labels, annotations,
//	              generatorURL; "after": "9m" delays an alert by this time from the first
//	workers       one per line: short-name namespace pod pool model node [gpu,gpu…] [group=NAME]
//	              [role=prefill|decode] [owner=KIND/NAME] [route=KIND/NAME…] [job=NAME…].
//	              job names a scrape job of the worker. Pods of one pool with the same group
//	              run one engine and count as one worker
//	pages         recorded /metrics pages, in addition to evidence; one per line:
//	              short-name file [age], see [CasePage]
//	evidence      one per line: signal entity value [was=baseline] [day=a-day-ago]
//	              [week=a-week-ago] [z=score] [text=word]
//	want          the expected results
//
// An entity is a worker's short name, '*' for all workers, "pool", "node:NAME", a worker's GPU as
// "name/gpu", or a GPU whose worker is not known as "node:NAME/gpu". A later line replaces an
// earlier one of the same signal and entity. The value '-' removes the sample. "base FILE" includes
// a file of such lines, "missing SIGNAL reason" marks a signal that could not be read, and "old
// trouble" marks the pool as in trouble for over half an hour before the first alert.
//
// The lines of want are:
//
//	incidents N
//	cause ID
//	min_confidence X
//	pods short-name…    exactly these
//	nodes NAME…         exactly these
//	gpus ID…            exactly these
//	symptoms ID…        at least these
//	not ID…             not named, and at most half the confidence of the winner
//	looks_like ID…      as "not", for obvious but wrong causes: the weights for each, without
//	                    those against it, are at least 4 dB, and an alert is among them;
//	                    requires a line cause before it
//	likely ID           the leading candidate of an unknown cause
//	waits_for ID…       a step waits until each of these causes is ruled out
//	missing SIGNAL…
//	chain SIGNAL…       the signals from the cause to the symptoms: exactly these, in this order
//	title TEXT
//	incident N          the following lines are about the Nth incident in the order of opening;
//	                    a second problem that is split off another incident opens last
//
// All mistakes of a case are reported at once. The verdict is only checked if alerts, workers and
// evidence have no mistakes.
//
// Without alerts.json the symptoms are those that [Observe] finds in the evidence, as in a survey
// of a fleet.
func RunCases(c *catalog.Catalog, dir string) ([]CaseResult, error) { return RunCasesWith(c, dir, nil) }

// RunCasesWith does the same for a directory, or for one case by its file, with a reader of
// recorded pages. Without a reader, cases that have pages fail.
func RunCasesWith(c *catalog.Catalog, place string, read PageReader) ([]CaseResult, error) {
	files, dir, err := caseFiles(place)
	if err != nil {
		return nil, err
	}
	var out []CaseResult
	for _, f := range files {
		raw, err := readFile(f)
		if err != nil {
			return nil, fmt.Errorf("reading case: %w", err)
		}
		ar := txtar.Parse(raw)
		r := CaseResult{Name: strings.TrimSuffix(filepath.Base(f), ".txtar"), File: f, ToldApart: []ToldApart{},
			Failures: []string{}}
		k := caseRun{cat: c, dir: dir, result: &r, short: map[string]state.Worker{}, read: read}
		k.run(ar)
		out = append(out, r)
	}
	return out, nil
}

type caseRun struct {
	cat    *catalog.Catalog
	dir    string
	result *CaseResult
	short  map[string]state.Worker
	ev     state.Evidence
	read   PageReader
	cause  string // the cause that want expects for the present incident

	troubles []*caseIncident
}

func (k *caseRun) run(ar *txtar.Archive) {
	k.ev.At = caseTime
	files := k.parts(ar)
	alerts := k.alerts(files)
	k.workers(files["workers"])
	k.pages(files)
	k.evidence(files["evidence"], "", 0)
	sound := len(k.result.Failures) == 0
	wanted, certain := k.wanted(files["want"])
	if !sound || !certain {
		return
	}
	if _, told := files["alerts.json"]; told {
		k.troubles = incidentsOf(k.cat, alerts, k.ev.Workers)
	} else {
		for _, in := range observed(&k.ev) {
			k.troubles = append(k.troubles, &caseIncident{in: in})
		}
	}
	for i := 0; i < len(k.troubles); i++ { // judge may append to it
		k.judge(k.troubles[i])
	}
	for _, t := range k.troubles {
		k.result.Incidents = append(k.result.Incidents, t.in)
	}
	k.result.Evidence = k.ev
	k.want(wanted)
}

func lines(s string) [][]string {
	var out [][]string
	for l := range strings.Lines(s) {
		l, _, _ = strings.Cut(l, "#")
		out = append(out, strings.Fields(l))
	}
	return out
}

func (k *caseRun) workers(s string) {
	for i, f := range lines(s) {
		if len(f) == 0 {
			continue
		}
		if len(f) < 6 {
			k.fail("workers:%d: write short-name namespace pod pool model node [gpus] [key=value…]", i+1)
			k.short[f[0]] = state.Worker{} // so that lines that refer to it are not reported, too
			continue
		}
		w := state.Worker{Namespace: f[1], Pod: f[2], Pool: f[3], Model: f[4], Node: f[5], Ready: true, Engine: "vllm"}
		if _, twice := k.short[f[0]]; twice {
			k.fail("workers:%d: the short name %s is used twice: give each worker its own", i+1, f[0])
		}
		if slices.ContainsFunc(k.ev.Workers,
			func(o state.Worker) bool { return o.Namespace == w.Namespace && o.Pod == w.Pod }) {
			k.fail("workers:%d: the pod %s is used twice: give each worker its own", i+1, w.Pod)
		}
		for _, word := range f[6:] {
			key, value, option := strings.Cut(word, "=")
			switch {
			case !option && w.GPUs != nil:
				k.fail("workers:%d: GPUs are given twice, the second time as %s: write all of them as one word, such "+
					"as 0,1", i+1, word)
			case !option:
				w.GPUs = strings.Split(word, ",")
			case key == "group":
				w.Group = value
			case key == "role" && value != "prefill" && value != "decode":
				k.fail("workers:%d: role is %q: use prefill or decode", i+1, value)
			case key == "role":
				w.Role = value
			case key == "owner":
				w.OwnerKind, w.Owner, _ = strings.Cut(value, "/")
			case key == "route":
				w.Routes = append(w.Routes, value)
			case key == "job":
				w.Jobs = append(w.Jobs, state.ScrapeJob{Job: value})
			default:
				k.fail("workers:%d: unknown key %s=: use group, role, owner, route or job", i+1, key)
			}
		}
		k.short[f[0]] = w
		k.ev.Workers = append(k.ev.Workers, w)
	}
}

// evidence parses lines of evidence. Lines of a base file are reported with the file's name.
func (k *caseRun) evidence(s, file string, depth int) {
	for i, f := range lines(s) {
		at := fmt.Sprintf("%sevidence:%d", file, i+1)
		switch {
		case len(f) == 0:
			continue
		case f[0] == "base" && len(f) == 2:
			if depth > 3 {
				k.fail("%s: base files refer to each other", at)
				return
			}
			data, err := readFile(filepath.Join(k.dir, filepath.FromSlash(f[1])))
			if err != nil {
				k.fail("%s: %v", at, err)
				continue
			}
			k.evidence(string(data), file+f[1]+": ", depth+1)
		case f[0] == "missing" && len(f) > 1:
			k.signal(at, f[1])
			k.ev.Missing = append(k.ev.Missing, state.Missing{Signal: f[1], Reason: strings.Join(f[2:], " ")})
			k.ev.Samples = slices.DeleteFunc(k.ev.Samples, func(s state.Sample) bool { return s.Signal == f[1] })
		case slices.Equal(f, []string{"old", "trouble"}):
			k.oldTrouble()
		case len(f) < 3:
			k.fail("%s: write signal entity value", at)
		default:
			k.sample(at, f)
		}
	}
}

// oldTrouble marks the pools of all workers as in trouble for over half an hour.
func (k *caseRun) oldTrouble() {
	for _, w := range k.short {
		pool := state.Entity{Namespace: w.Namespace, Pool: w.Pool}
		if !slices.Contains(k.ev.Old, pool) {
			k.ev.Old = append(k.ev.Old, pool)
		}
	}
}

func (k *caseRun) sample(at string, f []string) {
	k.signal(at, f[0])
	s := state.Sample{Signal: f[0], Unit: k.cat.Units()[f[0]], At: caseTime}
	gone := f[2] == "-"
	if v, err := finite(f[2]); err == nil {
		s.Value = v
	} else if !gone {
		k.fail("%s: value %q is not a number", at, f[2])
	}
	given := map[string]bool{}
	for _, opt := range f[3:] {
		key, val, _ := strings.Cut(opt, "=")
		n, err := finite(val)
		if given[key] {
			k.fail("%s: %s= is given twice", at, key)
		}
		given[key] = true
		switch {
		case key == "text":
			s.Text = val
		case key == "was" && err == nil:
			s.Baseline = &n
		case key == "day" && err == nil:
			s.DayAgo = &n
		case key == "week" && err == nil:
			s.WeekAgo = &n
		case key == "z" && err == nil:
			s.Z = &n
		case key == "age" && err == nil:
			s.At = caseTime.Add(-time.Duration(n) * time.Second)
		case slices.Contains([]string{"was", "day", "week", "z", "age"}, key):
			k.fail("%s: %s must be a number, and is %q", at, key, val)
		default:
			k.fail("%s: unknown option %q: use was=, day=, week=, z=, age= or text=", at, opt)
		}
	}
	for _, e := range k.entities(at, f[1]) {
		s.Entity = e
		k.ev.Samples = slices.DeleteFunc(k.ev.Samples,
			func(o state.Sample) bool { return o.Signal == s.Signal && o.Entity == e })
		if !gone {
			k.ev.Samples = append(k.ev.Samples, s)
		}
	}
}

// finite parses a finite number: missing values are removed or listed as missing, never NaN.
func finite(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
		err = strconv.ErrRange
	}
	return v, err
}

func (k *caseRun) entities(at, name string) []state.Entity {
	if name == "pool" {
		return []state.Entity{{}}
	}
	if n, ok := strings.CutPrefix(name, "node:"); ok {
		node, gpu, _ := strings.Cut(n, "/")
		return []state.Entity{{Node: node, GPU: gpu}}
	}
	short, gpu, onGPU := strings.Cut(name, "/")
	var out []state.Entity
	for _, w := range k.ev.Workers {
		if short != "*" && k.short[short].Pod != w.Pod {
			continue
		}
		e := state.Entity{Namespace: w.Namespace, Model: w.Model, Pool: w.Pool, Pod: w.Pod, Node: w.Node}
		if !onGPU {
			out = append(out, e)
			continue
		}
		for _, g := range w.GPUs {
			if gpu == "*" || gpu == g {
				e.GPU = g
				out = append(out, e)
			}
		}
	}
	w, known := k.short[short]
	switch {
	case len(out) > 0 || known && w.Pod == "": // its own line has been reported
	case short == "*" && len(k.short) == 0:
		k.fail("%s: * matches no worker: list workers in a file workers, or write pool", at)
	case onGPU && (known || short == "*"):
		k.fail("%s: no worker has the GPU of %q: add it to a line of the file workers", at, name)
	case short != "*":
		k.fail("%s: no worker %q; %s", at, name,
			text.DidYouMean(name, append(slices.Collect(maps.Keys(k.short)), "*", "pool")))
	}
	return out
}

// Partners returns the causes that lack a case or a playbook. results come from [Catalog.RunCases];
// playbook reports whether the playbook exists.
func Partners(c *catalog.Catalog, results []CaseResult, playbook func(id string) bool) []string {
	var out []string
	for _, cause := range c.Causes() {
		if !slices.ContainsFunc(results, func(r CaseResult) bool { return slices.Contains(r.Want, string(cause.ID)) }) {
			out = append(out, fmt.Sprintf("cause %s has no case", cause.ID))
		}
		if !playbook(cause.Playbook) {
			out = append(out, fmt.Sprintf("cause %s has no playbook %s.md", cause.ID, cause.Playbook))
		}
	}
	return out
}
