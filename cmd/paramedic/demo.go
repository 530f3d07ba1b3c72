package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"paramedic/lab"
	"paramedic/lab/alerting"
	"paramedic/notify/console"
	"paramedic/remediate/cluster"
	"paramedic/remediate/policy"
	"paramedic/rules/enrich/engine"
	"paramedic/state"
	"paramedic/state/jetstream"
	"paramedic/webhook/api"
	"paramedic/webhook/report"
)

// A demo is a simulated fleet that breaks, and the real bot that answers.
type demo struct {
	*cli
	fault    string
	engine   string
	speed    float64
	headless bool
	listen   string
	seed     uint64
}

func (c *cli) demoCommand() *cobra.Command {
	d := &demo{cli: c}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "The whole loop on this machine: a simulated fleet breaks, the bot finds out why and mends it",
		Long: "A simulated pool of workers serves traffic, a fault is injected, real alert rules fire and genuine webhooks reach the real bot.\n" +
			"Watch it on the page, approve the first aid, and see the pool recover. Nothing leaves this machine.\n\nFaults: " + strings.Join(lab.Faults(), ", "),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&d.fault, "fault", lab.KVExhaustion, "what goes wrong")
	f.StringVar(&d.engine, "engine", string(lab.VLLM), engineUsage)
	f.Float64Var(&d.speed, "speed", 0, "simulated seconds a second (default 15, and 60 with --headless); while first aid waits for you it is 1")
	f.BoolVar(&d.headless, "headless", false, "approve what is offered, play one incident to its end, and exit 0 if it was diagnosed and mitigated")
	f.StringVar(&d.listen, "listen", "", "address of the incident page (default 127.0.0.1:8080, and any free port with --headless)")
	f.Uint64Var(&d.seed, "seed", 4, "another seed is another day")
	return cmd
}

// The demo shows healthy traffic for this long before the fault, of the five minutes that a
// scenario begins with.
const healthyShown = 100 * time.Second

// demoTiming are the run's times, shorter than in production so that a visitor sees the end. Rates
// and quantiles look back five minutes: judged much sooner, a pool that has recovered still shows
// what its rollout cost.
var demoTiming = policy.Timing{Settle: 4 * time.Minute, Window: 4 * time.Minute, Interval: 15 * time.Second, Samples: 8, Poll: 5 * time.Second}

func (d *demo) run(ctx context.Context) error {
	kind, err := lab.ParseKind(d.engine)
	if err != nil {
		return fmt.Errorf("--engine: %w", err)
	}
	if d.listen != "" && !loopbackOnly(d.listen) {
		return fmt.Errorf("--listen %s: the demo asks nobody for a password, so give it an address of this machine, such as 127.0.0.1:8080", d.listen)
	}
	if err := knownFault("--fault", d.fault, lab.Faults()); err != nil {
		return err
	}
	scenario, err := lab.NewScenario(d.fault, d.seed)
	if err != nil {
		return err
	}
	scenario = scenario.As(kind)
	switch {
	case d.speed == 0 && d.headless:
		d.speed = 60
	case d.speed == 0:
		d.speed = 15
	}
	if err := checkSpeed(d.speed); err != nil {
		return err
	}
	scenario.Config.ColdStart = 40 * time.Second
	fleet, err := scenario.Build()
	if err != nil {
		return fmt.Errorf("building the fleet: %w", err)
	}
	fmt.Fprintf(d.err, "Four simulated %s workers serve a model of 70 billion parameters; time runs %.0f times as fast as yours.\nComing up: %s\n\n", kind.Title(), d.speed, scenario.Story)
	begin := fleet.Start().Add(5*time.Minute - healthyShown)
	fleet.Advance(begin)
	return d.play(ctx, scenario, fleet, lab.NewClock(begin, d.speed))
}

