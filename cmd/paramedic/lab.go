package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"paramedic/internal/text"
	"paramedic/lab"
	"paramedic/lab/alerting"
	"paramedic/state"
)

func (c *cli) labCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "lab", Short: "The simulated fleet, and alert storms", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(c.labRunCommand(), c.labStormCommand(), c.labScoreCommand(), c.labRulesCommand())
	return cmd
}

func (c *cli) labRulesCommand() *cobra.Command {
	var engine string
	cmd := &cobra.Command{
		Use: "rules", Short: "Print the lab's alert rules for a real Prometheus", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			kind, err := lab.ParseKind(engine)
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
	cmd.Flags().StringVar(&engine, "engine", string(lab.VLLM), engineUsage)
	return cmd
}

func (c *cli) labRunCommand() *cobra.Command {
	var fault, listen, hook string
	var options labOptions
	var seed uint64
	var speed float64
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Serve a simulated fleet's /metrics pages, with a fault to come",
		Long: "Serve a simulated fleet's pages under /worker/POD/metrics, /dcgm/NODE/metrics and /kube/metrics, for a Prometheus or a bot to scrape.\n" +
			"Of two pools each has its name before that: /POOL/worker/POD/metrics.\n" +
			"With --webhook its own alert rules are evaluated and delivered as Alertmanager would.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := options.load(); err != nil {
				return err
			}
			if err := checkSpeed(speed); err != nil {
				return err
			}
			if cmd.Flags().Changed("webhook") {
				if err := webhookURL("--webhook", hook); err != nil {
					return err
				}
			}
			scenarios, err := labBeginning(fault, seed, options)
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
			return c.labRun(cmd.Context(), fleets, lab.NewClock(fleets[0].Start(), speed), listen, hook)
		},
	}
	f := cmd.Flags()
	f.StringVar(&fault, "fault", lab.KVExhaustion, "what goes wrong, five simulated minutes after the start: "+strings.Join(lab.Faults(), ", ")+
		"; two of them in two pools, FAULT+FAULT, or on two workers of one pool, FAULT+FAULT@one"+
		"; or what only looks like it: "+strings.Join(lab.Decoys(), ", "))
	f.StringVar(&listen, "listen", "127.0.0.1:9400", "address of the pages")
	f.StringVar(&hook, "webhook", "", "deliver alerts to this webhook URL")
	f.Uint64Var(&seed, "seed", 1, "seed of the traffic")
	f.Float64Var(&speed, "speed", 1, "simulated seconds a second; a real Prometheus, and a bot, want 1")
	options.flags(f)
	return cmd
}

// labBeginning is what [labScenarios] finds, begun now: whoever scrapes its fleets, or takes their
// alerts, goes by the machine's clock.
func labBeginning(fault string, seed uint64, options labOptions) ([]lab.Scenario, error) {
	scenarios, err := labScenarios(fault, seed)
	if err != nil {
		return nil, err
	}
	now := time.Now().UTC().Truncate(time.Second)
	for i, s := range scenarios {
		scenarios[i] = options.apply(s).Beginning(now)
	}
	return scenarios, nil
}

// announce tells who watches what will go wrong, and when; beside the addresses, which are for
// programs.
func (c *cli) announce(scenarios []lab.Scenario, speed float64) {
	for _, s := range scenarios {
		for _, f := range s.Faults {
			wait := time.Duration(float64(f.At) / speed).Round(time.Second)
			fmt.Fprintf(c.err, "%s begins in %s, at %s\n", f.Name, state.FormatDuration(wait), time.Now().Add(wait).UTC().Format("15:04:05 UTC"))
		}
		fmt.Fprintln(c.err, s.Story)
	}
}

// maxSpeed is more than a small fleet's simulation manages on a usual machine; asked for more, it
// only spins.
const maxSpeed = 1000

func checkSpeed(speed float64) error {
	if !(speed > 0 && speed <= maxSpeed) { // NaN is neither
		return fmt.Errorf("--speed is %g: give a number above 0 and up to %d", speed, maxSpeed)
	}
	return nil
}

