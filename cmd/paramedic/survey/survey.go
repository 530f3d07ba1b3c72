package survey

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"paramedic/cmd/paramedic/service"
	"paramedic/playbooks"
	"paramedic/rules"
	"paramedic/rules/bottleneck"
	"paramedic/rules/catalog"
	"paramedic/rules/enrich"
	"paramedic/rules/enrich/engine"
	"paramedic/rules/evidence"
	"paramedic/rules/health"
	"paramedic/state"
)

// A Survey is one look at everything that a cluster's sources export.
type Survey struct {
	Gather  *enrich.Gatherer
	Catalog *catalog.Catalog
	Library *playbooks.Library
	Cluster string
	Now     time.Time
	Unread  []engine.Problem // pages that could not be read
}

// A Report holds the findings of a survey.
type Report struct {
	At      time.Time        `json:"at"`
	Found   bool             `json:"found"`
	Pools   []health.Pool    `json:"pools"`
	Verdict []PoolReport     `json:"verdicts"`
	Missing []state.Missing  `json:"missing,omitempty"`
	Unread  []engine.Problem `json:"unreadable,omitempty"` // engines' pages that could not be read
	// Untraced has the reasons why no traces were found, if a store was named: for the fleet, or
	// for the pools with symptoms.
	Untraced []string `json:"untraced,omitempty"`
}

// A PoolReport is a pool with symptoms, and its verdict.
type PoolReport struct {
	Pool      health.Pool           `json:"pool"`
	Symptoms  []state.SymptomCount  `json:"symptoms"`
	Diagnosis state.Diagnosis       `json:"diagnosis"`
	Time      bottleneck.Bottleneck `json:"bottleneck"`
	Playbook  string                `json:"-"` // as text beside the story, with its answers
}

// Run surveys every pool. It gathers everything about pools with symptoms, and diagnoses them.
func (l Survey) Run(ctx context.Context, model string) (Report, error) {
	ev := l.Gather.Gather(ctx, enrich.Request{Cluster: l.Cluster, Scope: state.Scope{Cluster: l.Cluster, Model: model},
		Onset: l.Now, Now: l.Now})
	out := Report{At: l.Now, Pools: service.MarkUnmeasured(PoolsOfModel(health.OfCatalog(l.Catalog, l.Cluster, ev),
		ev.Workers,
		model)), Verdict: []PoolReport{}, Missing: ev.Missing, Unread: l.Unread, Found: len(l.Unread) > 0}
	if len(ev.Samples) == 0 || len(out.Pools) == 0 {
		if err := l.UnknownModel(ctx, model); err != nil {
			return out, err
		}
		return out, fmt.Errorf("no metrics of an inference engine were found: %s", MissingReasons(ev.Missing, l.Unread))
	}
	for i, p := range out.Pools {
		scope := p.Scope()
		scope.Model = cmp.Or(model, scope.Model)
		pool := l.Gather.Gather(ctx, enrich.Request{Cluster: l.Cluster, Scope: scope, Onset: l.Now, Now: l.Now})
		symptoms := evidence.Observe(&pool)
		if len(symptoms) == 0 {
			continue
		}
		in := state.Incident{Cluster: l.Cluster, Status: state.StatusOpen, Severity: state.Warning, Scope: scope,
			Symptoms: symptoms, StartedAt: l.Now, OpenedAt: l.Now}
		for _, s := range symptoms {
			in.AlertCount += s.Alerts
		}
		in.ActiveAlerts = in.AlertCount
		found := PoolReport{Pool: p, Symptoms: symptoms,
			Diagnosis: service.Knowledge{Rules: rules.Rules{Catalog: l.Catalog}, Library: l.Library}.Diagnose(&in,
				&pool, l.Now), Time: bottleneck.Of(l.Catalog, scope, &pool)}
		// no alert asked for this survey, so a benign verdict is no finding
		if found.Diagnosis.Cause == state.BenignAlert {
			continue
		}
		out.Pools[i].AtLeast(l.severity(found.Diagnosis))
		found.Pool = out.Pools[i]
		in.Diagnosis, in.Scope = found.Diagnosis, found.Diagnosis.Scope // what is broken, and not all of the pool
		if pb, ok := l.Library.For(found.Diagnosis); ok {
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

// severity returns the health of a pool with this verdict. Its metrics may all be in bounds.
func (l Survey) severity(d state.Diagnosis) health.Status {
	pb, ok := l.Library.For(d)
	switch {
	case ok && pb.Severity == string(state.Critical):
		return health.HealthCritical
	case ok && pb.Severity == string(state.Info):
		return health.Unknown
	}
	return health.HealthWarning
}

// PoolsOfModel returns the pools that serve a model, or all pools if no model is named. Evidence
// always holds all workers, because a diagnosis compares neighbours.
func PoolsOfModel(pools []health.Pool, workers []state.Worker, model string) []health.Pool {
	if model == "" {
		return pools
	}
	return slices.DeleteFunc(pools, func(p health.Pool) bool {
		return !strings.EqualFold(p.Model, model) && !ServesModel(p, workers, model)
	})
}

// ServesModel reports whether a worker of the pool serves a model.
func ServesModel(p health.Pool, workers []state.Worker, model string) bool {
	return slices.ContainsFunc(workers, func(w state.Worker) bool {
		return w.Namespace == p.Namespace && w.Pool == p.Pool && w.Pool != "" && strings.EqualFold(w.Model, model)
	})
}

// UnknownModel returns an error for a model that no worker serves, with the models that workers do
// serve. It returns nil if no model was seen or named.
func (l Survey) UnknownModel(ctx context.Context, model string) error {
	if model == "" {
		return nil
	}
	ev := l.Gather.Gather(ctx, enrich.Request{Cluster: l.Cluster, Scope: state.Scope{Cluster: l.Cluster}, Onset: l.Now,
		Now: l.Now, Signals: health.Signals()})
	var seen []string
	for _, p := range health.Of(l.Cluster, ev) {
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
	return fmt.Errorf("no worker serves --model %q: use one of %s", model,
		strings.Join(seen, ", "))
}

// MissingReasons returns why evidence is missing, each reason once: failures first, then what does
// not exist.
func MissingReasons(missing []state.Missing, unread []engine.Problem) string {
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
