package main

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

	"paramedic/lab"
	"paramedic/notify"
	"paramedic/rules"
	"paramedic/rules/enrich"
	"paramedic/rules/enrich/engine"
	"paramedic/state"
	"paramedic/webhook"
)

// A played is what came of one fault on one seed.
type played struct {
	Fault   string   `json:"fault"`
	Seed    uint64   `json:"seed"`
	Outcome string   `json:"outcome"` // right, unknown, silent, or the wrong cause
	Misled  []string `json:"misled"`  // wrong causes that were named on the way
	// ToDiagnosis is the simulated time from the first alert to the right verdict; zero where there was none.
	ToDiagnosis time.Duration `json:"to_diagnosis_ns"`
	Alerts      int           `json:"alerts"`
	Incidents   int           `json:"incidents"` // not merged into others
	Pages       int           `json:"pages"`

	trace string // every verdict, for people who look into a run
}

// A trial is a scenario with the bot's own parts around it, on simulated time and in one goroutine: nothing is listened on.
type trial struct {
	fault   string
	seed    uint64
	length  time.Duration
	enough  time.Duration // it ends so long after the right verdict; zero: at the scenario's end
	fleet   *lab.Fleet
	ruler   *lab.Ruler
	manager *lab.Alertmanager
	scraper *engine.Client
	gather  *enrich.Gatherer
	fold    *state.Fold
	board   *state.Board
	now     time.Time
	seq     uint64

	alerts     int
	firstAlert time.Time
	rightAt    time.Time
	verdicts   map[state.IncidentID]state.Cause
	misled     []string
	paged      map[state.IncidentID]bool
	trace      strings.Builder
}

// trialCluster is the name of the lab's cluster; trialScrapes is how often the bot reads pages by itself unless it is told otherwise.
const (
	trialCluster = "default"
	trialScrapes = 15 * time.Second
)

func newTrial(fault string, seed uint64) (*trial, error) {
	scenario, err := lab.NewScenario(fault, seed)
	if err != nil {
		return nil, err
	}
	fleet, err := scenario.Build()
	if err != nil {
		return nil, fmt.Errorf("building the fleet: %w", err)
	}
	signals, err := rules.LoadSignals()
	if err != nil {
		return nil, fmt.Errorf("signals: %w", err)
	}
	catalog, _, err := loadKnowledge(DefaultConfig())
	if err != nil {
		return nil, err
	}
	router, err := notify.NewRouter(nil, []state.Channel{state.ChannelPagerDuty, state.ChannelSlack, state.ChannelConsole})
	if err != nil {
		return nil, fmt.Errorf("routes: %w", err)
	}
	t := &trial{fault: fault, seed: seed, length: scenario.Length, fleet: fleet, ruler: lab.NewRuler(fleet, ""),
		manager: lab.NewAlertmanager(lab.AlertmanagerConfig{}), board: state.NewBoard(),
		fold:     &state.Fold{Triage: catalog, Routing: router, Settings: DefaultConfig().settings()},
		verdicts: map[state.IncidentID]state.Cause{}, misled: []string{}, paged: map[state.IncidentID]bool{}}
	t.now = fleet.Start()
	t.scraper = engine.New(engine.Config{Signals: signals, Interval: trialScrapes, Clock: trialClock{t}, Timeout: time.Minute,
		Transport: inProcess{fleet.Handler(lab.HandlerConfig{TargetLabels: true})},
		Discover:  func() []engine.Target { return demoTargets(fleet, "http://fleet.lab") }})
	t.gather = enrich.New(enrich.Config{Clusters: map[string]enrich.Cluster{trialCluster: {Engines: t.scraper}}, Signals: signals,
		Deadline: time.Minute, Log: slog.New(slog.DiscardHandler)})
	return t, nil
}

// trialClock is the trial's time. Nothing in a trial waits.
type trialClock struct{ *trial }

// Now is the simulated time.
func (c trialClock) Now() time.Time { return c.now }

// After never comes: a trial has nobody who waits.
func (trialClock) After(time.Duration) <-chan time.Time { return nil }

// inProcess answers HTTP requests with a handler.
type inProcess struct{ handler http.Handler }

// RoundTrip is part of http.RoundTripper.
func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	p.handler.ServeHTTP(rec, r)
	return rec.Result(), nil
}

