package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"paramedic/playbooks"
	"paramedic/rules"
	"paramedic/rules/enrich"
	"paramedic/rules/enrich/engine"
	"paramedic/state"
	"paramedic/webhook"
)

// A diagnosis is one look at a live fleet.
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
		Short: "Triage a live fleet once, with nothing installed",
		Long: "Look at a live fleet once and say what is wrong with it and why. Exit code 0: healthy; 2: something was found; 1: the look failed.\n" +
			"Engines that are scraped directly are watched for a short while, because rates need two looks.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&d.prometheus, "prometheus", "", "base URL of a Prometheus-compatible query API")
	f.StringArrayVar(&d.engines, "engine", nil, "URL of a /metrics page (repeat it)")
	f.StringVar(&d.tempo, "tempo", "", "also read the traces of requests in this Tempo (base URL)")
	f.StringVar(&d.jaeger, "jaeger", "", "also read the traces of requests in this Jaeger (base URL)")
	f.StringVar(&d.kubeconfig, "kubeconfig", "", "also read Kubernetes through this kubeconfig")
	f.StringVar(&d.model, "model", "", "look at this model only")
	f.StringVar(&d.at, "at", "", "look at this time (RFC 3339) instead of now; needs --prometheus")
	f.DurationVar(&d.watch, "watch", 20*time.Second, "how long engines are watched with --engine")
	cmd.MarkFlagsMutuallyExclusive("prometheus", "engine")
	cmd.MarkFlagsMutuallyExclusive("tempo", "jaeger")
	return cmd
}

func (d *diagnosis) run(ctx context.Context) error {
	cfg := DefaultConfig()
	cluster := &cfg.Clusters[0]
	cluster.Prometheus.URL, cluster.Engines = d.prometheus, d.engines
	cluster.Traces.TempoURL, cluster.Traces.JaegerURL = d.tempo, d.jaeger
	if d.kubeconfig != "" {
		cluster.Kubernetes = &KubernetesConfig{Kubeconfig: d.kubeconfig}
	}
	now := time.Now().UTC()
	if err := d.addresses(); err != nil {
		return err
	}
	switch {
	case d.prometheus == "" && len(d.engines) == 0:
		return errors.New("say where to look: --prometheus URL, or --engine URL for each engine")
	case d.at != "" && d.prometheus == "":
		return errors.New("--at needs --prometheus: an engine only knows the present")
	case d.prometheus == "" && d.watch < time.Second:
		return fmt.Errorf("--watch %s is too short: rates need two looks, at least 1s apart", d.watch)
	case d.at != "":
		at, err := time.Parse(time.RFC3339, d.at)
		if err != nil {
			return fmt.Errorf("--at %q is not a time such as 2026-11-21T03:00:00Z", d.at)
		}
		now = at.UTC()
	}
	catalog, library, err := loadKnowledge(cfg)
	if err != nil {
		return err
	}
	gather, scrapers, err := newGatherer(cfg, gathererDeps{logger: d.quietLogger(), interval: time.Second})
	if err != nil {
		return err
	}
	if len(scrapers) > 0 {
		if err := d.observe(ctx, scrapers); err != nil {
			return err
		}
		now = time.Now().UTC()
	}
	look := lookAt{gather: gather, catalog: catalog, library: library, cluster: cluster.Name, now: now}
	for _, s := range scrapers {
		look.unread = append(look.unread, s.Problems()...)
	}
	found, err := look.all(ctx, d.model)
	if err != nil {
		return err
	}
	if err := d.print(found); err != nil {
		return err
	}
	switch {
	case found.Found:
		return errFinding
	case !slices.ContainsFunc(found.Pools, func(p rules.PoolHealth) bool { return p.Overall != rules.HealthUnknown }):
		return errors.New("too little was measured to say how the fleet is")
	}
	return nil
}

// addresses refuses what is no address before anybody waits for it, and what would have a password printed with what is found.
func (d *diagnosis) addresses() error {
	check := func(flag, raw, example string) error {
		u, err := url.Parse(raw)
		valid := err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
		switch {
		case valid && u.User != nil, !valid && strings.Contains(raw, "@"):
			return fmt.Errorf("--%s must be an http:// or https:// URL such as %s, without a user or a password: the bot's configuration has *_file keys for secrets", flag, example)
		case !valid:
			return fmt.Errorf("--%s %s is not an http:// or https:// URL such as %s", flag, raw, example)
		}
		return nil
	}
	for _, base := range []struct{ flag, url, example string }{
		{"prometheus", d.prometheus, "http://prometheus:9090"}, {"tempo", d.tempo, "http://tempo:3200"}, {"jaeger", d.jaeger, "http://jaeger:16686"},
	} {
		if base.url == "" {
			continue
		}
		if err := check(base.flag, base.url, base.example); err != nil {
			return err
		}
	}
	for _, e := range d.engines {
		if err := check("engine", e, "http://10.0.0.1:8000/metrics"); err != nil {
			return err
		}
	}
	return nil
}

