package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"paramedic/cmd/paramedic/score"
	"paramedic/internal/text"
	"paramedic/lab"
	"paramedic/lab/alerting"
	"paramedic/lab/clock"
	"paramedic/lab/drill"
	"paramedic/lab/engine"
	"paramedic/lab/scrape"
	"paramedic/lab/story"
	"paramedic/state"
)

func (c *cli) labCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "lab", Short: "Run a simulated fleet, and send alert storms", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(c.labRunCommand(), c.labStormCommand(), c.labScoreCommand(), c.labRulesCommand(), c.labStoriesCommand())
	return cmd
}

func (c *cli) labRulesCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use: "rules", Short: "Print the alert rules of the lab for a real Prometheus", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			kind, err := engine.ParseKind(name)
			if err != nil {
				return fmt.Errorf("--engine: %w", err)
			}
			raw, err := alerting.PrometheusRules(kind)
			if err != nil {
				return err
			}
			_, err = c.out.Write(raw)
			return err
		},
	}
	cmd.Flags().StringVar(&name, "engine", string(engine.VLLM), score.EngineUsage)
	return cmd
}

func (c *cli) labRunCommand() *cobra.Command {
	var fault, listen, hook string
	var options score.Options
	var seed uint64
	var speed float64
	var after time.Duration
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Serve the /metrics pages of a simulated fleet with a fault",
		Long: "Serve the pages of a simulated fleet, for a Prometheus or a bot to scrape: /worker/POD/metrics,\n" +
			"/dcgm/NODE/metrics and /kube/metrics. If there are two pools, the pool's name comes first:\n" +
			"/POOL/worker/POD/metrics. Prometheus finds the pages at /targets (http_sd_configs, with honor_labels). With\n" +
			"--webhook, the lab also evaluates its own alert rules and sends the alerts as Alertmanager does.\n\nFaults:\n" +
			strings.Join(text.Wrap(strings.Join(lab.Faults(), ", "), 100), "\n") + "\n\nDecoys:\n" +
			strings.Join(text.Wrap(strings.Join(lab.Decoys(), ", "), 100), "\n"),
		Example: "  paramedic lab run --fault kv_exhaustion\n" +
			"  paramedic lab run --fault gpu_fault --webhook http://127.0.0.1:8080/webhook/alertmanager",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := options.Load(); err != nil {
				return err
			}
			if err := score.CheckSpeed(speed); err != nil {
				return err
			}
			if after < 0 {
				return fmt.Errorf("--after is %s: use a time such as 25m", after)
			}
			if cmd.Flags().Changed("webhook") {
				if err := webhookURL("--webhook", hook); err != nil {
					return err
				}
			}
			scenarios, err := labBeginning(fault, seed, after, options)
			if err != nil {
				return err
			}
			var fleets []*lab.Fleet
			for _, s := range scenarios {
				fleet, err := s.Build()
				if err != nil {
					return fmt.Errorf("building the fleet: %w", err)
				}
				fleets = append(fleets, fleet)
			}
			c.announce(scenarios, speed)
			return c.labRun(cmd.Context(), fleets, clock.New(fleets[0].Start(), speed), listen, hook)
		},
	}
	f := cmd.Flags()
	f.StringVar(&fault, "fault", lab.KVExhaustion, "`name` of a fault, FAULT/STORY or a decoy; FAULT+FAULT for two faults in two pools, "+
		"FAULT+FAULT@one for two workers of one pool")
	f.StringVar(&listen, "listen", "127.0.0.1:9400", "`address` of the pages")
	f.StringVar(&hook, "webhook", "", "send alerts to this webhook `URL`")
	f.Uint64Var(&seed, "seed", 1, "`seed` of the traffic")
	f.Float64Var(&speed, "speed", 1, "simulated `seconds` per second; use 1 with a real Prometheus or a bot")
	f.DurationVar(&after, "after", healthyBefore, "simulated `time` until the fault; after 25m a real Prometheus has a baseline for it")
	options.Flags(f)
	return cmd
}

// healthyBefore is the time before the fault of a scenario.
const healthyBefore = 5 * time.Minute

// labBeginning returns the scenarios of [labScenarios], beginning now, with their first fault after
// a time. Clients that scrape the fleets, or receive their alerts, use the machine's clock.
func labBeginning(fault string, seed uint64, after time.Duration, options score.Options) ([]drill.Scenario, error) {
	scenarios, err := labScenarios(fault, seed)
	if err != nil {
		return nil, err
	}
	now := time.Now().UTC().Truncate(time.Second)
	for i, s := range scenarios {
		scenarios[i] = options.Apply(s).Later(after - healthyBefore).Beginning(now)
	}
	return scenarios, nil
}

