package score

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"paramedic/cmd/paramedic/config"
	"paramedic/cmd/paramedic/service"
	"paramedic/lab"
	"paramedic/lab/alerting"
	"paramedic/lab/drill"
	"paramedic/lab/scrape"
	"paramedic/lab/story"
	"paramedic/rules"
	"paramedic/rules/enrich"
	"paramedic/rules/enrich/engine"
	"paramedic/rules/signals"
	"paramedic/state"
)

// A trial runs scenarios. Several pools in one cluster share one bot and one Alertmanager.
type trial struct {
	*Bot
	kind, name string
	seed       uint64
	watched    time.Duration // since when the bot reads pages, from the fleet's start
	begin      time.Duration // since when rules are evaluated
	length     time.Duration
	enough     time.Duration // it ends so long after the right verdicts; zero: at the scenario's end
	pools      []*trialPool
	alone      *plainAlertmanager
	advice     *Adviser
	scraper    *engine.Client

	truths   []*truth
	verdicts map[state.IncidentID]state.Cause
	misled   []string
	harmful  []string
	trace    strings.Builder
}

// A trialPool is one fleet of a trial.
type trialPool struct {
	name    string // the workload's
	host    string // of its pages
	fleet   *lab.Fleet
	ruler   *alerting.Ruler
	alerted bool
}

// A truth is an injected fault.
type truth struct {
	cause string
	pool  *trialPool
	at    time.Time // when it was first named
}

// trialScrapes is the bot's default interval of scrapes.
const trialScrapes = 15 * time.Second

// If the traffic varies by itself, the bot watches the healthy pool for longer. A minute and a half
// is too short a baseline then.
const (
	// An hour before the first alert, and the minutes that a rate needs.
	hourBefore = 70 * time.Minute
	sparsely   = time.Minute // how often pages are read in it
)

// The kinds of trials.
const (
	kindFault  = "fault"
	kindDecoy  = "decoy"
	kindDouble = "double"
)

func newTrialOf(kind, name string, seed uint64, o Options) (*trial, error) {
	scenarios, err := scenariosOf(kind, name, seed)
	if err != nil {
		return nil, err
	}
	for i := range scenarios {
		scenarios[i] = o.Apply(scenarios[i])
	}
	return trialOf(kind, name, seed, scenarios, o)
}

// trialOf creates a trial of scenarios, without options applied.
func trialOf(kind, name string, seed uint64, scenarios []drill.Scenario, o Options) (*trial, error) {
	known, err := signals.LoadSignals()
	if err != nil {
		return nil, fmt.Errorf("signals: %w", err)
	}
	catalog, library, err := service.LoadKnowledge(config.Default())
	if err != nil {
		return nil, err
	}
	bot, err := NewBot(rules.Rules{Catalog: catalog})
	if err != nil {
		return nil, err
	}
	t := &trial{Bot: bot, kind: kind, name: name, seed: seed, alone: newPlainAlertmanager(o.Kind),
		advice: NewAdviser(catalog, library), verdicts: map[state.IncidentID]state.Cause{}, misled: []string{},
		harmful: []string{}}
	t.watched = 5*time.Minute - HealthyShown // like the demo it sees little of the healthy pool before
	t.begin = t.watched
	if o.varies() {
		t.watched, t.begin = 5*time.Minute, hourBefore
	}
	for i, s := range scenarios {
		if o.varies() {
			s = s.Later(hourBefore)
		}
		if err := t.addPool(i, s); err != nil {
			return nil, err
		}
	}
	t.At = t.pools[0].fleet.Start()
	t.scraper = engine.New(engine.Config{Signals: known, Interval: trialScrapes, Clock: t.Bot,
		Timeout: time.Minute, Transport: t, Discover: t.targets})
	t.Gather = enrich.New(enrich.Config{Clusters: map[string]enrich.Cluster{Cluster: {Engines: t.scraper,
		Kubernetes: LastWords(t.fleets)}}, Signals: known,
		Deadline: time.Minute, Log: slog.New(slog.DiscardHandler)})
	return t, nil
}