// observe scrapes for a while, and says so.
func (d *diagnosis) observe(ctx context.Context, scrapers []*engine.Client) error {
	fmt.Fprintf(d.err, "watching %s for %s …\n", count(len(d.engines), "page"), d.watch)
	ticker := time.NewTicker(max(d.watch/10, 500*time.Millisecond))
	defer ticker.Stop()
	end := time.After(d.watch)
	for {
		for _, s := range scrapers {
			s.Scrape(ctx)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end:
			return nil
		case <-ticker.C:
		}
	}
}

// A lookAt is one look at everything that can be seen.
type lookAt struct {
	gather  *enrich.Gatherer
	catalog *rules.Catalog
	library *playbooks.Library
	cluster string
	now     time.Time
	unread  []engine.Problem // pages that could not be read
}

// A foundFleet is what a look found.
type foundFleet struct {
	At      time.Time          `json:"at"`
	Found   bool               `json:"found"`
	Pools   []rules.PoolHealth `json:"pools"`
	Verdict []foundPool        `json:"verdicts"`
	Missing []state.Missing    `json:"missing,omitempty"`
	Unread  []engine.Problem   `json:"unreadable,omitempty"` // engines' pages that could not be read
	// Untraced is why no traces were found where somebody asked for them: of the fleet, or of the pools that show symptoms.
	Untraced []string `json:"untraced,omitempty"`
}

// A foundPool is a pool that has symptoms, with the verdict on it.
type foundPool struct {
	Pool      rules.PoolHealth     `json:"pool"`
	Symptoms  []state.SymptomCount `json:"symptoms"`
	Diagnosis state.Diagnosis      `json:"diagnosis"`
	Time      rules.Bottleneck     `json:"bottleneck"`
	Playbook  string               `json:"-"` // as text beside the story, with its answers
}

// all looks at every pool, and twice at those that show symptoms: the second time with everything.
func (l lookAt) all(ctx context.Context, model string) (foundFleet, error) {
	ev := l.gather.Gather(ctx, enrich.Request{Cluster: l.cluster, Scope: state.Scope{Cluster: l.cluster, Model: model}, Onset: l.now, Now: l.now})
	out := foundFleet{At: l.now, Pools: judged(ofModel(l.catalog.Health(l.cluster, ev), ev.Workers, model)), Verdict: []foundPool{}, Missing: ev.Missing, Unread: l.unread, Found: len(l.unread) > 0}
	if len(ev.Samples) == 0 || len(out.Pools) == 0 {
		if err := l.unserved(ctx, model); err != nil {
			return out, err
		}
		return out, fmt.Errorf("nothing there tells of an inference engine: %s", reasons(ev.Missing, l.unread))
	}
	for i, p := range out.Pools {
		scope := p.Scope()
		scope.Model = orText(model, scope.Model)
		pool := l.gather.Gather(ctx, enrich.Request{Cluster: l.cluster, Scope: scope, Onset: l.now, Now: l.now})
		symptoms := rules.Observe(&pool)
		if len(symptoms) == 0 {
			continue
		}
		in := state.Incident{Cluster: l.cluster, Status: state.StatusOpen, Severity: state.Warning, Scope: scope, Symptoms: symptoms, StartedAt: l.now, OpenedAt: l.now}
		for _, s := range symptoms {
			in.AlertCount += s.Alerts
		}
		in.ActiveAlerts = in.AlertCount
		found := foundPool{Pool: p, Symptoms: symptoms, Diagnosis: knowledge{l.catalog, l.library}.Diagnose(&in, &pool, l.now), Time: l.catalog.Bottleneck(scope, &pool)}
		if found.Diagnosis.Cause == state.BenignAlert { // no alert has called for this look: what healthy engines show is nothing to tell
			continue
		}
		out.Pools[i].AtLeast(l.severity(found.Diagnosis))
		found.Pool = out.Pools[i]
		in.Diagnosis, in.Scope = found.Diagnosis, found.Diagnosis.Scope // what is broken, and not all of the pool
		if pb, ok := l.library.For(found.Diagnosis); ok {
			found.Playbook = playbooks.Run(pb, in, pool).BesideStory()
		}
		out.Verdict = append(out.Verdict, found)
		if why := untraced(pool); why != "" && !slices.Contains(out.Untraced, why) {
			out.Untraced = append(out.Untraced, why)
		}
		out.Found = true
	}
	if why := untraced(ev); why != "" && len(out.Verdict) == 0 {
		out.Untraced = []string{why}
	}
	return out, nil
}

