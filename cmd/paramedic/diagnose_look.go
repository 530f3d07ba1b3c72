package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"paramedic/playbooks"
	"paramedic/rules"
	"paramedic/rules/enrich"
	"paramedic/rules/enrich/engine"
	"paramedic/state"
)

// A lookAt is one look at everything that can be seen.
type lookAt struct {
	gather  *enrich.Gatherer
	catalog *rules.Catalog
	library *playbooks.Library
	cluster string
	now     time.Time
	unread  []engine.Problem // pages that could not be read
}

// A foundFleet is what a look found.
type foundFleet struct {
	At      time.Time          `json:"at"`
	Found   bool               `json:"found"`
	Pools   []rules.PoolHealth `json:"pools"`
	Verdict []foundPool        `json:"verdicts"`
	Missing []state.Missing    `json:"missing,omitempty"`
	Unread  []engine.Problem   `json:"unreadable,omitempty"` // engines' pages that could not be read
	// Untraced is why no traces were found where somebody asked for them: of the fleet, or of the
	// pools that show symptoms.
	Untraced []string `json:"untraced,omitempty"`
}

// A foundPool is a pool that has symptoms, with the verdict on it.
type foundPool struct {
	Pool      rules.PoolHealth     `json:"pool"`
	Symptoms  []state.SymptomCount `json:"symptoms"`
	Diagnosis state.Diagnosis      `json:"diagnosis"`
	Time      rules.Bottleneck     `json:"bottleneck"`
	Playbook  string               `json:"-"` // as text beside the story, with its answers
}

// all looks at every pool, and twice at those that show symptoms: the second time with everything.
func (l lookAt) all(ctx context.Context, model string) (foundFleet, error) {
	ev := l.gather.Gather(ctx, enrich.Request{Cluster: l.cluster, Scope: state.Scope{Cluster: l.cluster, Model: model}, Onset: l.now, Now: l.now})
	out := foundFleet{At: l.now, Pools: judged(ofModel(l.catalog.Health(l.cluster, ev), ev.Workers, model)), Verdict: []foundPool{}, Missing: ev.Missing, Unread: l.unread, Found: len(l.unread) > 0}
	if len(ev.Samples) == 0 || len(out.Pools) == 0 {
		if err := l.unserved(ctx, model); err != nil {
			return out, err
		}
		return out, fmt.Errorf("nothing there tells of an inference engine: %s", reasons(ev.Missing, l.unread))
	}
	for i, p := range out.Pools {
		scope := p.Scope()
		scope.Model = orText(model, scope.Model)
		pool := l.gather.Gather(ctx, enrich.Request{Cluster: l.cluster, Scope: scope, Onset: l.now, Now: l.now})
		symptoms := rules.Observe(&pool)
		if len(symptoms) == 0 {
			continue
		}
		in := state.Incident{Cluster: l.cluster, Status: state.StatusOpen, Severity: state.Warning, Scope: scope, Symptoms: symptoms, StartedAt: l.now, OpenedAt: l.now}
		for _, s := range symptoms {
			in.AlertCount += s.Alerts
		}
		in.ActiveAlerts = in.AlertCount
		found := foundPool{Pool: p, Symptoms: symptoms, Diagnosis: knowledge{rules.Rules{Catalog: l.catalog}, l.library}.Diagnose(&in, &pool, l.now), Time: l.catalog.Bottleneck(scope, &pool)}
		if found.Diagnosis.Cause == state.BenignAlert { // no alert has called for this look: what healthy engines show is nothing to tell
			continue
		}
		out.Pools[i].AtLeast(l.severity(found.Diagnosis))
		found.Pool = out.Pools[i]
		in.Diagnosis, in.Scope = found.Diagnosis, found.Diagnosis.Scope // what is broken, and not all of the pool
		if pb, ok := l.library.For(found.Diagnosis); ok {
			found.Playbook = playbooks.Run(pb, in, pool).BesideStory()
		}
		out.Verdict = append(out.Verdict, found)
		if why := untraced(pool); why != "" && !slices.Contains(out.Untraced, why) {
			out.Untraced = append(out.Untraced, why)
		}
		out.Found = true
	}
	if why := untraced(ev); why != "" && len(out.Verdict) == 0 {
		out.Untraced = []string{why}
	}
	return out, nil
}

// severity is how bad a pool is of which this is said: its numbers may all be in bounds.
func (l lookAt) severity(d state.Diagnosis) rules.HealthStatus {
	pb, ok := l.library.For(d)
	switch {
	case ok && pb.Severity == string(state.Critical):
		return rules.HealthCritical
	case ok && pb.Severity == string(state.Info):
		return rules.HealthUnknown
	}
	return rules.HealthWarning
}

// ofModel are those of the pools that serve a model; all, where none is named. Evidence holds all
// workers whatever it was asked for, since neighbours count in a diagnosis.
func ofModel(pools []rules.PoolHealth, workers []state.Worker, model string) []rules.PoolHealth {
	if model == "" {
		return pools
	}
	return slices.DeleteFunc(pools, func(p rules.PoolHealth) bool {
		return !strings.EqualFold(p.Model, model) && !serves(p, workers, model)
	})
}

// serves says whether any of the pool's workers serves a model.
func serves(p rules.PoolHealth, workers []state.Worker, model string) bool {
	return slices.ContainsFunc(workers, func(w state.Worker) bool {
		return w.Namespace == p.Namespace && w.Pool == p.Pool && w.Pool != "" && strings.EqualFold(w.Model, model)
	})
}

// unserved is the error of a look at a model that nothing serves, with those that are served; nil
// where no model is seen, or none was named.
func (l lookAt) unserved(ctx context.Context, model string) error {
	if model == "" {
		return nil
	}
	ev := l.gather.Gather(ctx, enrich.Request{Cluster: l.cluster, Scope: state.Scope{Cluster: l.cluster}, Onset: l.now, Now: l.now, Signals: rules.HealthSignals()})
	var seen []string
	for _, p := range rules.Health(l.cluster, ev) {
		if model := p.Scope().Model; model != "" && !slices.Contains(seen, model) {
			seen = append(seen, model)
		}
	}
	for _, w := range ev.Workers {
		if w.Model != "" && !slices.Contains(seen, w.Model) {
			seen = append(seen, w.Model)
		}
	}
	if len(seen) == 0 {
		return nil
	}
	slices.Sort(seen)
	return fmt.Errorf("--model %q is served by nothing that could be seen: use one of %s", model, strings.Join(seen, ", "))
}

// reasons are the reasons why evidence is missing, each once: first what failed, then what there
// was nothing of.
func reasons(missing []state.Missing, unread []engine.Problem) string {
	var out, absent []string
	seen := map[string]bool{}
	for _, p := range unread {
		out = append(out, p.URL+": "+p.Reason)
	}
	for _, m := range missing {
		if seen[m.Reason] || m.Signal == "engines" && len(unread) > 0 {
			continue
		}
		seen[m.Reason] = true
		if strings.HasPrefix(m.Reason, "no series") || strings.HasPrefix(m.Reason, "no value") {
			absent = append(absent, m.Reason)
			continue
		}
		out = append(out, m.Reason)
	}
	out = append(out, absent...)
	if len(out) == 0 {
		return "no series matched"
	}
	return strings.Join(out[:min(3, len(out))], "; ")
}