// labScenarios are what is played of a fault or a decoy, or of a pair of faults: of two pools a
// scenario for each.
func labScenarios(name string, seed uint64) ([]lab.Scenario, error) {
	if strings.Contains(name, "+") {
		d, err := lab.ParseDouble(name)
		if err != nil {
			return nil, fmt.Errorf("--fault: %w", err)
		}
		return lab.NewDouble(d, seed)
	}
	if err := knownFault("--fault", name, slices.Concat(lab.Faults(), lab.Decoys())); err != nil {
		return nil, err
	}
	play := lab.NewScenario
	if slices.Contains(lab.Decoys(), name) {
		play = lab.NewDecoy
	}
	scenario, err := play(name, seed)
	if err != nil {
		return nil, err
	}
	return []lab.Scenario{scenario}, nil
}

// knownFault refuses the name of a fault that there is none of.
func knownFault(flag, name string, known []string) error {
	if slices.Contains(known, name) {
		return nil
	}
	return fmt.Errorf("%s %q is unknown: %s", flag, name, text.DidYouMean(name, known))
}

// webhookURL refuses what is no address that alerts can be delivered to.
func webhookURL(flag, raw string) error {
	if u, err := url.Parse(raw); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%s %s is not an http:// or https:// URL such as http://127.0.0.1:8080/webhook/alertmanager", flag, strconv.Quote(raw))
	}
	return nil
}

func (c *cli) labRun(ctx context.Context, fleets []*lab.Fleet, clock *lab.Clock, listen, hook string) error {
	pages, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("serving the pages at --listen: %w", err)
	}
	srv := &http.Server{Handler: labPages(fleets), ReadHeaderTimeout: 5 * time.Second}
	for _, path := range labPaths(fleets) {
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

// labPages serves the pages of fleets: those of one as they are, those of several below their
// pool's name. At / it lists them all.
func labPages(fleets []*lab.Fleet) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		for _, path := range labPaths(fleets) {
			fmt.Fprintln(w, path)
		}
	})
	for _, f := range fleets {
		below := labBelow(f, fleets)
		mux.Handle(below+"/", http.StripPrefix(below, f.Handler(lab.HandlerConfig{TargetLabels: true})))
	}
	return mux
}

// labPaths are the paths of the pages that fleets have now.
func labPaths(fleets []*lab.Fleet) []string {
	var out []string
	for _, f := range fleets {
		for _, t := range f.Targets() {
			out = append(out, labBelow(f, fleets)+t.Path)
		}
	}
	return out
}

func labBelow(f *lab.Fleet, of []*lab.Fleet) string {
	if len(of) == 1 {
		return ""
	}
	return "/" + f.Deployment().Name
}

// A storm is a burst of alerts at one webhook.
type storm struct {
	url, token                        string
	alerts, perPayload, senders, pods int
}

func (c *cli) labStormCommand() *cobra.Command {
	s := storm{}
	cmd := &cobra.Command{
		Use:   "storm",
		Short: "Send a storm of alerts to a webhook URL and say how it was taken",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.storm(cmd.Context(), s) },
	}
	f := cmd.Flags()
	f.StringVar(&s.url, "url", "http://127.0.0.1:8080/webhook/alertmanager", "the webhook; only addresses of this machine")
	f.StringVar(&s.token, "token", "", "bearer token")
	f.IntVar(&s.alerts, "alerts", 10000, "how many alerts")
	f.IntVar(&s.perPayload, "per-payload", 50, "alerts in a payload")
	f.IntVar(&s.senders, "senders", 8, "payloads in flight at a time")
	f.IntVar(&s.pods, "pods", 64, "pods that the alerts are about")
	return cmd
}

// A stormed is what came of a storm.
type stormed struct {
	Alerts   int            `json:"alerts"`
	Taken    int            `json:"taken"` // alerts that were answered with 2xx; the rate is theirs
	Payloads int            `json:"payloads"`
	Codes    map[string]int `json:"codes"`
	Seconds  float64        `json:"seconds"`
	PerSec   float64        `json:"alerts_per_second"`
	P50MS    float64        `json:"p50_ms"`
	P99MS    float64        `json:"p99_ms"`
}