// severity is how bad a pool is of which this is said: its numbers may all be in bounds.
func (l lookAt) severity(d state.Diagnosis) rules.HealthStatus {
	pb, ok := l.library.For(d)
	switch {
	case ok && pb.Severity == string(state.Critical):
		return rules.HealthCritical
	case ok && pb.Severity == string(state.Info):
		return rules.HealthUnknown
	}
	return rules.HealthWarning
}

// ofModel are those of the pools that serve a model; all, where none is named. Evidence holds all workers whatever it was asked for, since
// neighbours count in a diagnosis.
func ofModel(pools []rules.PoolHealth, workers []state.Worker, model string) []rules.PoolHealth {
	if model == "" {
		return pools
	}
	return slices.DeleteFunc(pools, func(p rules.PoolHealth) bool {
		return !strings.EqualFold(p.Model, model) && !serves(p, workers, model)
	})
}

// serves says whether any of the pool's workers serves a model.
func serves(p rules.PoolHealth, workers []state.Worker, model string) bool {
	return slices.ContainsFunc(workers, func(w state.Worker) bool {
		return w.Namespace == p.Namespace && w.Pool == p.Pool && w.Pool != "" && strings.EqualFold(w.Model, model)
	})
}

// unserved is the error of a look at a model that nothing serves, with those that are served; nil where no model is seen, or none was named.
func (l lookAt) unserved(ctx context.Context, model string) error {
	if model == "" {
		return nil
	}
	ev := l.gather.Gather(ctx, enrich.Request{Cluster: l.cluster, Scope: state.Scope{Cluster: l.cluster}, Onset: l.now, Now: l.now, Signals: rules.HealthSignals()})
	var seen []string
	for _, p := range rules.Health(l.cluster, ev) {
		if model := p.Scope().Model; model != "" && !slices.Contains(seen, model) {
			seen = append(seen, model)
		}
	}
	for _, w := range ev.Workers {
		if w.Model != "" && !slices.Contains(seen, w.Model) {
			seen = append(seen, w.Model)
		}
	}
	if len(seen) == 0 {
		return nil
	}
	slices.Sort(seen)
	return fmt.Errorf("--model %q is served by nothing that could be seen: use one of %s", model, strings.Join(seen, ", "))
}

// reasons are the reasons why evidence is missing, each once: first what failed, then what there was nothing of.
func reasons(missing []state.Missing, unread []engine.Problem) string {
	var out, absent []string
	seen := map[string]bool{}
	for _, p := range unread {
		out = append(out, p.URL+": "+p.Reason)
	}
	for _, m := range missing {
		if seen[m.Reason] || m.Signal == "engines" && len(unread) > 0 {
			continue
		}
		seen[m.Reason] = true
		if strings.HasPrefix(m.Reason, "no series") || strings.HasPrefix(m.Reason, "no value") {
			absent = append(absent, m.Reason)
			continue
		}
		out = append(out, m.Reason)
	}
	out = append(out, absent...)
	if len(out) == 0 {
		return "no series matched"
	}
	return strings.Join(out[:min(3, len(out))], "; ")
}

