package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"paramedic/cmd/paramedic/config"
	"paramedic/cmd/paramedic/service"
	"paramedic/internal/text"
	"paramedic/playbooks"
	"paramedic/rules/catalog"
	"paramedic/rules/enrich/kubernetes"
	"paramedic/rules/enrich/prometheus/query"
	"paramedic/rules/signals"
	"paramedic/state"
	"paramedic/state/jetstream/inspect"
)

func (c *cli) checkCommand() *cobra.Command {
	var path string
	var online bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Validate the configuration, the rules and the playbooks",
		Long: "Validate the configuration, the rules and the playbooks. Exit code 0: valid; 2: there are problems or findings;\n" +
			"1: the check failed. With --online, check also calls every configured service, and checks the alert rules of each\n" +
			"Prometheus against the metrics that the engines export.",
		Example: "  paramedic check --config paramedic.yaml\n  paramedic check --config paramedic.yaml --online",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.check(cmd.Context(), path, online)
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "configuration `file`; without it, check validates the defaults and the built-in "+
		"rules and playbooks")
	cmd.Flags().BoolVar(&online, "online", false,
		"also call every configured service, and check your alert rules")
	return cmd
}

// A checkResult is the output of check.
type checkResult struct {
	Problems []config.Problem              `json:"problems"`
	Notes    []string                      `json:"notes,omitempty"`  // hints about valid but unusual settings
	Online   map[string]string             `json:"online,omitempty"` // by service: "ok", "off: …", "unknown: …" or the problem
	Rules    map[string]service.LintResult `json:"rules,omitempty"`  // by cluster: its own alert rules
	Causes   int                           `json:"causes"`
	Books    int                           `json:"playbooks"`
}

func (c *cli) check(ctx context.Context, path string, online bool) error {
	cfg, err := config.Load(path)
	out := checkResult{Problems: []config.Problem{}}
	var wrong *config.Error
	switch {
	case errors.As(err, &wrong):
		out.Problems = append(out.Problems, wrong.Problems...)
	case err != nil:
		return err
	}
	out.notes(cfg)
	out.knowledge(cfg)
	if len(out.Problems) == 0 {
		out.kubeconfigs(cfg)
	}
	if online && len(out.Problems) == 0 {
		out.ask(ctx, cfg, c)
	}
	if c.output == "json" {
		if err := c.json(out); err != nil {
			return err
		}
	} else {
		out.print(c, path)
	}
	if out.findings() > 0 {
		return errFinding
	}
	return nil
}

// notes collects notes about the configuration.
func (o *checkResult) notes(cfg config.Config) {
	if n := cfg.Notify; cfg.BaseURL() == "" && (n.Slack.TokenFile != "" || n.PagerDuty.RoutingKeyFile != "") {
		o.Notes = append(o.Notes, "messages have no links to the pages: set public_url to the address that people open")
	}
	for _, name := range cfg.UnknownApprovers() {
		o.Notes = append(o.Notes, fmt.Sprintf("remediate.policies: the approver %q is no Slack user ID, and no token of a responder "+
			"or admin has that name, so that this name approves nothing", name))
	}
}

// kubeconfigs reports files that name no cluster.
func (o *checkResult) kubeconfigs(cfg config.Config) {
	for _, c := range cfg.Clusters {
		if k := c.Kubernetes; k != nil && (k.Kubeconfig != "" || k.Context != "") {
			if _, err := kubernetes.Connect(k.Kubeconfig, k.Context); err != nil {
				o.Problems = append(o.Problems, config.Problem{File: k.Kubeconfig, Text: err.Error()})
			}
		}
	}
}

// findings returns the number of findings.
func (o *checkResult) findings() int {
	n := len(o.Problems)
	for _, answer := range o.Online {
		if answer != "ok" && !strings.HasPrefix(answer, leftOff) && !strings.HasPrefix(answer, notKnown) {
			n++
		}
	}
	for _, l := range o.Rules {
		n += len(l.Findings)
	}
	return n
}

// knowledge validates rules and playbooks, and their references to each other.
func (o *checkResult) knowledge(cfg config.Config) {
	cat, problems, err := catalog.Load(cfg.Triage.RulesDir)
	if err != nil {
		o.Problems = append(o.Problems, config.Problem{File: cfg.Triage.RulesDir, Text: err.Error()})
	}
	o.Problems = append(o.Problems, problems...)
	library, err := playbooks.Load(cfg.Playbooks.Dir)
	o.playbookProblems(cfg, err)
	if cat == nil || library == nil {
		return
	}
	signals, err := signals.LoadSignals()
	if err != nil {
		o.Problems = append(o.Problems, config.Problem{File: "signals.yaml", Text: err.Error()})
		return
	}
	for _, err := range query.Check(signals) {
		o.Problems = append(o.Problems, config.Problem{File: "signals.yaml", Text: err.Error()})
	}
	var known []string
	for _, s := range signals {
		known = append(known, s.ID)
	}
	for _, cause := range cat.Causes() {
		o.hasPlaybook(cause, library)
	}
	o.unshown(cfg.Playbooks.Dir, cat, library)
	o.Causes, o.Books = len(cat.Causes()), len(library.All())
	o.playbookProblems(cfg, library.Validate(known))
}

