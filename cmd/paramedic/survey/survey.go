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
	"paramedic/rules/enrich"
	"paramedic/rules/enrich/engine"
	"paramedic/state"
)

// A Survey is one look at everything that can be seen.
type Survey struct {
	Gather  *enrich.Gatherer
	Catalog *rules.Catalog
	Library *playbooks.Library
	Cluster string
	Now     time.Time
	Unread  []engine.Problem // pages that could not be read
}

// A Report is what a look found.
type Report struct {
	At      time.Time          `json:"at"`
	Found   bool               `json:"found"`
	Pools   []rules.PoolHealth `json:"pools"`
	Verdict []PoolReport       `json:"verdicts"`
	Missing []state.Missing    `json:"missing,omitempty"`
	Unread  []engine.Problem   `json:"unreadable,omitempty"` // engines' pages that could not be read
	// Untraced is why no traces were found where somebody asked for them: of the fleet, or of the
	// pools that show symptoms.
	Untraced []string `json:"untraced,omitempty"`
}

// A PoolReport is a pool that has symptoms, with the verdict on it.
type PoolReport struct {
	Pool      rules.PoolHealth     `json:"pool"`
	Symptoms  []state.SymptomCount `json:"symptoms"`
	Diagnosis state.Diagnosis      `json:"diagnosis"`
	Time      rules.Bottleneck     `json:"bottleneck"`
	Playbook  string               `json:"-"` // as text beside the story, with its answers
}

// Run looks at every pool, and twice at those that show symptoms: the second time with everything.
func (l Survey) Run(ctx context.Context, model string) (Report, error) {
	ev := l.Gather.Gather(ctx, enrich.Request{Cluster: l.Cluster, Scope: state.Scope{Cluster: l.Cluster, Model: model},
		Onset: l.Now, Now: l.Now})
	out := Report{At: l.Now, Pools: service.MarkUnmeasured(PoolsOfModel(l.Catalog.Health(l.Cluster, ev), ev.Workers,
		model)), Verdict: []PoolReport{}, Missing: ev.Missing, Unread: l.Unread, Found: len(l.Unread) > 0}
	if len(ev.Samples) == 0 || len(out.Pools) == 0 {
		if err := l.UnknownModel(ctx, model); err != nil {
			return out, err
		}
		return out, fmt.Errorf("nothing there tells of an inference engine: %s", MissingReasons(ev.Missing, l.Unread))
	}
	for i, p := range out.Pools {
		scope := p.Scope()
		scope.Model = cmp.Or(model, scope.Model)
		pool := l.Gather.Gather(ctx, enrich.Request{Cluster: l.Cluster, Scope: scope, Onset: l.Now, Now: l.Now})
		symptoms := rules.Observe(&pool)
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
				&pool, l.Now), Time: l.Catalog.Bottleneck(scope, &pool)}
		// no alert has called for this look: what healthy engines show is nothing to tell
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

// severity is how bad a pool is of which this is said: its numbers may all be in bounds.
func (l Survey) severity(d state.Diagnosis) rules.HealthStatus {
	pb, ok := l.Library.For(d)
	switch {
	case ok && pb.Severity == string(state.Critical):
		return rules.HealthCritical
	case ok && pb.Severity == string(state.Info):
		return rules.HealthUnknown
	}
	return rules.HealthWarning
}

// PoolsOfModel are those of the pools that serve a model; all, where none is named. Evidence holds all
// workers whatever it was asked for, since neighbours count in a diagnosis.
func PoolsOfModel(pools []rules.PoolHealth, workers []state.Worker, model string) []rules.PoolHealth {
	if model == "" {
		return pools
	}
	return slices.DeleteFunc(pools, func(p rules.PoolHealth) bool {
		return !strings.EqualFold(p.Model, model) && !ServesModel(p, workers, model)
	})
}

// ServesModel says whether any of the pool's workers serves a model.
func ServesModel(p rules.PoolHealth, workers []state.Worker, model string) bool {
	return slices.ContainsFunc(workers, func(w state.Worker) bool {
		return w.Namespace == p.Namespace && w.Pool == p.Pool && w.Pool != "" && strings.EqualFold(w.Model, model)
	})
}

// UnknownModel is the error of a look at a model that nothing serves, with those that are served; nil
// where no model is seen, or none was named.
func (l Survey) UnknownModel(ctx context.Context, model string) error {
	if model == "" {
		return nil
	}
	ev := l.Gather.Gather(ctx, enrich.Request{Cluster: l.Cluster, Scope: state.Scope{Cluster: l.Cluster}, Onset: l.Now,
		Now: l.Now, Signals: rules.HealthSignals()})
	var seen []string
	for _, p := range rules.Health(l.Cluster, ev) {
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
	return fmt.Errorf("--model %q is served by nothing that could be seen: use one of %s", model,
		strings.Join(seen, ", "))
}

// MissingReasons are the reasons why evidence is missing, each once: first what failed, then what there
// was nothing of.
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