// play plays the scenario to its end. Like the demo it sees little of the healthy pool before.
func (t *trial) play(ctx context.Context) (played, error) {
	end := t.fleet.Start().Add(t.length)
	t.now = t.fleet.Start().Add(5*time.Minute - healthyShown)
	for beat := 0; !t.now.After(end); beat++ {
		if err := ctx.Err(); err != nil {
			return played{}, err
		}
		t.fleet.Advance(t.now)
		if beat%int(trialScrapes/lab.ScrapeInterval) == 0 {
			t.scraper.Scrape(ctx)
		}
		t.manager.Receive(t.now, t.ruler.Evaluate())
		if err := t.deliver(); err != nil {
			return played{}, err
		}
		if due, cluster := t.board.NextDue(); !due.IsZero() && !due.After(t.now) {
			t.apply(state.Input{Cluster: cluster})
		}
		t.answer(ctx)
		t.look()
		if t.enough > 0 && !t.rightAt.IsZero() && t.now.Sub(t.rightAt) >= t.enough {
			break
		}
		t.now = t.now.Add(lab.ScrapeInterval)
	}
	return t.result(), nil
}

// deliver gives what Alertmanager has due to the webhook's own decoder.
func (t *trial) deliver() error {
	for _, n := range t.manager.Due(t.now) {
		body, err := json.Marshal(n.Webhook)
		if err != nil {
			return fmt.Errorf("encoding the webhook: %w", err)
		}
		inputs, err := webhook.DecodeAlertmanager(body, []string{trialCluster}, t.now)
		if err != nil {
			return fmt.Errorf("decoding the webhook: %w", err)
		}
		for _, in := range inputs {
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

// answer does what is due: it gathers evidence, and takes every message.
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
	var symptoms []state.Symptom
	for _, s := range in.Symptoms {
		symptoms = append(symptoms, s.Symptom)
	}
	ev := t.gather.Gather(ctx, enrich.Request{Incident: id, Cluster: in.Cluster, Scope: in.Scope, Symptoms: symptoms, Onset: in.StartedAt, Now: t.now})
	t.apply(state.Input{Cluster: in.Cluster, Evidence: &ev})
}

// look notes what every incident is called now.
func (t *trial) look() {
	for _, in := range t.board.Incidents() {
		if in.DiagnosedAt.IsZero() || t.verdicts[in.ID] == in.Cause() {
			continue
		}
		t.verdicts[in.ID] = in.Cause()
		fmt.Fprintf(&t.trace, "  %s #%d %s\n", t.now.Sub(t.fleet.Start()), in.Number, traceOf(&in))
		switch cause := string(in.Cause()); {
		case cause == t.fault && t.rightAt.IsZero():
			t.rightAt = t.now
		case cause != t.fault && t.wrong(cause) && !slices.Contains(t.misled, cause):
			t.misled = append(t.misled, cause)
		}
	}
}

// wrong says whether a cause that is not the fault's says something false: that nothing is known says nothing false.
func (t *trial) wrong(cause string) bool { return cause != t.fault && cause != string(state.Unknown) }

func (t *trial) result() played {
	p := played{Fault: t.fault, Seed: t.seed, Alerts: t.alerts, Misled: t.misled}
	wrong := ""
	for _, in := range t.board.Incidents() {
		if t.paged[in.ID] {
			p.Pages++
		}
		fmt.Fprintf(&t.trace, "  end #%d %s\n", in.Number, traceOf(&in))
		if in.MergedInto != "" {
			continue
		}
		p.Incidents++
		switch cause := string(in.Cause()); {
		case cause == t.fault:
			p.Outcome = "right"
		case t.wrong(cause):
			wrong = cause
		}
	}
	switch {
	case p.Alerts == 0:
		p.Outcome = "silent"
	case wrong != "":
		p.Outcome = wrong
	case p.Outcome == "":
		p.Outcome = string(state.Unknown)
	}
	if !t.rightAt.IsZero() && !t.firstAlert.IsZero() {
		p.ToDiagnosis = t.rightAt.Sub(t.firstAlert)
	}
	p.Misled = slices.DeleteFunc(p.Misled, func(cause string) bool { return cause == p.Outcome })
	p.trace = t.trace.String()
	return p
}

// traceOf shows an incident's verdict with its sum.
func traceOf(in *state.Incident) string {
	var b strings.Builder
	d := in.Diagnosis
	merged := ""
	if in.MergedInto != "" {
		merged = " (merged)"
	}
	fmt.Fprintf(&b, "%s %+g dB, margin %g: %s%s [", d.Cause, d.Score, d.Margin, in.Title, merged)
	for _, s := range in.Symptoms {
		fmt.Fprintf(&b, " %s", s.Symptom)
	}
	fmt.Fprintf(&b, " ] prior %+g", d.Prior)
	for _, f := range d.Findings {
		fmt.Fprintf(&b, "\n      %+5g  %s", f.Weight, f.Text)
	}
	for _, a := range d.Alternatives {
		fmt.Fprintf(&b, "\n      next: %s %+g dB; %s", a.Cause, a.Score, a.WouldWinIf)
	}
	return b.String()
}
