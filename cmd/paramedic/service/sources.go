package service

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"paramedic/cmd/paramedic/config"
	"paramedic/cmd/paramedic/tracing"
	"paramedic/notify"
	"paramedic/notify/pagerduty"
	"paramedic/notify/slack"
	"paramedic/remediate/cluster"
	"paramedic/remediate/kube"
	"paramedic/rules/enrich"
	"paramedic/rules/enrich/alertmanager"
	"paramedic/rules/enrich/engine"
	"paramedic/rules/enrich/kubernetes"
	"paramedic/rules/enrich/prometheus"
	"paramedic/rules/enrich/traces"
	"paramedic/rules/signals"
	"paramedic/state"
	"paramedic/webhook/access"
)

// GathererDeps holds what a gatherer needs besides the configuration.
type GathererDeps struct {
	Clock  state.Clock
	Logger *slog.Logger
	// Interval is the interval of direct scrapes. Zero: the default.
	Interval time.Duration
	// Discover returns the pages of the default cluster. Nil: those of the configuration.
	Discover func() []engine.Target
	// Status stands in for the default cluster's API server if the configuration has none. Nil:
	// there is no replacement.
	Status enrich.Source
}

// NewGatherer creates the readers of evidence, and returns the clients that scrape in the
// background.
func NewGatherer(cfg config.Config, deps GathererDeps) (*enrich.Gatherer, []*engine.Client, error) {
	known, err := signals.LoadSignals()
	if err != nil {
		return nil, nil, fmt.Errorf("signals: %w", err)
	}
	if deps.Clock == nil {
		deps.Clock = state.SystemClock{}
	}
	clusters := map[string]enrich.Cluster{}
	var scrapers []*engine.Client
	for i, c := range cfg.Clusters {
		var out enrich.Cluster
		if c.Prometheus.URL != "" {
			prom, err := prometheus.New(prometheus.Config{URL: c.Prometheus.URL,
				Token: secretReader(c.Prometheus.BearerTokenFile), Headers: c.Prometheus.Headers, Match: c.Prometheus.Match})
			if err != nil {
				return nil, nil, fmt.Errorf("cluster %s: prometheus: %w", c.Name, err)
			}
			out.Prometheus = prom
		}
		discover := deps.Discover
		if i > 0 {
			discover = nil
		}
		if len(c.Engines) > 0 || discover != nil {
			var targets []engine.Target
			for _, url := range c.Engines {
				targets = append(targets, engine.Target{URL: url})
			}
			scraper := engine.New(engine.Config{Targets: targets, Discover: discover, Signals: known,
				Clock: deps.Clock, Log: deps.Logger, Interval: deps.Interval})
			scrapers = append(scrapers, scraper)
			out.Engines = scraper
		}
		if c.Kubernetes != nil {
			reader, err := kubernetes.Connect(c.Kubernetes.Kubeconfig, c.Kubernetes.Context)
			if err != nil {
				return nil, nil, fmt.Errorf("cluster %s: kubernetes: %w", c.Name, err)
			}
			out.Kubernetes = reader
		}
		if out.Traces, err = traceSource(c); err != nil {
			return nil, nil, err
		}
		if i == 0 && out.Kubernetes == nil {
			out.Kubernetes = deps.Status
		}
		clusters[c.Name] = out
	}
	return enrich.New(enrich.Config{Clusters: clusters, Signals: known, Log: deps.Logger}), scrapers, nil
}

// secretReader returns a function that reads the file or environment variable of a key. It returns
// nil if the key is empty.
func secretReader(ref string) func() (string, error) {
	if ref == "" {
		return nil
	}
	return access.NewSecret(ref).Value
}

// traceSource returns the reader of a cluster's traces, or nil if it has none.
func traceSource(c config.ClusterConfig) (enrich.Source, error) {
	if c.Traces.TempoURL == "" && c.Traces.JaegerURL == "" {
		return nil, nil
	}
	client, err := traces.New(traces.Config{TempoURL: c.Traces.TempoURL, JaegerURL: c.Traces.JaegerURL,
		Token: secretReader(c.Traces.BearerTokenFile), Headers: c.Traces.Headers})
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", c.Name, err)
	}
	return client, nil
}

// sources creates the service's readers of evidence, and their background work.
func (s *Service) sources() error {
	gather, scrapers, err := NewGatherer(s.cfg, GathererDeps{Clock: s.deps.Clock, Logger: s.deps.Logger,
		Interval: s.deps.ScrapeEvery, Discover: s.deps.Scrape, Status: s.deps.Status})
	if err != nil {
		return err
	}
	s.gather = gather
	for _, scraper := range scrapers {
		s.background = append(s.background, func(ctx context.Context) error {
			scraper.Run(ctx)
			return nil
		})
	}
	for _, c := range s.cfg.Clusters {
		if c.Alertmanager.URL == "" {
			continue
		}
		am, err := alertmanager.New(alertmanager.Config{URL: c.Alertmanager.URL})
		if err != nil {
			return fmt.Errorf("cluster %s: alertmanager: %w", c.Name, err)
		}
		s.background = append(s.background, func(ctx context.Context) error {
			s.reconcile(ctx, c.Name, am)
			return nil
		})
	}
	return nil
}

