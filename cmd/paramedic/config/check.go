package config

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"paramedic/notify/wording"
	"paramedic/playbooks"
	"paramedic/remediate/policy"
	"paramedic/rules/catalog"
	"paramedic/state"
)

func (v *validator) clusters(clusters []ClusterConfig) {
	if len(clusters) == 0 {
		v.at([]string{"clusters"}, "is empty: name at least one cluster")
	}
	seen := map[string]bool{}
	for i, c := range clusters {
		path := []string{"clusters", strconv.Itoa(i)}
		key := func(k ...string) []string { return append(slices.Clone(path), k...) }
		if c.Name == "" {
			v.at(key("name"), "must not be empty")
		}
		if seen[c.Name] {
			v.at(key("name"), "%q is the name of another cluster, too: give each its own", c.Name)
		}
		seen[c.Name] = true
		v.url(key("prometheus", "url"), c.Prometheus.URL)
		v.url(key("alertmanager", "url"), c.Alertmanager.URL)
		v.traces(key("traces"), c.Traces)
		v.secret(key("prometheus", "bearer_token_file"), c.Prometheus.BearerTokenFile)
		v.headers(key("prometheus", "headers_file"), c.Prometheus.HeadersFile)
		if c.Prometheus.URL == "" {
			for _, k := range []struct {
				name string
				set  bool
			}{{"bearer_token_file", c.Prometheus.BearerTokenFile != ""}, {"headers_file", c.Prometheus.HeadersFile != ""},
				{"match", len(c.Prometheus.Match) > 0}} {
				if k.set {
					v.at(key("prometheus", k.name), "has no use without a Prometheus: set prometheus.url, or remove it")
				}
			}
		}
		for name, value := range c.Prometheus.Match {
			if !labelName.MatchString(name) || value == "" {
				v.at(key("prometheus", "match", name), "%q: %q is not a label with its value, such as cluster: eu-1", name, value)
			}
		}
		for j, e := range c.Engines {
			v.url(key("engines", strconv.Itoa(j)), e)
		}
		if c.Kubernetes != nil {
			v.readable(key("kubernetes", "kubeconfig"), c.Kubernetes.Kubeconfig)
			if a := c.Kubernetes.FirstAidAccount; a != "" && !accountName.MatchString(a) {
				v.at(key("kubernetes", "first_aid_account"), "%q is not namespace/name, such as paramedic/paramedic-first-aid", a)
			}
		}
	}
}