// announce prints the coming faults and their times on standard error. Standard output has the
// addresses, for programs.
func (c *cli) announce(scenarios []drill.Scenario, speed float64) {
	for _, s := range scenarios {
		for _, f := range s.Faults {
			wait := time.Duration(float64(f.At) / speed).Round(time.Second)
			fmt.Fprintf(c.err, "%s begins in %s, at %s\n", f.Name, state.FormatDuration(wait),
				time.Now().Add(wait).UTC().Format("15:04:05 UTC"))
		}
		fmt.Fprintln(c.err, s.Story)
	}
}

// labScenarios returns the scenarios of a fault, a decoy, or a pair of faults. A pair in two pools
// has two.
func labScenarios(name string, seed uint64) ([]drill.Scenario, error) {
	if strings.Contains(name, "+") {
		d, err := drill.ParseDouble(name)
		if err != nil {
			return nil, fmt.Errorf("--fault: %w", err)
		}
		return drill.NewDouble(d, seed)
	}
	cause, _, _ := strings.Cut(name, "/")
	if err := score.CheckFault("--fault", cause, slices.Concat(lab.Faults(), lab.Decoys())); err != nil {
		return nil, err
	}
	play := story.New
	if slices.Contains(lab.Decoys(), name) {
		play = drill.NewDecoy
	}
	scenario, err := play(name, seed)
	if err != nil {
		return nil, err
	}
	return []drill.Scenario{scenario}, nil
}

// webhookURL returns an error unless raw is an http or https URL.
func webhookURL(flag, raw string) error {
	if u, err := url.Parse(raw); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%s %s is not an http:// or https:// URL such as http://127.0.0.1:8080/webhook/alertmanager", flag,
			strconv.Quote(raw))
	}
	return nil
}

func (c *cli) labRun(ctx context.Context, fleets []*lab.Fleet, clock *clock.Clock, listen, hook string) error {
	pages, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("serving the pages at --listen: %w", err)
	}
	srv := &http.Server{Handler: scrape.Pages(fleets), ReadHeaderTimeout: 5 * time.Second}
	for _, path := range scrape.Paths(fleets) {
		fmt.Fprintf(c.out, "http://%s%s\n", pages.Addr(), path)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return ignoreClosed(srv.Serve(pages)) })
	group.Go(func() error {
		defer srv.Close()
		if hook != "" {
			world := alerting.NewWorld(alerting.AlertmanagerConfig{URL: hook}, fleets...)
			world.Log = c.logger()
			world.Run(ctx, clock)
			return nil
		}
		var running sync.WaitGroup
		for _, f := range fleets {
			running.Go(func() { f.Run(ctx, clock) })
		}
		running.Wait()
		return nil
	})
	if err := group.Wait(); err != nil {
		return fmt.Errorf("serving the pages: %w", err)
	}
	return nil
}

func (c *cli) labStormCommand() *cobra.Command {
	s := score.Storm{}
	cmd := &cobra.Command{
		Use:   "storm",
		Short: "Send many alerts to a webhook, and print how it answered",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.storm(cmd.Context(), s) },
	}
	f := cmd.Flags()
	f.StringVar(&s.URL, "url", "http://127.0.0.1:8080/webhook/alertmanager", "`URL` of the webhook; only on this machine")
	f.StringVar(&s.Token, "token", "", "bearer `token` for the webhook")
	f.IntVar(&s.Alerts, "alerts", 10000, "`number` of alerts")
	f.IntVar(&s.PerPayload, "per-payload", 50, "`number` of alerts in a payload")
	f.IntVar(&s.Senders, "senders", 8, "`number` of payloads in flight")
	f.IntVar(&s.Pods, "pods", 64, "`number` of pods in the alerts' labels")
	return cmd
}

// storm sends the alerts and prints how they were answered.
func (c *cli) storm(ctx context.Context, s score.Storm) error {
	out, err := s.Run(ctx)
	if err != nil {
		return err
	}
	if c.output == "json" {
		if err := c.json(out); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(c.out, "%d of %s accepted, in %s, %.2f s: %.0f alerts/s; a payload took %.1f ms (p50), %.1f ms (p99); %s\n",
			out.Taken, text.Count(out.Alerts, "alert"), text.Count(out.Payloads,
				"payload"), out.Seconds, out.PerSec, out.P50MS, out.P99MS, out.Answers())
	}
	if lost := out.Alerts - out.Taken; lost > 0 {
		return fmt.Errorf("%s not accepted: see the answers above, and the log of the bot at --url", text.Count(lost, "alert"))
	}
	return nil
}
