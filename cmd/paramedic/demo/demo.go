package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"paramedic/cmd/paramedic/config"
	"paramedic/cmd/paramedic/score"
	"paramedic/cmd/paramedic/service"
	"paramedic/lab"
	"paramedic/lab/alerting"
	"paramedic/lab/clock"
	"paramedic/lab/drill"
	simulated "paramedic/lab/engine"
	"paramedic/lab/scrape"
	"paramedic/notify/console"
	"paramedic/remediate/cluster"
	"paramedic/remediate/policy"
	"paramedic/rules/enrich/engine"
	"paramedic/state/jetstream"
)

// A Demo is a simulated fleet that breaks, and the real bot that treats it.
type Demo struct {
	Out, Err io.Writer // the console notifier's, and what a person at the terminal reads
	Log      *slog.Logger
	Fault    string
	Engine   string
	Speed    float64
	Headless bool
	Listen   string
	Seed     uint64
}

// timing is shorter than in production, so that a viewer sees the end. Rates and quantiles look
// back five minutes: much earlier, a recovered pool would still show the cost of its rollout.
var timing = policy.Timing{Settle: 4 * time.Minute, Window: 4 * time.Minute, Interval: 15 * time.Second, Samples: 8,
	Poll: 5 * time.Second}

// Run plays the demo until the context ends or, if it is headless, until the story ends.
func (d *Demo) Run(ctx context.Context) error {
	kind, err := simulated.ParseKind(d.Engine)
	if err != nil {
		return fmt.Errorf("--engine: %w", err)
	}
	if d.Listen != "" && !service.OnLoopback(d.Listen) {
		return fmt.Errorf("--listen %s: the demo has no passwords, so use a loopback address of this machine, "+
			"such as 127.0.0.1:8080", d.Listen)
	}
	if err := score.CheckFault("--fault", d.Fault, lab.Faults()); err != nil {
		return err
	}
	scenario, err := drill.New(d.Fault, d.Seed)
	if err != nil {
		return err
	}
	scenario = scenario.As(kind)
	switch {
	case d.Speed == 0 && d.Headless:
		d.Speed = 60
	case d.Speed == 0:
		d.Speed = 15
	}
	if err := score.CheckSpeed(d.Speed); err != nil {
		return err
	}
	scenario.Config.ColdStart = 40 * time.Second
	if d.Fault == lab.KVExhaustion {
		// Under this load the lowered max_num_seqs keeps the latency near an alert's threshold for
		// an hour. The load ends after the first aid is verified, so that people see the incident
		// resolve.
		scenario.Faults[0].For = loadLasts
	}
	fleet, err := scenario.Build()
	if err != nil {
		return fmt.Errorf("building the fleet: %w", err)
	}
	fmt.Fprintf(d.Err, "Four simulated %s workers serve a model of 70 billion parameters. Simulated time is %.0f times "+
		"as fast as real time.\nThe fault: %s\n\n", kind.Title(), d.Speed, scenario.Story)
	begin := fleet.Start().Add(5*time.Minute - score.HealthyShown)
	fleet.Advance(begin)
	clock := clock.New(begin, d.Speed)
	clock.RunUntil(begin, 0) // until the bot is up and the world runs
	return d.play(ctx, scenario, fleet, clock)
}

// loadLasts is the simulated duration of the overload. First aid that is approved at once is
// verified about 18 minutes after the onset.
const loadLasts = 35 * time.Minute

// play runs fleet, monitoring and bot until the context ends, or until the driver of a headless
// demo has seen the end.
func (d *Demo) play(ctx context.Context, scenario drill.Scenario, fleet *lab.Fleet, clock *clock.Clock) error {
	dir, err := os.MkdirTemp("", "paramedic-demo-")
	if err != nil {
		return fmt.Errorf("creating a directory for the demo's state: %w", err)
	}
	defer os.RemoveAll(dir)
	store, err := jetstream.Open(ctx, jetstream.Config{Dir: dir, Retain: 24 * time.Hour, Logger: d.Log})
	if err != nil {
		return fmt.Errorf("opening the state: %w", err)
	}
	defer func() { _ = store.Close(context.WithoutCancel(ctx)) }() // the directory goes with it
	pages, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("serving the fleet's pages: %w", err)
	}
	exporter := &http.Server{Handler: scrape.Handler(fleet, scrape.Config{TargetLabels: true}),
		ReadHeaderTimeout: 5 * time.Second}
	host := service.NewHost()
	cfg := config.Default()
	cfg.Listen = cmp.Or(d.Listen, cfg.Listen)
	if d.Headless {
		cfg.Listen = cmp.Or(d.Listen, "127.0.0.1:0")
	}
	listener, err := host.Listen(cfg, d.Log)
	if err != nil {
		return err
	}
	cfg.PublicURL = "http://" + listener.Addr().String()
	cfg.Remediate.Mode = "approve"
	bot, err := service.New(cfg, service.Deps{Store: store, Clock: clock, Logger: d.Log, Out: d.Out,
		Colour: console.Terminal(d.Out), Timing: timing,
		Clusters: map[string]cluster.Cluster{"default": newFleetCluster(fleet)},
		Scrape: func() []engine.Target {
			return score.Targets(fleet,
				"http://"+pages.Addr().String())
		}, ScrapeEvery: alerting.ScrapeInterval,
		Status: newAPIServer(fleet)})
	if err != nil {
		return err
	}
	host.Use(bot)
	fmt.Fprintf(d.Err, "Incident page: %s\n\n", cfg.PublicURL)
	world := alerting.NewWorld(alerting.AlertmanagerConfig{URL: cfg.PublicURL + "/webhook/alertmanager"}, fleet)
	world.Log = d.Log

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return ignoreClosed(exporter.Serve(pages)) })
	group.Go(func() error { return bot.Run(running) })
	group.Go(func() error { world.Run(running, clock); return nil })
	group.Go(func() error {
		defer stop()
		v := &driver{Demo: d, bot: bot, base: cfg.PublicURL, clock: clock, scenario: scenario}
		return v.watch(running)
	})
	<-running.Done()
	bot.CloseStreams()
	host.Drain(d.Log)
	host.Close(d.Log)
	_ = exporter.Close() // its last answers are not needed
	return group.Wait()
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