// play runs fleet, monitoring and bot together until the visitor has seen enough, or the headless
// visitor the end.
func (d *demo) play(ctx context.Context, scenario lab.Scenario, fleet *lab.Fleet, clock *lab.Clock) error {
	dir, err := os.MkdirTemp("", "paramedic-demo-")
	if err != nil {
		return fmt.Errorf("a place for the demo's state: %w", err)
	}
	defer os.RemoveAll(dir)
	log := d.quietLogger()
	store, err := jetstream.Open(ctx, jetstream.Config{Dir: dir, Retain: 24 * time.Hour, Logger: log})
	if err != nil {
		return fmt.Errorf("opening the state: %w", err)
	}
	defer func() { _ = store.Close(context.WithoutCancel(ctx)) }() // the directory goes with it
	pages, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("serving the fleet's pages: %w", err)
	}
	exporter := &http.Server{Handler: fleet.Handler(lab.HandlerConfig{TargetLabels: true}), ReadHeaderTimeout: 5 * time.Second}
	host := newHost()
	cfg := DefaultConfig()
	cfg.Listen = cmp.Or(d.listen, cfg.Listen)
	if d.headless {
		cfg.Listen = cmp.Or(d.listen, "127.0.0.1:0")
	}
	listener, err := host.listen(cfg, log)
	if err != nil {
		return err
	}
	cfg.PublicURL = "http://" + listener.Addr().String()
	cfg.Remediate.Mode = "approve"
	service, err := newService(cfg, Deps{Store: store, Clock: clock, Logger: log, Out: d.out, Colour: console.Terminal(d.out), Timing: demoTiming,
		Clusters: map[string]cluster.Cluster{"default": newDemoCluster(fleet)},
		Scrape:   func() []engine.Target { return demoTargets(fleet, "http://"+pages.Addr().String()) }, ScrapeEvery: alerting.ScrapeInterval,
		Status: lastWords(func() []*lab.Fleet { return []*lab.Fleet{fleet} })})
	if err != nil {
		return err
	}
	host.use(service)
	fmt.Fprintf(d.err, "The incident page: %s\n\n", cfg.PublicURL)
	world := alerting.NewWorld(alerting.AlertmanagerConfig{URL: cfg.PublicURL + "/webhook/alertmanager"}, fleet)
	world.Log = log

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return ignoreClosed(exporter.Serve(pages)) })
	group.Go(func() error { return service.Run(running) })
	group.Go(func() error { world.Run(running, clock); return nil })
	group.Go(func() error {
		defer stop()
		v := &visitor{demo: d, service: service, base: cfg.PublicURL, clock: clock, scenario: scenario}
		return v.watch(running)
	})
	<-running.Done()
	service.closeStreams()
	host.drain(log)
	host.close(log)
	_ = exporter.Close() // nobody needs its last answers
	return group.Wait()
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// demoTargets are the fleet's pages as they are now: a rollout brings new workers.
func demoTargets(fleet *lab.Fleet, base string) []engine.Target {
	var out []engine.Target
	for _, t := range fleet.Targets() {
		out = append(out, engine.Target{URL: base + t.Path, Labels: t.Labels})
	}
	return out
}

// A visitor watches the incident. The headless one also does what a person would: it approves what
// is offered, through the API.
type visitor struct {
	*demo
	service  *service
	base     string
	clock    *lab.Clock
	scenario lab.Scenario
	told     map[state.ActionID]bool
	slow     bool // time waits for a person
}

// patience is how much simulated time the headless visitor gives the whole story.
const patience = 75 * time.Minute

// watch follows the incident of the scenario's fault to its end.
func (v *visitor) watch(ctx context.Context) error {
	v.told = map[state.ActionID]bool{}
	entries := v.service.keeper.Subscribe(ctx)
	deadline := v.clock.After(patience)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-entries:
		case <-v.clock.After(5 * time.Second):
		case <-deadline:
			if v.headless {
				return v.giveUp()
			}
			deadline = nil
		}
		waits := false
		for _, in := range v.service.keeper.Incidents() {
			for _, id := range in.Actions {
				if a, ok := v.service.keeper.Action(id); ok {
					if shown(in) {
						v.look(ctx, a)
					}
					waits = waits || a.State == state.AwaitingApproval
				}
			}
			if in.Cause() == state.Cause(v.fault) && v.ended(in) && shown(in) && v.headless {
				return v.verdict(in)
			}
		}
		v.pace(waits)
	}
}

// shown says whether the terminal has all that there is to tell of the incident: nobody acts on
// what they have not read, and no end is told before what led to it.
func shown(in state.Incident) bool {
	return !slices.Contains(in.Channels, state.ChannelConsole) || in.Told[state.ChannelConsole].Rev >= in.Rev
}

