package casetest

import (
	"path/filepath"
	"slices"
	"time"

	"paramedic/rules/evidence"
	"paramedic/state"
)

// A CasePage is a recorded /metrics page of a worker. In a case, lines of the file pages name them:
//
//	a vllm-0.prom
//	a vllm-0.earlier.prom 5m
//
// The file is in the case itself or in its directory. The age, by default zero, is the time from
// the page to the case. One page yields gauges. Two pages of the last ten minutes also yield rates
// and quantiles, and two of an hour ago the baselines.
type CasePage struct {
	Worker state.Worker
	At     time.Time
	Body   []byte
}

// A PageReader computes the evidence at a time from recorded pages.
type PageReader func(pages []CasePage, at time.Time) (state.Evidence, error)

// pages adds the evidence of the case's pages.
func (k *caseRun) pages(files map[string]string) {
	var pages []CasePage
	before := len(k.result.Failures)
	for i, f := range lines(files["pages"]) {
		if len(f) == 0 {
			continue
		}
		w, ok := k.short[f[0]]
		if !ok || len(f) < 2 || len(f) > 3 {
			k.fail("pages:%d: write the short name of a worker, a file, and if needed an age such as 5m", i+1)
			continue
		}
		p := CasePage{Worker: w, At: caseTime, Body: []byte(files[f[1]])}
		if len(f) == 3 {
			age, err := time.ParseDuration(f[2])
			if err != nil || age < 0 {
				k.fail("pages:%d: %q is not an age: write one such as 5m", i+1, f[2])
			}
			p.At = caseTime.Add(-age)
		}
		if _, inside := files[f[1]]; !inside {
			body, err := readFile(filepath.Join(k.dir, filepath.FromSlash(f[1])))
			if err != nil {
				k.fail("pages:%d: %v", i+1, err)
			}
			p.Body = body
		}
		pages = append(pages, p)
	}
	unread := slices.ContainsFunc(pages, func(p CasePage) bool { return p.Worker.Pod == "" })
	if len(pages) == 0 || unread || len(k.result.Failures) > before {
		return
	}
	if k.read == nil {
		k.fail("the case has recorded pages: run it with `paramedic rules test`")
		return
	}
	ev, err := k.read(pages, caseTime)
	if err != nil {
		k.failEach("pages", err)
		return
	}
	for _, s := range ev.Samples {
		s.Entity.Cluster = "" // a case has one cluster, which lines of evidence do not name
		k.ev.Samples = append(k.ev.Samples, s)
	}
	k.ev.Missing = append(k.ev.Missing, ev.Missing...)
}

// failEach adds a failure for each of the joined errors.
func (k *caseRun) failEach(at string, err error) {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range several.Unwrap() {
			k.fail("%s: %v", at, one)
		}
		return
	}
	k.fail("%s: %v", at, err)
}

// observed returns the incident that evidence shows without alerts, if there is one.
func observed(ev *state.Evidence) []*state.Incident {
	symptoms := evidence.Observe(ev)
	if len(symptoms) == 0 {
		return nil
	}
	in := &state.Incident{
		ID: "INC-1", Number: 1, Cluster: "test", Status: state.StatusOpen, Severity: state.Warning, StartedAt: caseTime, OpenedAt: caseTime,
		Scope: state.Scope{Cluster: "test"}, Symptoms: symptoms,
	}
	for _, s := range symptoms {
		in.AlertCount += s.Alerts
	}
	in.ActiveAlerts = in.AlertCount
	return []*state.Incident{in}
}