func (c *cli) storm(ctx context.Context, s storm) error {
	if s.alerts < 1 || s.perPayload < 1 || s.senders < 1 || s.pods < 1 {
		return errors.New("--alerts, --per-payload, --senders and --pods must be at least 1")
	}
	if u, err := url.Parse(s.url); err != nil || u.Scheme != "http" && u.Scheme != "https" || !loopback(u.Hostname()) {
		return errors.New("--url must be an http:// or https:// URL of this machine, such as http://127.0.0.1:8080/webhook/alertmanager: a storm at another's bot wakes people")
	}
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: s.senders},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }} // it may lead elsewhere
	payloads := (s.alerts + s.perPayload - 1) / s.perPayload
	out := stormed{Alerts: s.alerts, Payloads: payloads, Codes: map[string]int{}}
	var next atomic.Int64
	var mu sync.Mutex
	var took []time.Duration
	var group sync.WaitGroup
	start := time.Now()
	for range s.senders {
		group.Go(func() {
			for ctx.Err() == nil {
				n := int(next.Add(1)) - 1
				if n >= payloads {
					return
				}
				t0 := time.Now()
				code, taken := s.send(ctx, client, n, start)
				mu.Lock()
				out.Codes[code]++
				out.Taken += taken
				took = append(took, time.Since(t0))
				mu.Unlock()
			}
		})
	}
	group.Wait()
	out.Seconds = time.Since(start).Seconds()
	out.PerSec = float64(out.Taken) / out.Seconds
	slices.Sort(took)
	if len(took) > 0 {
		out.P50MS = 1000 * took[len(took)/2].Seconds()
		out.P99MS = 1000 * took[len(took)*99/100].Seconds()
	}
	if c.output == "json" {
		if err := c.json(out); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(c.out, "%d of %s taken, in %s, %.2f s: %.0f alerts/s; a payload took %.1f ms (p50), %.1f ms (p99); %s\n",
			out.Taken, count(out.Alerts, "alert"), count(out.Payloads, "payload"), out.Seconds, out.PerSec, out.P50MS, out.P99MS, out.answers())
	}
	if lost := out.Alerts - out.Taken; lost > 0 {
		return fmt.Errorf("%s not taken: see the answers, and the log of the bot at --url", count(lost, "alert"))
	}
	return nil
}

// answers are the answers in words, each with how often it came.
func (s stormed) answers() string {
	var out []string
	for _, code := range slices.Sorted(maps.Keys(s.Codes)) {
		if code == noAnswer {
			out = append(out, fmt.Sprintf("no answer %d×", s.Codes[code]))
			continue
		}
		out = append(out, fmt.Sprintf("answered %s %d×", code, s.Codes[code]))
	}
	return strings.Join(out, ", ")
}

// noAnswer stands where the code of an answer would.
const noAnswer = "no answer"

// send sends the storm's nth payload and gives the answer's code, and how many alerts were taken.
func (s storm) send(ctx context.Context, client *http.Client, n int, at time.Time) (code string, taken int) {
	hook := alerting.Webhook{Receiver: "storm", Status: "firing", Version: "4", GroupKey: fmt.Sprintf("{}:{payload=\"%d\"}", n), ExternalURL: "http://alertmanager:9093"}
	for i := n * s.perPayload; i < min((n+1)*s.perPayload, s.alerts); i++ {
		hook.Alerts = append(hook.Alerts, alerting.WebhookAlert{Status: "firing", StartsAt: at.UTC(), Fingerprint: fmt.Sprintf("%016x", i),
			GeneratorURL: "http://prometheus:9090/graph?g0.expr=vllm%3Akv_cache_usage_perc+%3E+0.95",
			Labels: map[string]string{"alertname": "VLLMKVCacheExhaustion", "severity": "critical", "namespace": "llm", "model_name": "storm",
				"pod": fmt.Sprintf("vllm-storm-6d5f8c7b9-%05d", i%s.pods), "episode": fmt.Sprint(i)},
			Annotations: map[string]string{"summary": "KV cache is almost full"}})
	}
	body, err := json.Marshal(hook)
	if err != nil {
		return err.Error(), 0
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return err.Error(), 0
	}
	req.Header.Set("Content-Type", "application/json")
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return noAnswer, 0
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 == 2 {
		taken = len(hook.Alerts)
	}
	return resp.Status, taken
}
