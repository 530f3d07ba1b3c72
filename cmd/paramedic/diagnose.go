package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"paramedic/cmd/paramedic/config"
	"paramedic/cmd/paramedic/service"
	"paramedic/cmd/paramedic/survey"
	"paramedic/internal/text"
	"paramedic/rules/enrich/engine"
	"paramedic/rules/health"
)

// A diagnosis holds the flags of diagnose.
type diagnosis struct {
	*cli
	prometheus, kubeconfig, model, at string
	tempo, jaeger                     string
	engines                           []string
	watch                             time.Duration
}

func (c *cli) diagnoseCommand() *cobra.Command {
	d := &diagnosis{cli: c}
	cmd := &cobra.Command{
		Use:   "diagnose (--prometheus URL | --engine URL…)",
		Short: "Diagnose a live fleet once, without installing anything",
		Long: "Read the metrics of a live fleet once, and print what is wrong and why. The command only reads.\n" +
			"With --engine it scrapes the pages for 20s (--watch), because a rate needs two scrapes.\n" +
			"Exit code 0: healthy; 2: something is wrong; 1: the diagnosis failed.",
		Example: "  paramedic diagnose --prometheus http://127.0.0.1:9090 --model llama-70b\n" +
			"  paramedic diagnose --engine http://10.0.0.1:8000/metrics --engine http://10.0.0.2:8000/metrics",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&d.prometheus, "prometheus", "", "base `URL` of a Prometheus-compatible query API")
	f.StringArrayVar(&d.engines, "engine", nil, "`URL` of a /metrics page (one flag for each page)")
	f.StringVar(&d.tempo, "tempo", "", "also read traces from this Tempo (base `URL`)")
	f.StringVar(&d.jaeger, "jaeger", "", "also read traces from this Jaeger (base `URL`)")
	f.StringVar(&d.kubeconfig, "kubeconfig", "", "also read from Kubernetes with this kubeconfig `file`")
	f.StringVar(&d.model, "model", "", "diagnose only pools that serve this `model`")
	f.StringVar(&d.at, "at", "", "diagnose this `time` in the past (RFC 3339), such as 2026-11-21T03:00:00Z; needs --prometheus")
	f.DurationVar(&d.watch, "watch", 20*time.Second, "`time` to scrape the pages of --engine, at least 1s")
	cmd.MarkFlagsMutuallyExclusive("prometheus", "engine")
	cmd.MarkFlagsMutuallyExclusive("tempo", "jaeger")
	return cmd
}

func (d *diagnosis) run(ctx context.Context) error {
	cfg := config.Default()
	cluster := &cfg.Clusters[0]
	cluster.Prometheus.URL, cluster.Engines = d.prometheus, d.engines
	cluster.Traces.TempoURL, cluster.Traces.JaegerURL = d.tempo, d.jaeger
	if d.kubeconfig != "" {
		cluster.Kubernetes = &config.KubernetesConfig{Kubeconfig: d.kubeconfig}
	}
	now := time.Now().UTC()
	if err := d.addresses(); err != nil {
		return err
	}
	switch {
	case d.prometheus == "" && len(d.engines) == 0:
		return errors.New("no source of metrics: use --prometheus URL, or --engine URL for each engine")
	case d.at != "" && d.prometheus == "":
		return errors.New("--at needs --prometheus: the page of an engine has no past")
	case d.prometheus == "" && d.watch < time.Second:
		return fmt.Errorf("--watch %s is too short: a rate needs two scrapes, at least 1s apart", d.watch)
	case d.at != "":
		at, err := time.Parse(time.RFC3339, d.at)
		if err != nil {
			return fmt.Errorf("--at %q is not a time in RFC 3339, such as 2026-11-21T03:00:00Z", d.at)
		}
		now = at.UTC()
	}
	catalog, library, err := service.LoadKnowledge(cfg)
	if err != nil {
		return err
	}
	gather, scrapers, err := service.NewGatherer(cfg, service.GathererDeps{Logger: d.quietLogger(), Interval: time.Second})
	if err != nil {
		return err
	}
	if len(scrapers) > 0 {
		if err := d.observe(ctx, scrapers); err != nil {
			return err
		}
		now = time.Now().UTC()
	}
	look := survey.Survey{Gather: gather, Catalog: catalog, Library: library, Cluster: cluster.Name, Now: now}
	for _, s := range scrapers {
		look.Unread = append(look.Unread, s.Problems()...)
	}
	found, err := look.Run(ctx, d.model)
	if err != nil && d.prometheus != "" {
		if away := gather.Ping(ctx)[cluster.Name+"/prometheus"]; away != nil {
			return survey.Unreachable(d.prometheus, away)
		}
	}
	if err != nil {
		return err
	}
	if err := d.print(found); err != nil {
		return err
	}
	switch {
	case found.Found:
		return errFinding
	case !slices.ContainsFunc(found.Pools, func(p health.Pool) bool { return p.Overall != health.Unknown }):
		return errors.New("no pool reports enough metrics to rate its health; the lines above name what is missing")
	}
	return nil
}

// addresses refuses invalid URLs before the survey begins.
func (d *diagnosis) addresses() error {
	for _, base := range []struct{ flag, url, example string }{
		{"prometheus", d.prometheus, "http://prometheus:9090"}, {"tempo", d.tempo, "http://tempo:3200"}, {"jaeger", d.jaeger,
			"http://jaeger:16686"},
	} {
		if base.url == "" {
			continue
		}
		if err := survey.CheckURL(base.flag, base.url, base.example); err != nil {
			return err
		}
	}
	for _, e := range d.engines {
		if err := survey.CheckURL("engine", e, "http://10.0.0.1:8000/metrics"); err != nil {
			return err
		}
	}
	return nil
}

// observe scrapes the engines for the time of --watch, and prints that it does.
func (d *diagnosis) observe(ctx context.Context, scrapers []*engine.Client) error {
	fmt.Fprintf(d.err, "scraping %s for %s …\n", text.Count(len(d.engines), "page"), d.watch)
	return survey.Watch(ctx, scrapers, d.watch)
}
