package survey

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"paramedic/rules/casetest"
	"paramedic/rules/enrich"
	"paramedic/rules/enrich/engine"
	"paramedic/rules/signals"
	"paramedic/state"
)

// recordedPages answers scrapes with recorded pages.
type recordedPages struct {
	now   time.Time
	pages map[time.Time]map[string][]byte // by time and URL
}

// Now returns the time of the current page.
func (r *recordedPages) Now() time.Time { return r.now }

// After returns nil: nothing waits while recorded pages are read.
func (*recordedPages) After(time.Duration) <-chan time.Time { return nil }

// RoundTrip is part of http.RoundTripper.
func (r *recordedPages) RoundTrip(req *http.Request) (*http.Response, error) {
	body, ok := r.pages[r.now][req.URL.String()]
	if !ok {
		return nil, fmt.Errorf("no page of this time was recorded")
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(body)),
		Header: http.Header{"Content-Type": {"text/plain; version=0.0.4"}}, Request: req}, nil
}

// ReadPages returns the evidence of recorded pages, read as a survey of the live engines would read
// them, at the times of the recording.
func ReadPages(pages []casetest.CasePage, at time.Time) (state.Evidence, error) {
	known, err := signals.LoadSignals()
	if err != nil {
		return state.Evidence{}, fmt.Errorf("signals: %w", err)
	}
	r := &recordedPages{pages: map[time.Time]map[string][]byte{}}
	targets := map[string]engine.Target{}
	for _, p := range pages {
		w := p.Worker
		url := "http://" + w.Pod + ".case/recorded" // not /metrics: the answer of /health was not recorded
		targets[url] = engine.Target{URL: url, Labels: map[string]string{"namespace": w.Namespace, "pod": w.Pod,
			"node": w.Node, "model_name": w.Model}}
		if r.pages[p.At] == nil {
			r.pages[p.At] = map[string][]byte{}
		}
		r.pages[p.At][url] = append(append(r.pages[p.At][url], p.Body...), '\n')
	}
	if r.pages[at] == nil {
		return state.Evidence{}, errors.New("give each worker's page of the case's own time, without an age")
	}
	var list []engine.Target
	var wrong []error
	for _, url := range slices.Sorted(maps.Keys(targets)) {
		list = append(list, targets[url])
		for _, when := range slices.SortedFunc(maps.Keys(r.pages), time.Time.Compare) {
			if _, ok := r.pages[when][url]; !ok {
				wrong = append(wrong, fmt.Errorf("%s has no page of %s before: give every worker's page of each time",
					targets[url].Labels["pod"], state.FormatDuration(at.Sub(when))))
			}
		}
	}
	if len(wrong) > 0 {
		return state.Evidence{}, errors.Join(wrong...)
	}
	client := engine.New(engine.Config{Targets: list, Signals: known, Interval: time.Minute, Clock: r, Transport: r})
	ctx := context.Background()
	for _, when := range slices.SortedFunc(maps.Keys(r.pages), time.Time.Compare) {
		r.now = when
		client.Scrape(ctx)
		for _, p := range client.Problems() {
			wrong = append(wrong, fmt.Errorf("%s: %s", p.URL, p.Reason))
		}
	}
	if len(wrong) > 0 {
		return state.Evidence{}, errors.Join(wrong...)
	}
	const cluster = "case"
	gather := enrich.New(enrich.Config{Clusters: map[string]enrich.Cluster{cluster: {Engines: client}},
		Signals: known, Log: slog.New(slog.DiscardHandler)})
	return gather.Gather(ctx, enrich.Request{Cluster: cluster, Scope: state.Scope{Cluster: cluster}, Onset: at,
		Now: at}), nil
}
