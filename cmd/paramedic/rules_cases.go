package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"paramedic/rules"
	"paramedic/rules/enrich"
	"paramedic/rules/enrich/engine"
	"paramedic/state"
)

// testRules runs the cases of a directory against the built-in rules and those of the same directory, or of --dir where it is given.
func (c *cli) testRules(dir, cases string) error {
	places, own, err := caseDirs(cases)
	if err != nil {
		return err
	}
	if dir == "" && own {
		dir = cases
	}
	catalog, problems, err := rules.Load(dir)
	if err != nil {
		return fmt.Errorf("reading the rules: %w", err)
	}
	if len(problems) > 0 {
		for _, p := range problems {
			fmt.Fprintln(c.out, p)
		}
		return errFinding
	}
	results := []rules.CaseResult{}
	for _, place := range places {
		some, err := catalog.RunCasesWith(place, readCasePages)
		if err != nil {
			return err
		}
		results = append(results, some...)
	}
	if len(results) == 0 {
		return fmt.Errorf("there is no case (*.txtar) in %s", cases)
	}
	failed := 0
	for _, r := range results {
		if !r.OK() {
			failed++
		}
	}
	if c.output == "json" {
		if err := c.json(results); err != nil {
			return err
		}
	} else {
		c.printCases(results)
		if failed > 0 {
			fmt.Fprintf(c.out, "%d of %d cases do not hold\n", failed, len(results))
		} else {
			fmt.Fprintf(c.out, "all %d cases hold\n", len(results))
		}
	}
	if failed > 0 {
		return errFinding
	}
	return nil
}

func (c *cli) printCases(results []rules.CaseResult) {
	for _, r := range results {
		mark := "ok  "
		if !r.OK() {
			mark = "FAIL"
		}
		fmt.Fprintf(c.out, "%s  %s\n", mark, r.Name)
		for _, f := range r.Failures {
			fmt.Fprintf(c.out, "      %s:  %s\n", r.File, f)
		}
	}
}

// caseDirs are the directories under one that hold cases, itself first, and whether it holds rules of its own.
func caseDirs(root string) (places []string, rules bool, err error) {
	found := map[string]bool{}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		switch filepath.Ext(path) {
		case ".txtar":
			found[filepath.Dir(path)] = true
		case ".yaml", ".yml":
			rules = rules || filepath.Dir(path) == filepath.Clean(root)
		}
		return nil
	})
	if err != nil {
		return nil, false, fmt.Errorf("looking for cases: %w", err)
	}
	return slices.Sorted(maps.Keys(found)), rules, nil
}

// recorded answers for engines with the pages that were recorded of them.
type recorded struct {
	now   time.Time
	pages map[time.Time]map[string][]byte // by time and URL
}

// Now is the time of the page that is read.
func (r *recorded) Now() time.Time { return r.now }

// After never comes: nothing waits while recorded pages are read.
func (*recorded) After(time.Duration) <-chan time.Time { return nil }

// RoundTrip is part of http.RoundTripper.
func (r *recorded) RoundTrip(req *http.Request) (*http.Response, error) {
	body, ok := r.pages[r.now][req.URL.String()]
	if !ok {
		return nil, fmt.Errorf("no page of this time was recorded")
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(body)), Header: http.Header{"Content-Type": {"text/plain; version=0.0.4"}}, Request: req}, nil
}

// readCasePages reads recorded pages as a look at the live engines would, at the times at which they were recorded.
func readCasePages(pages []rules.CasePage, at time.Time) (state.Evidence, error) {
	signals, err := rules.LoadSignals()
	if err != nil {
		return state.Evidence{}, fmt.Errorf("signals: %w", err)
	}
	r := &recorded{pages: map[time.Time]map[string][]byte{}}
	targets := map[string]engine.Target{}
	for _, p := range pages {
		w := p.Worker
		url := "http://" + w.Pod + ".case/recorded" // not /metrics: nobody recorded what /health said
		targets[url] = engine.Target{URL: url, Labels: map[string]string{"namespace": w.Namespace, "pod": w.Pod, "node": w.Node, "model_name": w.Model}}
		if r.pages[p.At] == nil {
			r.pages[p.At] = map[string][]byte{}
		}
		r.pages[p.At][url] = append(append(r.pages[p.At][url], p.Body...), '\n')
	}
	if r.pages[at] == nil {
		return state.Evidence{}, errors.New("give each worker's page of the case's own time, without an age")
	}
	for when, of := range r.pages {
		for url := range targets {
			if _, ok := of[url]; !ok {
				return state.Evidence{}, fmt.Errorf("%s has no page of %s before: give every worker's page of each time", strings.TrimSuffix(strings.TrimPrefix(url, "http://"), ".case/recorded"), at.Sub(when))
			}
		}
	}
	var list []engine.Target
	for _, url := range slices.Sorted(maps.Keys(targets)) {
		list = append(list, targets[url])
	}
	client := engine.New(engine.Config{Targets: list, Signals: signals, Interval: time.Minute, Clock: r, Transport: r})
	ctx := context.Background()
	for _, when := range slices.SortedFunc(maps.Keys(r.pages), time.Time.Compare) {
		r.now = when
		client.Scrape(ctx)
		for _, p := range client.Problems() {
			return state.Evidence{}, fmt.Errorf("%s: %s", p.URL, p.Reason)
		}
	}
	const cluster = "case"
	gather := enrich.New(enrich.Config{Clusters: map[string]enrich.Cluster{cluster: {Engines: client}}, Signals: signals, Log: slog.New(slog.DiscardHandler)})
	return gather.Gather(ctx, enrich.Request{Cluster: cluster, Scope: state.Scope{Cluster: cluster}, Onset: at, Now: at}), nil
}
