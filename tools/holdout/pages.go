package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"paramedic/lab"
	"paramedic/lab/scrape"
	"paramedic/rules/enrich/engine"
	"paramedic/rules/signals"
)

// pageTargets lists the pages that the bot scrapes itself, as an operator would list them.
func (w *world) pageTargets() []engine.Target {
	var out []engine.Target
	i := 0
	w.eachFleet(func(f *lab.Fleet) {
		for _, t := range f.Targets() {
			if _, kept := w.exported(lab.Page{Target: t}); kept {
				out = append(out, engine.Target{URL: fmt.Sprintf("http://fleet%d%s", i, t.Path), Labels: t.Labels})
			}
		}
		i++
	})
	return out
}

// pages serves the fleets' pages to the bot.
type pages struct {
	world    *world
	handlers map[string]http.Handler // by host
	fleets   map[string]*lab.Fleet
	want     func(metric string) bool
}

func newPages(w *world, known []signals.Signal) *pages {
	p := &pages{world: w, handlers: map[string]http.Handler{}, fleets: map[string]*lab.Fleet{}, want: wanted(known, nil)}
	w.eachFleet(func(f *lab.Fleet) {
		host := fmt.Sprintf("fleet%d", len(p.fleets))
		p.fleets[host], p.handlers[host] = f, scrape.Handler(f, scrape.Config{TargetLabels: true})
	})
	return p
}

// RoundTrip implements http.RoundTripper. Families that no signal reads are left out.
func (p *pages) RoundTrip(r *http.Request) (*http.Response, error) {
	for _, page := range p.world.pages(p.fleets[r.URL.Host]) {
		if page.Target.Path != r.URL.Path || page.Families == nil {
			continue
		}
		body, err := p.encode(page.Families)
		if err != nil {
			return nil, err
		}
		return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Request: r, Proto: "HTTP/1.1",
			Header: http.Header{"Content-Type": {"text/plain; version=0.0.4; charset=utf-8"}}, Body: io.NopCloser(body)}, nil
	}
	rec := httptest.NewRecorder()
	p.handlers[r.URL.Host].ServeHTTP(rec, r)
	return rec.Result(), nil
}

func (p *pages) encode(families []*dto.MetricFamily) (io.Reader, error) {
	var b bytes.Buffer
	for _, f := range families {
		if !p.want(f.GetName()) {
			continue
		}
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			return nil, fmt.Errorf("writing %s: %w", f.GetName(), err)
		}
	}
	return &b, nil
}

var identifier = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`)

// wanted returns whether a signal, a rule or the proxy in front of a fleet reads a metric.
func wanted(known []signals.Signal, loaded []rule) func(string) bool {
	all := map[string]bool{pickerRequests: true, pickerErrors: true}
	add := func(name string) {
		all[name] = true
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			all[strings.TrimSuffix(name, suffix)] = true
		}
	}
	for _, s := range known {
		for _, src := range s.Sources {
			for _, name := range append([]string{src.Metric, src.Over}, src.With...) {
				add(name)
			}
		}
	}
	for _, r := range loaded {
		for _, name := range identifier.FindAllString(r.expr, -1) {
			add(name)
		}
	}
	return func(name string) bool { return all[name] }
}