// pace lets time run slowly while first aid waits for a person, who reads first.
func (v *visitor) pace(waits bool) {
	if v.headless || waits == v.slow {
		return
	}
	v.slow = waits
	if waits {
		v.clock.SetSpeed(min(1, v.speed))
		return
	}
	v.clock.SetSpeed(v.speed)
}

// look tells the visitor of an action that waits, or approves it.
func (v *visitor) look(ctx context.Context, a state.Action) {
	if a.State != state.AwaitingApproval || v.told[a.ID] {
		return
	}
	v.told[a.ID] = true
	if !v.headless {
		fmt.Fprintf(v.err, "\nTime runs as fast as yours until you decide. Approve it on the page: %s/incidents/%s\nor with: %s approve --server %s %s %s\n\n", v.base, a.Incident, os.Args[0], v.base, a.ID, state.ShortPlan(a.PlanHash))
		return
	}
	fmt.Fprintf(v.err, "\nThe visitor approves: %s\n\n", a.Change)
	if err := v.approve(ctx, a); err != nil {
		fmt.Fprintf(v.err, "approving: %v\n", err)
	}
}

func (v *visitor) approve(ctx context.Context, a state.Action) error {
	body, err := json.Marshal(map[string]string{"actor": "visitor", "reason": "demo", "plan_hash": a.PlanHash})
	if err != nil {
		return fmt.Errorf("encoding the approval: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, v.base+"/api/v1/actions/"+string(a.ID)+"/approve", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("the bot's address: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("asking the bot: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 == 2 {
		return nil
	}
	var e api.ErrorJSON
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16)) // what cannot be read is not shown
	_ = json.Unmarshal(raw, &e)
	return fmt.Errorf("%s: %s", resp.Status, e.Error)
}

// ended reports whether the incident's story is over: its first aid is through, or there is none
// that the bot could give. What ran out is planned again while the incident is open.
func (v *visitor) ended(in state.Incident) bool {
	if len(in.Actions) == 0 {
		return !v.treatable()
	}
	for i, id := range in.Actions {
		a, _ := v.service.keeper.Action(id)
		if last := i == len(in.Actions)-1; !a.State.Done() || last && a.RanOut() && in.Open() {
			return false
		}
	}
	return true
}

// treatable says whether the fault's playbook has first aid that the bot can give.
func (v *visitor) treatable() bool {
	pb, ok := v.service.library.ForCause(v.fault)
	if !ok {
		return false
	}
	for _, r := range pb.FirstAid {
		if r.Action != "" {
			return true
		}
	}
	return false
}

// verdict ends the headless demo.
func (v *visitor) verdict(in state.Incident) error {
	fmt.Fprintf(v.err, "\nDiagnosed: %s (%s sure), %s of the fleet's time after its onset.\n", in.Title, report.Sureness(in.Cause(), in.Diagnosis.Confidence), in.NamedAt.Sub(in.StartedAt).Round(time.Second))
	mitigated := !v.treatable()
	for _, id := range in.Actions {
		a, _ := v.service.keeper.Action(id)
		fmt.Fprintf(v.err, "First aid: %s: %s. %s\n", a.Change, strings.ReplaceAll(string(a.State), "_", " "), a.Reason)
		mitigated = mitigated || a.State == state.Succeeded
	}
	if !mitigated {
		return errors.New("the incident was diagnosed, but not mitigated")
	}
	if !v.treatable() {
		fmt.Fprintln(v.err, "Its first aid is for people; the playbook says what to do.")
	}
	return nil
}

func (v *visitor) giveUp() error {
	var seen []string
	for _, in := range v.service.keeper.Incidents() {
		seen = append(seen, fmt.Sprintf("#%d %s: %s (%s)", in.Number, in.Cause(), in.Title, in.Status))
		for _, id := range in.Actions {
			a, _ := v.service.keeper.Action(id)
			seen = append(seen, fmt.Sprintf("   %s: %s: %s", a.Change, a.State, a.Reason))
		}
	}
	return fmt.Errorf("after %s of the fleet's time %s is not diagnosed and treated; there is:\n%s", patience, v.fault, strings.Join(seen, "\n"))
}