func (d *diagnosis) print(f foundFleet) error {
	switch d.output {
	case "json":
		return d.json(f)
	case "markdown":
		printMarkdown(d.out, f)
		return nil
	}
	for _, p := range f.Unread {
		fmt.Fprintf(d.out, "%s %s\n\n", p.URL, p.Reason)
	}
	w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "POOL\tMODEL\tWORKERS\tHEALTH\tKV\tLATENCY\tERRORS\tQUEUE\tGPU")
	for _, p := range f.Pools {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s", orText(p.Pool, "—"), orText(p.Model, "—"), p.Workers, p.Overall)
		for _, check := range healthChecks {
			fmt.Fprintf(w, "\t%s", checkValue(p.Checks[check]))
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	lines := slices.Concat(f.notes(), f.unmeasured())
	for _, line := range lines {
		fmt.Fprintf(d.out, "\n%s", line)
	}
	if len(lines) > 0 && len(f.Verdict) > 0 {
		fmt.Fprintln(d.out)
	}
	if closing := f.closing(); closing != "" {
		fmt.Fprintf(d.out, "\n%s\n", closing)
	}
	for _, v := range f.Verdict {
		fmt.Fprintln(d.out)
		printVerdict(d.out, v.Diagnosis)
		if v.Diagnosis.Story.Time == "" && (v.Time.Queue != nil || d.tempo != "" || d.jaeger != "") {
			fmt.Fprintf(d.out, "  where the time goes: %s\n", v.Time)
		}
		if v.Diagnosis.Story.Time == "" && v.Time.Slowest != "" {
			fmt.Fprintf(d.out, "  slowest traced request: %s\n", v.Time.Slowest)
		}
		if v.Playbook != "" {
			fmt.Fprintf(d.out, "\n%s\n", v.Playbook)
		}
	}
	return nil
}

// checkValue is what a check measured, in words.
func checkValue(c rules.HealthCheck) string {
	if c.Value == nil {
		return "—"
	}
	return state.FormatValue(*c.Value, c.Unit)
}

// printVerdict prints a verdict with its sum.
func printVerdict(w io.Writer, v state.Diagnosis) {
	fmt.Fprintf(w, "%s\n%s, %s\n\n", v.Title, v.Cause, sure(v))
	printStory(w, "  ", v.Story)
	fmt.Fprintln(w)
	printFinding(w, v.Prior, "prior", "How common the cause is, before any evidence")
	for _, f := range v.Findings {
		printFinding(w, f.Weight, f.Text, f.Why)
	}
	fmt.Fprintf(w, "  %+6.1f dB  sum\n", v.Score)
	if len(v.Alternatives) > 0 {
		fmt.Fprint(w, "\n  weighed and not chosen:\n")
	}
	for _, a := range v.Alternatives {
		fmt.Fprintf(w, "    %s (%s): would win with %s\n", a.Cause, state.FormatShare(a.Confidence), a.WouldWinIf)
	}
	if len(v.Missing) > 0 {
		fmt.Fprintln(w)
	}
	for _, line := range webhook.MissingLines(v.Missing) {
		fmt.Fprintf(w, "  not measured: %s\n", line)
	}
	printUsual(w, v.Anomalies, v.Correlations)
}

// sure is how sure a verdict is, in words.
func sure(v state.Diagnosis) string {
	text := webhook.Sureness(v.Cause, v.Confidence)
	if text == webhook.NoVerdict {
		return text
	}
	return text + " sure"
}

// printMarkdown prints what was found as Markdown. Everything that came from outside is escaped: a model's name may hold a link.
func printMarkdown(w io.Writer, f foundFleet) {
	md := webhook.Markdown
	fmt.Fprintf(w, "# Fleet at %s\n", f.At.Format(time.RFC3339))
	for _, p := range f.Unread {
		fmt.Fprintf(w, "\n**%s** %s\n", md(p.URL), md(p.Reason))
	}
	if len(f.Pools) > 0 {
		fmt.Fprint(w, "\n| pool | model | workers | health | KV | latency | errors | queue | GPU |\n|---|---|---:|---|---:|---:|---:|---:|---:|\n")
	}
	for _, p := range f.Pools {
		fmt.Fprintf(w, "| %s | %s | %d | %s |", md(orText(p.Pool, "—")), md(orText(p.Model, "—")), p.Workers, p.Overall)
		for _, check := range healthChecks {
			fmt.Fprintf(w, " %s |", md(checkValue(p.Checks[check])))
		}
		fmt.Fprintln(w)
	}
	for _, v := range f.Verdict {
		d := v.Diagnosis
		fmt.Fprintf(w, "\n## %s\n\n**%s**, %s\n\n%s\n| dB | evidence | why so much |\n|---:|---|---|\n| %+.1f | prior | how common the cause is, before any evidence |\n",
			md(d.Title), md(string(d.Cause)), sure(d), webhook.StoryMarkdown(d.Story), d.Prior)
		for _, x := range d.Findings {
			fmt.Fprintf(w, "| %+.1f | %s | %s |\n", x.Weight, md(x.Text), md(x.Why))
		}
		fmt.Fprintf(w, "| %+.1f | **sum** | |\n", d.Score)
		if alternatives := webhook.AlternativesMarkdown(d.Alternatives); alternatives != "" {
			fmt.Fprintf(w, "\nWeighed and not chosen:\n\n%s", alternatives)
		}
		if d.Story.Time == "" && v.Time.Queue != nil {
			fmt.Fprintf(w, "\nWhere the time goes: %s\n", md(v.Time.String()))
		}
		if len(d.Missing) > 0 {
			fmt.Fprintln(w)
		}
		for _, line := range webhook.MissingLines(d.Missing) {
			fmt.Fprintf(w, "- not measured: %s\n", md(line))
		}
		if len(d.Anomalies)+len(d.Correlations) > 0 {
			fmt.Fprintln(w)
		}
		for _, a := range d.Anomalies {
			fmt.Fprintf(w, "- against the usual: %s\n", md(a.Text))
		}
		for _, c := range d.Correlations {
			fmt.Fprintf(w, "- moved together, which makes nothing a cause: %s\n", md(c.Text))
		}
	}
	if closing := f.closing(); closing != "" {
		fmt.Fprintf(w, "\n%s\n", closing)
	}
	for _, line := range slices.Concat(f.notes(), f.unmeasured()) {
		fmt.Fprintf(w, "\n- %s", md(line))
	}
	fmt.Fprintln(w)
}

func orText(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
