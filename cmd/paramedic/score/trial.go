package score

import (
	"context"
	"encoding/json"
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
	"paramedic/notify"
	"paramedic/rules"
	"paramedic/rules/enrich"
	"paramedic/rules/enrich/engine"
	"paramedic/rules/signals"
	"paramedic/state"
	"paramedic/state/fold"
	"paramedic/webhook/alertmanager"
)

// A trial runs scenarios against the bot's own parts, on simulated time and in one goroutine,
// without a listener. Several pools in one cluster share one bot and one Alertmanager.
type trial struct {
	kind, name string
	seed       uint64
	watched    time.Duration // since when the bot reads pages, from the fleet's start
	begin      time.Duration // since when rules are evaluated
	length     time.Duration
	enough     time.Duration // it ends so long after the right verdicts; zero: at the scenario's end
	pools      []*trialPool
	manager    *alerting.Alertmanager
	alone      *plainAlertmanager
	advice     *adviser
	scraper    *engine.Client
	gather     *enrich.Gatherer
	fold       *fold.Fold
	board      *fold.Board
	now        time.Time
	seq        uint64

	alerts     int
	firstAlert time.Time
	truths     []*truth
	verdicts   map[state.IncidentID]state.Cause
	misled     []string
	harmful    []string
	paged      map[state.IncidentID]bool
	trace      strings.Builder
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

// trialCluster names the lab's cluster. trialScrapes is the bot's default interval of scrapes.
const (
	trialCluster = "default"
	trialScrapes = 15 * time.Second
)

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
func trialOf(kind, name string, seed uint64, scenarios []lab.Scenario, o Options) (*trial, error) {
	known, err := signals.LoadSignals()
	if err != nil {
		return nil, fmt.Errorf("signals: %w", err)
	}
	catalog, library, err := service.LoadKnowledge(config.Default())
	if err != nil {
		return nil, err
	}
	router, err := notify.NewRouter(nil,
		[]state.Channel{state.ChannelPagerDuty, state.ChannelSlack, state.ChannelConsole})
	if err != nil {
		return nil, fmt.Errorf("routes: %w", err)
	}
	t := &trial{kind: kind, name: name, seed: seed, manager: alerting.NewAlertmanager(alerting.AlertmanagerConfig{}),
		alone:  newPlainAlertmanager(o.Kind),
		advice: &adviser{catalog, library}, board: fold.NewBoard(),
		fold: &fold.Fold{Triage: rules.Rules{Catalog: catalog}, Routing: router,
			Settings: config.Default().Settings()},
		verdicts: map[state.IncidentID]state.Cause{}, misled: []string{}, harmful: []string{},
		paged: map[state.IncidentID]bool{}}
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
	t.now = t.pools[0].fleet.Start()
	t.scraper = engine.New(engine.Config{Signals: known, Interval: trialScrapes, Clock: trialClock{t},
		Timeout: time.Minute, Transport: t, Discover: t.targets})
	t.gather = enrich.New(enrich.Config{Clusters: map[string]enrich.Cluster{trialCluster: {Engines: t.scraper,
		Kubernetes: LastWords(t.fleets)}}, Signals: known,
		Deadline: time.Minute, Log: slog.New(slog.DiscardHandler)})
	return t, nil
}

func scenariosOf(kind, name string, seed uint64) ([]lab.Scenario, error) {
	switch kind {
	case kindDecoy:
		s, err := lab.NewDecoy(name, seed)
		return []lab.Scenario{s}, err
	case kindDouble:
		d, err := lab.ParseDouble(name)
		if err != nil {
			return nil, err
		}
		return lab.NewDouble(d, seed)
	}
	if err := CheckFault("--faults", name, slices.Concat(lab.Faults(), lab.Decoys())); err != nil {
		return nil, err
	}
	s, err := lab.NewScenario(name, seed)
	return []lab.Scenario{s}, err
}

func (t *trial) addPool(i int, s lab.Scenario) error {
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

// A trialClock is the simulated time of a trial. Nothing in a trial waits.
type trialClock struct{ *trial }

// Now returns the simulated time.
func (c trialClock) Now() time.Time { return c.now }

// After returns nil: nothing in a trial waits.
func (trialClock) After(time.Duration) <-chan time.Time { return nil }

// RoundTrip answers a scrape with the page of the addressed fleet.
func (t *trial) RoundTrip(r *http.Request) (*http.Response, error) {
	for _, p := range t.pools {
		if p.host == r.URL.Host {
			rec := httptest.NewRecorder()
			p.fleet.Handler(lab.HandlerConfig{TargetLabels: true}).ServeHTTP(rec, r)
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
	for t.now = start.Add(t.watched); t.now.Before(start.Add(t.begin)) &&
		ctx.Err() == nil; t.now = t.now.Add(sparsely) {
		for _, p := range t.pools {
			p.fleet.Advance(t.now)
		}
		t.scraper.Scrape(ctx)
	}
	for beat := 0; !t.now.After(end); beat++ {
		if err := ctx.Err(); err != nil {
			return TrialResult{}, err
		}
		for _, p := range t.pools {
			p.fleet.Advance(t.now)
		}
		if beat%int(trialScrapes/alerting.ScrapeInterval) == 0 {
			t.scraper.Scrape(ctx)
		}
		if err := t.evaluate(); err != nil {
			return TrialResult{}, err
		}
		if due, cluster := t.board.NextDue(); !due.IsZero() && !due.After(t.now) {
			t.apply(state.Input{Cluster: cluster})
		}
		t.answer(ctx)
		t.look()
		if t.enough > 0 && t.settled() {
			break
		}
		t.now = t.now.Add(alerting.ScrapeInterval)
	}
	return t.result(), nil
}

// evaluate evaluates every pool's rules, and sends the same alerts to both Alertmanagers.
func (t *trial) evaluate() error {
	var alerts []alerting.Alert
	for _, p := range t.pools {
		fired := p.ruler.Evaluate()
		p.alerted = p.alerted || len(fired) > 0
		alerts = append(alerts, fired...)
	}
	t.alone.receive(t.now, alerts)
	t.manager.Receive(t.now, alerts)
	return t.deliver()
}

// settled reports whether every fault was named long enough ago.
func (t *trial) settled() bool {
	return !slices.ContainsFunc(t.truths, func(x *truth) bool { return x.at.IsZero() || t.now.Sub(x.at) < t.enough })
}

// deliver decodes due notifications with the webhook's own decoder, and applies them.
func (t *trial) deliver() error {
	for _, n := range t.manager.Due(t.now) {
		body, err := json.Marshal(n.Webhook)
		if err != nil {
			return fmt.Errorf("encoding the webhook: %w", err)
		}
		p, err := alertmanager.Decode(body, []string{trialCluster}, t.now)
		if err != nil {
			return fmt.Errorf("decoding the webhook: %w", err)
		}
		for _, in := range p.Inputs {
			t.alerts += len(in.Alerts.Alerts)
			if t.firstAlert.IsZero() {
				t.firstAlert = t.now
			}
			t.apply(in)
		}
		t.manager.Sent(n, t.now)
	}
	return nil
}

func (t *trial) apply(in state.Input) {
	t.seq++
	in.Seq, in.At = t.seq, t.now
	t.fold.Apply(t.board, in)
}

// answer handles due effects: it gathers evidence, and accepts every message.
func (t *trial) answer(ctx context.Context) {
	for _, e := range t.board.Due(t.now) {
		out := state.Outcome{Effect: e.ID, Turn: e.Turn, Done: true}
		switch e.Kind {
		case state.EffectEnrich:
			t.enrich(ctx, e.Incident)
		case state.EffectNotify:
			out.Rev = e.Want
			t.paged[e.Incident] = t.paged[e.Incident] || e.Channel == state.ChannelPagerDuty
		}
		t.apply(state.Input{Cluster: e.Cluster, Outcome: &out})
	}
}

func (t *trial) enrich(ctx context.Context, id state.IncidentID) {
	list := t.board.Incidents()
	i := slices.IndexFunc(list, func(in state.Incident) bool { return in.ID == id })
	if i < 0 || !list[i].Open() {
		return
	}
	in := list[i]
	ev := t.gather.Gather(ctx, enrich.Request{Incident: id, Cluster: in.Cluster, Scope: in.Scope, Onset: in.StartedAt,
		Now: t.now, Jobs: enrich.JobsOf(in)})
	t.apply(state.Input{Cluster: in.Cluster, Evidence: &ev})
}
