package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"paramedic/cmd/paramedic/config"
	"paramedic/cmd/paramedic/tracing"
	"paramedic/internal/incidentlog"
	"paramedic/notify"
	"paramedic/playbooks"
	"paramedic/remediate"
	"paramedic/remediate/cluster"
	"paramedic/remediate/guard"
	"paramedic/remediate/policy"
	"paramedic/rules"
	"paramedic/rules/catalog"
	"paramedic/rules/enrich"
	"paramedic/rules/enrich/engine"
	"paramedic/state"
	"paramedic/state/fold"
	"paramedic/state/keeper"
	"paramedic/state/outbox"
	"paramedic/webhook/access"
	"paramedic/webhook/alertmanager"
)

// Deps holds what a service needs and does not create itself.
type Deps struct {
	Store  state.Store
	Clock  state.Clock
	Logger *slog.Logger
	Out    io.Writer // the console notifier's
	// Clusters replaces the clusters that first aid writes to. Nil: those of the configuration.
	Clusters map[string]cluster.Cluster
	Timing   policy.Timing
	// Scrape returns the pages to scrape. Nil: those of the configuration.
	Scrape func() []engine.Target
	// Status stands in for the default cluster's API server if the configuration has none. Nil:
	// there is no replacement.
	Status enrich.Source
	// ScrapeEvery is the interval of direct scrapes. Zero: the default.
	ScrapeEvery time.Duration
	Colour      bool

	loadKnowledge knowledgeLoader // of the first configuration; nil: LoadKnowledge

	// These survive a reload: counters, alerts that were set aside, and logins. Nil: new ones.
	metrics  *metrics
	aside    *alertmanager.Aside
	sessions *access.Sessions
}

// A Service is the wired bot for one configuration. A changed configuration gets a new Service on
// the same store.
type Service struct {
	Handler http.Handler // all requests: webhooks, API, pages, metrics
	Keeper  *keeper.Keeper
	Library *playbooks.Library

	cfg     config.Config
	deps    Deps
	catalog *catalog.Catalog
	gather  *enrich.Gatherer
	outbox  *outbox.Dispatcher
	lease   state.Lease // nil: no other process works on the store
	tls     *tls.Config // nil: the listener has none
	metrics *metrics
	tracer  *tracing.Tracer // nil: there are no traces
	tokens  *access.Tokens  // nil: the API asks for none

	fleetCache   fleetCache
	background   []func(ctx context.Context) error
	closeStreams func()
}

// New wires a service. It reads the files that the configuration names, and does no other I/O.
func New(cfg config.Config, deps Deps) (*Service, error) {
	deps.Logger = slog.New(incidentlog.Handler{Handler: deps.Logger.Handler()})
	s := &Service{cfg: cfg, deps: deps, metrics: deps.metrics}
	if s.metrics == nil {
		s.metrics = newMetrics()
	}
	if s.deps.aside == nil {
		s.deps.aside = &alertmanager.Aside{}
	}
	if err := s.wire(cfg, deps); err != nil {
		return nil, errors.Join(err, s.tracer.Close(context.Background()))
	}
	return s, nil
}

// wire is one straight line, so that dependencies read from top to bottom.
func (s *Service) wire(cfg config.Config, deps Deps) error {
	var err error
	load := deps.loadKnowledge
	if load == nil {
		load = LoadKnowledge
	}
	if s.catalog, s.Library, err = load(cfg); err != nil {
		return err
	}
	router, err := NewRouter(cfg)
	if err != nil {
		return err
	}
	if s.tracer, err = tracing.New(context.Background(), tracingOf(cfg, deps.Logger)); err != nil {
		return err
	}
	s.lease, _ = deps.Store.(state.Lease)
	s.Keeper = keeper.New(keeper.Config{
		Store: deps.Store, Clock: deps.Clock, Logger: deps.Logger, Lease: s.lease,
		Fold: &fold.Fold{Triage: Knowledge{rules.Rules{Catalog: s.catalog}, s.Library}, Routing: router,
			Settings: cfg.Settings(), Titles: titlesOf(s.catalog).Symptoms},
		Published: func(entries []state.Entry) { s.metrics.recorded(s.Keeper, entries) },
		Traced:    s.tracer.Applied(func(id state.IncidentID) (state.Incident, bool) { return s.Keeper.Incident(id) }),
	})
	if err := s.sources(); err != nil {
		return err
	}
	clusters := deps.Clusters
	if clusters == nil {
		if clusters, err = kubeClusters(cfg, deps.Logger); err != nil {
			return err
		}
	}
	first := cfg.Remediation(deps.Timing)
	first.SelfNamespace = ownNamespace()
	aid, err := remediate.New(remediate.Config{
		Site: guard.Site{Rules: first, View: s.Keeper, Clusters: clusters, Gauge: gauge{s.gather, deps.Clock},
			Clock: deps.Clock, Titles: s.catalog.Titles(), Observe: s.metrics.decided},
		Playbook: s.Library.For, Logger: deps.Logger,
	})
	if err != nil {
		return fmt.Errorf("first aid: %w", err)
	}
	if cfg.Auth.API.TokensFile != "" {
		if s.tokens, err = access.LoadTokens(cfg.Auth.API.TokensFile); err != nil {
			return err
		}
	}
	told, err := s.notifiers(notify.Links{Base: cfg.BaseURL()})
	if err != nil {
		return err
	}
	s.outbox, err = outbox.New(outbox.Config{
		Source: s.Keeper, Log: s.Keeper, Lease: s.lease, Clock: deps.Clock, Logger: deps.Logger,
		Observe: s.metrics.delivered, Free: told.Free, Busy: s.Keeper.Busy,
		Handlers: s.traced(map[state.EffectKind]outbox.Handler{
			state.EffectPrepare: delivery(enricher{s.gather, s.Keeper, deps.Clock}.prepare),
			state.EffectEnrich:  enricher{s.gather, s.Keeper, deps.Clock},
			state.EffectNotify:  delivery(told.Handle),
			state.EffectNote:    delivery(told.Handle), state.EffectFlood: delivery(told.Handle),
			state.EffectPlan: aid.Plan,
			state.EffectRun:  aid.Run,
		}),
	})
	if err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	if s.Handler, err = s.newHandler(); err != nil {
		return err
	}
	s.Handler = s.tracer.Handler(s.Handler)
	if cfg.TLS.CertFile != "" {
		if s.tls, err = serverTLS(cfg, deps.Logger); err != nil {
			return err
		}
	}
	return nil
}