// hasPlaybook reports a cause without a playbook. Its message could only explain triage by hand.
func (o *checkResult) hasPlaybook(cause *catalog.Cause, library *playbooks.Library) {
	if _, ok := library.Get(cause.Playbook); ok {
		return
	}
	if pb, _ := library.ForCause(string(cause.ID)); cause.Playbook == string(cause.ID) && pb.Cause == string(cause.ID) {
		return
	}
	o.Problems = append(o.Problems, config.Problem{File: cause.File, Line: cause.Line,
		Text: fmt.Sprintf("cause %s: there is no playbook %q: add one, or name another with playbook:", cause.ID, cause.Playbook)})
}

// unshown reports the user's playbooks that no verdict leads to.
func (o *checkResult) unshown(dir string, catalog *catalog.Catalog, library *playbooks.Library) {
	shown, causes := map[string]bool{string(state.Unknown): true}, []string{string(state.Unknown)}
	for _, cause := range catalog.Causes() {
		pb, _ := library.For(state.Diagnosis{Cause: cause.ID, Playbook: cause.Playbook})
		shown[pb.ID], causes = true, append(causes, string(cause.ID))
	}
	for _, pb := range library.All() {
		if dir == "" || filepath.Dir(pb.File) != filepath.Clean(dir) || shown[pb.ID] {
			continue
		}
		problem := fmt.Sprintf("no verdict shows this playbook, because %s has another. To replace that one, set id: %[1]s. To add this "+
			"one, set playbook: %s in a cause", pb.Cause, pb.ID)
		if !slices.Contains(causes, pb.Cause) {
			problem = fmt.Sprintf("there is no cause %q, so no verdict shows this playbook; %s", pb.Cause,
				text.DidYouMean(pb.Cause, causes))
		}
		o.Problems = append(o.Problems, config.Problem{File: pb.File, Line: pb.Line("cause"), Text: problem})
	}
}

func (o *checkResult) playbookProblems(cfg config.Config, err error) {
	if err == nil {
		return
	}
	if many, ok := playbooks.AsProblems(err); ok {
		for _, p := range many {
			o.Problems = append(o.Problems, p)
		}
		return
	}
	o.Problems = append(o.Problems, config.Problem{File: cfg.Playbooks.Dir, Text: err.Error()})
}

// ask pings every configured service.
func (o *checkResult) ask(ctx context.Context, cfg config.Config, c *cli) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	o.Online = map[string]string{}
	gather, _, err := service.NewGatherer(cfg, service.GathererDeps{Logger: c.quietLogger()})
	if err != nil {
		o.Online["clusters"] = okOr(err)
	} else {
		for what, err := range gather.Ping(ctx) {
			o.Online[what] = okOr(err)
		}
	}
	for what, err := range service.PingAlertmanagers(ctx, cfg) {
		o.Online[what] = okOr(err)
	}
	for _, p := range service.PingChannels(ctx, cfg) {
		if o.Online[p.What] = okOr(p.Err); p.Err == nil && p.Off != "" {
			o.Online[p.What] = leftOff + p.Off
		}
	}
	if cfg.State.NATS.URL != "" {
		o.askNATS(ctx, cfg, c)
	}
	var failed map[string]error
	o.Rules, failed = service.LintRules(ctx, cfg)
	for what, err := range failed {
		o.Online[what] = okOr(err)
	}
}

// askNATS asks the external NATS.
func (o *checkResult) askNATS(ctx context.Context, cfg config.Config, c *cli) {
	for _, a := range inspect.NATS(ctx, service.StoreConfig(cfg, c.quietLogger())) {
		if o.Online[a.What] = okOr(a.Err); a.Err == nil && a.Unknown != "" {
			o.Online[a.What] = notKnown + a.Unknown
		}
	}
}

// notKnown begins the answer for what check cannot see. It is not a finding.
const notKnown = "unknown: "

// leftOff begins the answer for a feature that is not switched on. It is not a finding.
const leftOff = "off: "

func okOr(err error) string {
	if err == nil {
		return "ok"
	}
	return strings.TrimSpace(err.Error())
}

func (o *checkResult) print(c *cli, path string) {
	for _, p := range o.Problems {
		fmt.Fprintln(c.out, p)
	}
	for _, n := range o.Notes {
		fmt.Fprintln(c.out, "note: "+n)
	}
	if o.Online != nil && len(o.Online) == 0 {
		fmt.Fprintln(c.out, "no service is configured, so --online called none (clusters[].prometheus, engines, alertmanager, "+
			"kubernetes, traces, notify, state.nats)")
	}
	for _, what := range slices.Sorted(maps.Keys(o.Online)) {
		fmt.Fprintf(c.out, "%-32s %s\n", what, strings.ReplaceAll(o.Online[what], "\n", "\n"+strings.Repeat(" ", 33)))
	}
	for _, cluster := range slices.Sorted(maps.Keys(o.Rules)) {
		printLint(c, cluster, o.Rules[cluster])
	}
	if len(o.Problems) > 0 {
		fmt.Fprintln(c.out, text.Count(len(o.Problems), "problem"))
		return
	}
	if n := o.findings(); n > 0 {
		fmt.Fprintln(c.out, text.Count(n, "finding"))
		return
	}
	if path == "" {
		path = "the default configuration"
	}
	fmt.Fprintf(c.out, "%s is valid: %d causes, %d playbooks\n", path, o.Causes, o.Books)
}