func scenariosOf(kind, name string, seed uint64) ([]drill.Scenario, error) {
	switch kind {
	case kindDecoy:
		s, err := drill.NewDecoy(name, seed)
		return []drill.Scenario{s}, err
	case kindDouble:
		d, err := drill.ParseDouble(name)
		if err != nil {
			return nil, err
		}
		return drill.NewDouble(d, seed)
	}
	fault, _, _ := strings.Cut(name, "/")
	if err := CheckFault("--faults", fault, slices.Concat(lab.Faults(), lab.Decoys())); err != nil {
		return nil, err
	}
	s, err := story.New(name, seed)
	return []drill.Scenario{s}, err
}

func (t *trial) addPool(i int, s drill.Scenario) error {
	fleet, err := s.Build()
	if err != nil {
		return fmt.Errorf("building the fleet: %w", err)
	}
	p := &trialPool{name: fleet.Deployment().Name, host: fmt.Sprintf("fleet%d.lab", i), fleet: fleet,
		ruler: alerting.NewRuler(fleet, "")}
	if s.Nervous {
		p.ruler.Nervous()
	}
	t.pools = append(t.pools, p)
	t.length = max(t.length, s.Length)
	for _, f := range s.Faults {
		if t.kind != kindDecoy {
			t.truths = append(t.truths, &truth{cause: f.Name, pool: p})
		}
	}
	return nil
}

// RoundTrip answers a scrape with the page of the addressed fleet.
func (t *trial) RoundTrip(r *http.Request) (*http.Response, error) {
	for _, p := range t.pools {
		if p.host == r.URL.Host {
			rec := httptest.NewRecorder()
			scrape.Handler(p.fleet, scrape.Config{TargetLabels: true}).ServeHTTP(rec, r)
			return rec.Result(), nil
		}
	}
	return nil, fmt.Errorf("no fleet is at %s", r.URL.Host)
}

func (t *trial) fleets() []*lab.Fleet {
	var out []*lab.Fleet
	for _, p := range t.pools {
		out = append(out, p.fleet)
	}
	return out
}

func (t *trial) targets() []engine.Target {
	var out []engine.Target
	for _, p := range t.pools {
		out = append(out, Targets(p.fleet, "http://"+p.host)...)
	}
	return out
}

// play plays the scenario to its end.
func (t *trial) play(ctx context.Context) (TrialResult, error) {
	start := t.pools[0].fleet.Start()
	end := start.Add(t.length)
	for t.At = start.Add(t.watched); t.At.Before(start.Add(t.begin)) &&
		ctx.Err() == nil; t.At = t.At.Add(sparsely) {
		for _, p := range t.pools {
			p.fleet.Advance(t.At)
		}
		t.scraper.Scrape(ctx)
	}
	for beat := 0; !t.At.After(end); beat++ {
		if err := ctx.Err(); err != nil {
			return TrialResult{}, err
		}
		for _, p := range t.pools {
			p.fleet.Advance(t.At)
		}
		if beat%int(trialScrapes/alerting.ScrapeInterval) == 0 {
			t.scraper.Scrape(ctx)
		}
		t.evaluate()
		if err := t.Step(ctx); err != nil {
			return TrialResult{}, err
		}
		t.look()
		if t.enough > 0 && t.settled() {
			break
		}
		t.At = t.At.Add(alerting.ScrapeInterval)
	}
	return t.result(), nil
}

// evaluate evaluates every pool's rules, and sends the same alerts to both Alertmanagers.
func (t *trial) evaluate() {
	var alerts []alerting.Alert
	for _, p := range t.pools {
		fired := p.ruler.Evaluate()
		p.alerted = p.alerted || len(fired) > 0
		alerts = append(alerts, fired...)
	}
	t.alone.receive(t.At, alerts)
	t.Receive(alerts)
}

// settled reports whether every fault was named long enough ago.
func (t *trial) settled() bool {
	return !slices.ContainsFunc(t.truths, func(x *truth) bool { return x.at.IsZero() || t.At.Sub(x.at) < t.enough })
}