// labelName matches the name of a label in PromQL.
var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// accountName matches a service account with its namespace.
var accountName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`)

func (v *validator) traces(path []string, c TracesConfig) {
	key := func(k string) []string { return append(slices.Clone(path), k) }
	v.url(key("tempo_url"), c.TempoURL)
	v.url(key("jaeger_url"), c.JaegerURL)
	v.secret(key("bearer_token_file"), c.BearerTokenFile)
	v.headers(key("headers_file"), c.HeadersFile)
	switch {
	case c.TempoURL != "" && c.JaegerURL != "":
		v.at(key("jaeger_url"), "cannot be set together with tempo_url: remove one of them")
	case c.TempoURL == "" && c.JaegerURL == "":
		for _, k := range []struct{ name, file string }{{"bearer_token_file", c.BearerTokenFile}, {"headers_file", c.HeadersFile}} {
			if k.file != "" {
				v.at(key(k.name), "has no use without a trace store: set tempo_url or jaeger_url, or remove it")
			}
		}
	}
}

func (v *validator) notify(n NotifyConfig) {
	v.secret([]string{"notify", "slack", "token_file"}, n.Slack.TokenFile)
	v.secret([]string{"notify", "slack", "signing_secret_file"}, n.Slack.SigningSecretFile)
	v.secret([]string{"notify", "pagerduty", "routing_key_file"}, n.PagerDuty.RoutingKeyFile)
	v.secret([]string{"notify", "pagerduty", "webhook_secret_file"}, n.PagerDuty.WebhookSecretFile)
	v.secret([]string{"notify", "pagerduty", "api_token_file"}, n.PagerDuty.APITokenFile)
	v.url([]string{"notify", "slack", "api_url"}, n.Slack.APIURL)
	for _, p := range n.PagerDuty.Notifier().Problems() {
		v.at([]string{"notify", "pagerduty", p.Key}, "%s", p.Text)
	}
	if u := n.Slack.APIURL; u != "" && !strings.HasSuffix(u, "/") {
		v.at([]string{"notify", "slack", "api_url"}, "must end in a slash")
	}
	if n.Slack.AppTokenFile != "" {
		v.at([]string{"notify", "slack", "app_token_file"},
			"this version has no Socket Mode: leave it empty, and give Slack the request URLs of "+
				"deploy/slack/manifest.yaml")
	}
	if n.Slack.TokenFile != "" && n.Slack.Channel == "" {
		v.at([]string{"notify", "slack", "channel"}, "is empty: name a channel, such as #llm-oncall")
	}
	v.halfConfigured(n)
	_, problems := wording.Load(n.Templates, nil)
	for _, p := range problems {
		if p.File == "" || p.Line == 0 {
			v.at([]string{"notify", "templates"}, "%s", strings.TrimSpace(p.File+" "+p.Text))
			continue
		}
		v.problems = append(v.problems, Problem{File: p.File, Line: p.Line, Text: p.Text})
	}
	for i, r := range n.Routes {
		path := []string{"notify", "routes", strconv.Itoa(i)}
		for _, s := range r.Severity {
			if s.Rank() == 0 {
				v.at(append(slices.Clone(path), "severity"), "%q is not one of critical, warning, info", s)
			}
		}
		v.causes(append(slices.Clone(path), "cause"), r.Cause)
		for _, ch := range r.Channels {
			v.channel(append(slices.Clone(path), "channels"), ch, n)
		}
	}
}

// halfConfigured reports a channel that has settings but not the key that switches it on. Such a
// channel would send nothing.
func (v *validator) halfConfigured(n NotifyConfig) {
	s, p := n.Slack, n.PagerDuty
	if s.TokenFile == "" && (s.APIURL != "" || s.Channel != Default().Notify.Slack.Channel) {
		v.at([]string{"notify", "slack", "token_file"},
			"is empty, so the bot would post nothing: set it, or remove notify.slack")
	}
	if p.RoutingKeyFile == "" && (p.APITokenFile != "" || p.From != "" || p.EventsURL != "" || p.APIURL != "") {
		v.at([]string{"notify", "pagerduty", "routing_key_file"},
			"is empty, so the bot would page no one: set it, or remove notify.pagerduty")
	}
}

// knownCauses returns the built-in causes and the user's own. It returns nil if the user's rules
// are invalid; loading the rules reports that.
func knownCauses(dir string) []state.Cause {
	known := append(slices.Clone(catalog.Vocabulary), state.Unknown)
	if dir == "" {
		return known
	}
	cat, problems, err := catalog.Load(dir)
	if err != nil || len(problems) > 0 {
		return nil
	}
	for _, cause := range cat.Causes() {
		known = append(known, cause.ID)
	}
	return known
}

// causes reports names that no cause has. A policy for a misspelt cause would never match, and so
// allow what it was meant to forbid.
func (v *validator) causes(path []string, causes []state.Cause) {
	for _, cause := range causes {
		if v.known != nil && !slices.Contains(v.known, cause) {
			v.at(path, "there is no cause %q: `paramedic rules list` lists them", cause)
		}
	}
}

// channel reports a route to a channel that is not configured.
func (v *validator) channel(path []string, ch state.Channel, n NotifyConfig) {
	configured := map[state.Channel]bool{state.ChannelConsole: n.Console, state.ChannelSlack: n.Slack.TokenFile != "",
		state.ChannelPagerDuty: n.PagerDuty.RoutingKeyFile != ""}
	on, known := configured[ch]
	switch {
	case !known:
		v.at(path, "%q is not one of console, slack, pagerduty", ch)
	case !on:
		v.at(path, "%s is not configured: configure it under notify, or remove it here", ch)
	}
}

var modes = []string{"observe", "suggest", "approve", "auto"}

func (v *validator) remediate(r RemediateConfig) {
	if !slices.Contains(modes, r.Mode) {
		v.at([]string{"remediate", "mode"}, "%q is not one of %s", r.Mode, strings.Join(modes, ", "))
	}
	if key, value, ok := strings.Cut(r.ManagedLabel, "="); r.ManagedLabel != "" && r.ManagedLabel != "-" &&
		(!ok || key == "" || value == "") {
		v.at([]string{"remediate", "managed_label"}, "%q is neither key=value nor - (no label)", r.ManagedLabel)
	}
	v.verification(r)
	v.limits([]string{"remediate", "limits"}, r.Limits.limits().Wrong())
	for i, p := range r.Policies {
		path := []string{"remediate", "policies", strconv.Itoa(i)}
		key := func(k string) []string { return append(slices.Clone(path), k) }
		for _, cause := range p.Cause {
			v.causes(key("cause"), []state.Cause{state.Cause(cause)})
		}
		if p.Mode != "" && !slices.Contains(modes, p.Mode) {
			v.at(key("mode"), "%q is not one of %s", p.Mode, strings.Join(modes, ", "))
		} else if slices.Index(modes, p.Mode) > slices.Index(modes, r.Mode) && slices.Contains(modes, r.Mode) {
			v.at(key("mode"), "%s has no effect: a policy can only tighten remediate.mode, which is %s. Set remediate.mode to "+
				"%[1]s and the stricter mode in policies, or remove this line", p.Mode, r.Mode)
		}
		v.limits(key("limits"), p.Limits.limits().WrongIn(r.Limits.limits().OrDefaults()))
		for _, w := range p.Freeze {
			if _, err := time.Parse("15:04", w.From); err != nil {
				v.at(key("freeze"), "from: %q is not a time such as 22:00", w.From)
			}
			if _, err := time.Parse("15:04", w.To); err != nil {
				v.at(key("freeze"), "to: %q is not a time such as 06:00", w.To)
			}
			for _, d := range w.Days {
				if !slices.Contains([]string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}, d) {
					v.at(key("freeze"), "%q is not a day: use mon, tue, wed, thu, fri, sat or sun", d)
				}
			}
		}
	}
}

// limits reports invalid limits. A limit that the file sets to zero is invalid too; only a limit
// that it omits keeps its default.
func (v *validator) limits(path []string, wrong []policy.LimitProblem) {
	key := func(k string) []string { return append(slices.Clone(path), k) }
	for _, w := range wrong {
		v.at(key(w.Key), "%s", w.Text)
	}
	for _, l := range policy.AllLimits {
		if zeroText.MatchString(v.doc.Value(key(l.Key)...)) {
			v.at(key(l.Key), "%s; to stop all writes of first aid, set mode: suggest", l.OutOfBounds(0))
		}
	}
}

// zeroText matches a number or a duration of zero.
var zeroText = regexp.MustCompile(`^[-+]?(0*\.?0+(ns|us|µs|ms|s|m|h)?)+$`)

// verification reports a window that is too short for the samples that a verdict needs, with the
// file's times or the defaults.
func (v *validator) verification(r RemediateConfig) {
	path := []string{"remediate", "verify", "min_samples"}
	v.notNegative(path, r.Verify.MinSamples)
	for _, k := range [][2]string{{"verify", "settle"}, {"verify", "window"}, {"verify", "interval"}, {"wait", "drain"},
		{"wait", "blocked"}, {"wait", "rollout"}, {"wait", "poll"}} {
		if zeroText.MatchString(v.doc.Value("remediate", k[0], k[1])) {
			v.at([]string{"remediate", k[0], k[1]}, "must be above 0: leave it out for the default")
		}
	}
	if err := (Config{Remediate: r}).timing(policy.Timing{}).Verifiable(); err != nil {
		v.at(path, "%s", err)
	}
}

// notNegative reports a number below zero. Zero keeps the default.
func (v *validator) notNegative(path []string, n int) {
	if n < 0 {
		v.at(path, "is %d: it must not be negative", n)
	}
}

// references reports clusters and actions that do not exist in routes and policies. Such a policy
// would never match, and so allow what it was meant to forbid.
func (v *validator) references(c *Config) {
	cluster := func(list string, i int, name string) {
		if name != "" && !slices.Contains(c.ClusterNames(), name) {
			section, key, _ := strings.Cut(list, ".")
			v.at([]string{section, key, strconv.Itoa(i), "scope", "cluster"}, "there is no cluster %q in clusters",
				name)
		}
	}
	for i, r := range c.Notify.Routes {
		cluster("notify.routes", i, r.Scope.Cluster)
	}
	actions := []string{playbooks.ActionSetEngineArg, playbooks.ActionRestartWorker}
	for i, p := range c.Remediate.Policies {
		cluster("remediate.policies", i, p.Scope.Cluster)
		for _, a := range p.Action {
			if !slices.Contains(actions, a) {
				v.at([]string{"remediate", "policies", strconv.Itoa(i), "action"}, "%q is not one of %s", a,
					strings.Join(actions, ", "))
			}
		}
	}
}