// active reports whether this process commits and delivers.
func (s *Service) active() bool { return s.lease == nil || s.lease.Held() }

// A resigner is a lease that can be given up before the store closes. *jetstream.Store is one.
type resigner interface{ Resign(ctx context.Context) }

// HandOver ends the deliveries and gives the lease up, so that another replica goes on while this
// one still answers requests. On an embedded store it does nothing. It returns after most at the
// latest.
func (s *Service) HandOver(most time.Duration) {
	l, ok := s.lease.(resigner)
	if !ok || s.lease.Changed() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	s.outbox.HandOver(ctx)
	l.Resign(ctx)
}

// CloseStreams ends the event streams, which otherwise stay open.
func (s *Service) CloseStreams() { s.closeStreams() }

// ownNamespace returns the namespace of the bot's own pod. It is empty outside Kubernetes.
func ownNamespace() string {
	raw, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

// Run runs the service until the context ends, and returns after all its goroutines.
func (s *Service) Run(ctx context.Context) error {
	s.metrics.running.Store(s)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.Keeper.Run(ctx) })
	group.Go(func() error { return s.outbox.Run(ctx) })
	for _, run := range s.background {
		group.Go(func() error { return run(ctx) })
	}
	err := group.Wait()
	s.flush(ctx)
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// An enricher gathers the evidence of incidents.
type enricher struct {
	gather *enrich.Gatherer
	view   state.View
	clock  state.Clock
}

// Deliver gathers evidence. It cannot fail: what it cannot read becomes missing evidence.
func (e enricher) Deliver(ctx context.Context, ef state.Effect) outbox.Result {
	in, ok := e.view.Incident(ef.Incident)
	if !ok || !in.Open() {
		return outbox.Result{Outcome: state.Outcome{Done: true}}
	}
	ev := e.gather.Gather(ctx, e.request(in))
	return outbox.Result{Outcome: state.Outcome{Done: true},
		Inputs: []state.Input{{At: e.clock.Now(), Cluster: in.Cluster, Evidence: &ev}}}
}

// prepare queries ahead of the gathering, unless the gathering is due already.
func (e enricher) prepare(ctx context.Context, ef state.Effect) state.Outcome {
	in, ok := e.view.Incident(ef.Incident)
	if left := in.EnrichAt.Sub(e.clock.Now()); ok && in.Open() && in.DiagnosedAt.IsZero() && left > 0 {
		ctx, cancel := context.WithTimeout(ctx, left)
		defer cancel()
		e.gather.Prepare(ctx, e.request(in))
	}
	return state.Outcome{Done: true}
}

func (e enricher) request(in state.Incident) enrich.Request {
	return enrich.Request{Incident: in.ID, Cluster: in.Cluster, Scope: in.Scope, Onset: in.StartedAt,
		Now: e.clock.Now(), Jobs: enrich.JobsOf(in), Series: enrich.SeriesOf(in)}
}

// A gauge reads signals for first aid.
type gauge struct {
	gather *enrich.Gatherer
	clock  state.Clock
}

// Read reads the current values of signals, with the times of their scrapes.
func (g gauge) Read(ctx context.Context, cluster string, scope state.Scope, onset time.Time,
	signals []string) state.Evidence {
	return g.gather.Gather(ctx, enrich.Request{Cluster: cluster, Scope: scope, Onset: onset, Now: g.clock.Now(),
		Signals: signals, Fresh: true})
}

// A delivery makes a function that returns an outcome an outbox handler.
type delivery func(ctx context.Context, e state.Effect) state.Outcome

// Deliver calls the function.
func (d delivery) Deliver(ctx context.Context, e state.Effect) outbox.Result {
	return outbox.Result{Outcome: d(ctx, e)}
}
