package lab

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"paramedic/lab/engine"
	"paramedic/lab/metrics"
)

// The reasons for which a page cannot be read.
var (
	ErrSilent = errors.New("nothing listens there now")
	ErrBroken = errors.New("the processes' metrics could not be collected")
)

// Page returns the page at the path of a target, as it is at the fleet's present. With relabelled,
// each sample has the labels of the target. It fails with ErrBroken if the workers' metrics fail
// and with ErrSilent if there is no page, or its scrape is lost (see [metrics.Noise]).
func (f *Fleet) Page(path string, relabelled bool) ([]*dto.MetricFamily, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.targets() {
		if t.Path != path {
			continue
		}
		if families := f.page(t, relabelled); families != nil {
			return families, nil
		}
	}
	if f.unseen && strings.HasPrefix(path, workerPath) {
		return nil, ErrBroken
	}
	return nil, ErrSilent
}

// page returns a target's families, or nil if its scrape fails.
func (f *Fleet) page(t Target, relabelled bool) []*dto.MetricFamily {
	p := f.filled(t)
	if p == nil {
		return nil
	}
	families := p.Families()
	if relabelled {
		metrics.Relabel(families, t.Labels, t.Honor)
	}
	if f.cfg.Noise == (metrics.Noise{}) {
		return families
	}
	return f.cfg.Noise.Disturb(families, f.draw(t))
}

// draw returns the random numbers of a target at a moment.
func (f *Fleet) draw(t Target) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s %.1f", f.cfg.Seed, t.Path, f.now)
	return rand.New(rand.NewPCG(h.Sum64(), 5))
}

// filled returns a target's page, or nil if the target does not answer.
func (f *Fleet) filled(t Target) *metrics.Page {
	p := metrics.NewPage(f.cfg.hides)
	switch t.Job {
	case f.cfg.Kind.Job():
		for _, w := range f.workers {
			if w.name == t.Labels["pod"] && !f.unseen && !w.Unseen {
				return f.enginePage(w)
			}
		}
		return nil
	case "dcgm":
		for _, n := range f.nodes {
			if n.Name == t.Labels["node"] && !n.Down {
				f.cfg.DCGM.Fill(p, n, f.cfg.Namespace, f.cfg.Kind.Container(), f.now)
				return p
			}
		}
		return nil
	case "client":
		f.chat.Fill(p, f.cfg.Model)
	case "epp", "frontend":
		if f.gateway.Unseen {
			return nil
		}
		f.fillGateway(p)
	default:
		f.fillKube(p)
	}
	return p
}

// enginePage returns a worker's /metrics, or nil if it does not listen.
func (f *Fleet) enginePage(w *worker) *metrics.Page {
	if w.phase != podReady || w.eng == nil {
		return nil
	}
	return w.eng.Page(engine.Process{Model: f.cfg.Model, PID: 100 + int(w.started)%7, Started: f.at(w.started),
		Loaded: f.at(w.until), Uptime: f.now - w.started, RSS: w.rss}, f.cfg.hides)
}

// fillGateway adds the samples of the endpoint picker or of Dynamo's frontend.
func (f *Fleet) fillGateway(p *metrics.Page) {
	if f.gateway.Frontend == nil {
		var ready []*engine.Engine
		for _, w := range f.endpoints() {
			ready = append(ready, w.eng)
		}
		f.gateway.Fill(p, f.cfg.Pool, f.cfg.Model, ready)
		return
	}
	var all []*engine.Engine
	var serving *engine.Engine
	for _, w := range f.workers {
		if w.eng != nil {
			all = append(all, w.eng)
		}
		if serving == nil && w.serves() {
			serving = w.eng
		}
	}
	f.gateway.Frontend.Fill(p, f.cfg.Model, all, serving)
}