// reconcileEvery is the interval of asking Alertmanager for its alerts. It may be long: it only
// ends alerts whose resolution was lost.
const reconcileEvery = time.Minute

// An alert has vanished if Alertmanager lacks it for vanishedFor. After a restart it has none until
// Prometheus sends them again, which it does each minute.
const vanishedFor = 2 * time.Minute

// reconcile ends alerts that Alertmanager dropped without a resolution.
func (s *Service) reconcile(ctx context.Context, cluster string, am *alertmanager.Client) {
	missing := map[state.Fingerprint]time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.deps.Clock.After(reconcileEvery):
		}
		if !s.active() {
			clear(missing)
			continue // the active bot asks
		}
		if err := s.endVanished(ctx, cluster, am, missing); err != nil && ctx.Err() == nil {
			s.deps.Logger.WarnContext(ctx, "cannot ask Alertmanager for alerts without a resolved message", "cluster", cluster, "err", err)
		}
	}
}

// endVanished records alerts that fire here and have been missing in Alertmanager for vanishedFor,
// and those that it holds without reporting them, before they become stale. It asks only while
// alerts fire, and records nothing else, because the log keeps every input. missing holds since
// when each is missing.
func (s *Service) endVanished(ctx context.Context, cluster string, am *alertmanager.Client, missing map[state.Fingerprint]time.Time) error {
	firing := s.Keeper.Firing(cluster)
	if len(firing) == 0 {
		clear(missing)
		return nil
	}
	asked := s.deps.Clock.Now()
	present, err := am.Present(ctx)
	if err != nil {
		return fmt.Errorf("asking Alertmanager for its alerts: %w", err)
	}
	since := maps.Clone(missing)
	clear(missing)
	said := state.Vanished{At: asked}
	quiet := s.cfg.Settings().StaleAfter / 2
	for fp, reported := range firing {
		if _, found := slices.BinarySearch(present, fp); found {
			if asked.Sub(reported) > quiet && len(said.Held) < state.MaxHeld {
				said.Held = append(said.Held, fp)
			}
			continue
		}
		first, known := since[fp]
		if !known {
			first = asked
		}
		missing[fp] = first
		if asked.Sub(first) >= vanishedFor {
			said.Fingerprints = append(said.Fingerprints, fp)
		}
	}
	if len(said.Fingerprints)+len(said.Held) == 0 {
		return nil
	}
	return s.Keeper.Append(ctx, state.Input{Cluster: cluster, Vanished: &said})
}

// kubeClusters connects to the clusters that first aid may write to. Their service accounts decide
// what it may do.
func kubeClusters(cfg config.Config, log *slog.Logger) (map[string]cluster.Cluster, error) {
	out := map[string]cluster.Cluster{}
	for _, c := range cfg.Clusters {
		if c.Kubernetes == nil {
			continue
		}
		cluster, err := kube.Connect(c.Kubernetes.Kubeconfig, c.Kubernetes.Context,
			kube.Options{Logger: log, Account: c.Kubernetes.FirstAidAccount, MayWrite: state.StillHeld})
		if err != nil {
			return nil, fmt.Errorf("cluster %s: kubernetes: %w", c.Name, err)
		}
		out[c.Name] = cluster
	}
	return out, nil
}

// PingAlertmanagers asks every cluster's Alertmanager whether it answers. It returns the results by
// "cluster/alertmanager".
func PingAlertmanagers(ctx context.Context, cfg config.Config) map[string]error {
	var mu sync.Mutex
	var wg sync.WaitGroup
	out := map[string]error{}
	for _, c := range cfg.Clusters {
		if c.Alertmanager.URL == "" {
			continue
		}
		wg.Go(func() {
			am, err := alertmanager.New(alertmanager.Config{URL: c.Alertmanager.URL})
			if err == nil {
				err = am.Ping(ctx)
			}
			mu.Lock()
			defer mu.Unlock()
			out[c.Name+"/alertmanager"] = err
		})
	}
	wg.Wait()
	return out
}

// PingChannels probes the channels without posting or paging, and the collector of traces.
func PingChannels(ctx context.Context, cfg config.Config) []notify.Probe {
	var out []notify.Probe
	if n := cfg.Notify.Slack; n.TokenFile != "" {
		notifier := slack.New(slack.Config{TokenFile: n.TokenFile, SigningSecretFile: n.SigningSecretFile,
			Channel: n.Channel, APIURL: n.APIURL},
			slack.Options{Clock: state.SystemClock{}, Token: access.NewSecret(n.TokenFile).Value})
		out = notifier.Probe(ctx, access.NewSecret(n.SigningSecretFile).Value)
	}
	if n := cfg.Notify.PagerDuty; n.RoutingKeyFile != "" {
		pager := pagerduty.New(n.Notifier(),
			pagerduty.Options{Clock: state.SystemClock{}, RoutingKey: access.NewSecret(n.RoutingKeyFile).Value,
				APIToken: access.NewSecret(n.APITokenFile).Value})
		out = append(out, pager.Probe(ctx, access.NewSecret(n.WebhookSecretFile).Value)...)
	}
	if cfg.Tracing.Endpoint != "" {
		out = append(out, notify.Probe{What: "tracing", Err: tracing.Ping(ctx, tracingOf(cfg, nil))})
	}
	return out
}
