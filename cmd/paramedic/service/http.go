package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"paramedic/cmd/paramedic/config"
	"paramedic/internal/incidentlog"
	"paramedic/internal/text"
	"paramedic/notify"
	"paramedic/notify/console"
	"paramedic/notify/pagerduty"
	"paramedic/notify/slack"
	"paramedic/notify/web"
	"paramedic/notify/wording"
	"paramedic/playbooks"
	"paramedic/rules/signals"
	"paramedic/state"
	"paramedic/state/outbox"
	"paramedic/webhook"
	"paramedic/webhook/access"
	"paramedic/webhook/chat"
)

// newHandler returns the handler of all requests: webhooks, API, pages and metrics.
func (s *Service) newHandler() (http.Handler, error) {
	c, tokens := s.cfg, s.tokens
	open := OnLoopback(c.Listen)
	var server *webhook.Server // the pages ask it who is there, and it serves them
	cfg := web.Config{Intake: func() web.Intake { return s.intake(server.Refusing()) }}
	if tokens != nil {
		cfg.Authenticate = func(r *http.Request) (state.Actor, bool) { return server.Authenticate(r) }
		cfg.Login = func(r *http.Request, token string) (string, error) {
			session, err := server.Login(r, token)
			if errors.Is(err, access.ErrGuesses) {
				err = web.ErrTooManyLogins
			}
			return session, err
		}
		cfg.Logout = func(r *http.Request) { server.Logout(r) }
	}
	pages, err := s.pages(cfg)
	if err != nil {
		return nil, err
	}
	server = webhook.New(webhook.Config{
		Log: s.tracer.Log(s.Keeper), View: s.Keeper, Clock: s.deps.Clock, Logger: s.deps.Logger, Clusters: c.ClusterNames(),
		Titles: titlesOf(s.catalog), Causes: s.causes(), Retain: c.State.Retain.D(),
		Alertmanager: access.AlertmanagerAuth{
			Bearer:        access.NewSecret(c.Auth.Alertmanager.BearerTokenFile),
			BasicUser:     c.Auth.Alertmanager.BasicAuth.Username,
			BasicPassword: access.NewSecret(c.Auth.Alertmanager.BasicAuth.PasswordFile),
			ClientCert:    c.Auth.Alertmanager.ClientCAFile != "", Open: open,
		},
		API: access.APIAuth{Tokens: tokens, Open: open},
		Slack: chat.Config{SigningSecret: access.NewSecret(c.Notify.Slack.SigningSecretFile),
			Authorize: s.authorizeSlack, MayRead: s.maySlackRead(tokens), APIURL: c.Notify.Slack.APIURL,
			HTTP: &http.Client{Timeout: 5 * time.Second}},
		PagerDuty: webhook.PagerDuty{Secret: access.NewSecret(c.Notify.PagerDuty.WebhookSecretFile)},
		Fleet:     s.fleet, Ready: s.Keeper.Ready, Loading: s.Keeper.Loading, Observe: s.metrics.observe, Pages: pages,
		Metrics: s.metrics.handler(),
		Backlog: s.Keeper, Skipped: s.skipped, Replica: s.Keeper.Replica, Limits: webhook.Limits{Lag: c.Triage.MaxLag.D()},
		PublicURL: c.PublicURL, Aside: s.deps.aside, Sessions: s.deps.sessions, ObserveAside: s.metrics.aside,
	})
	s.closeStreams = server.Close
	return server, nil
}

// OnLoopback reports whether an address to listen on is one of this machine only.
func OnLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	return err == nil && config.Loopback(host)
}

// authorizeSlack returns whether a Slack user may do what the verb names, and the reason if not.
// Approval follows the same rule as in the API. To deny, it is enough to be a responder or one of
// the action's approvers. The tokens file gives a user the role of the token that names them.
func (s *Service) authorizeSlack(by state.Actor, verb state.Verb, action *state.Action) (string, bool) {
	listed := s.isApprover(by.ID)
	if action != nil {
		listed = slices.Contains(action.Approvers, by.ID)
	}
	switch {
	case verb == state.VerbApprove && action != nil:
		reason := by.WhyNotApprove(action.Approvers)
		return reason, reason == ""
	case verb == state.VerbResume:
		return "only an admin may allow first aid again", by.Role.Allows(state.Admin)
	case by.Role.Allows(state.Responder), listed:
		return "", true
	}
	return "your Slack user is not in auth.api.tokens_file (slack_user) with the role responder, nor an approver in " +
		"remediate.policies", false
}

// maySlackRead returns a function that reports whether a Slack user may list incidents. Users whom
// the tokens file or a policy names may, and so may everyone in the incident channel. Guests
// elsewhere in the workspace may not.
func (s *Service) maySlackRead(tokens *access.Tokens) func(chat.Asker) bool {
	channel := strings.TrimPrefix(s.cfg.Notify.Slack.Channel, "#")
	return func(by chat.Asker) bool {
		if _, role, ok := tokens.SlackUser(by.User); ok && role.Allows(state.Viewer) || s.isApprover(by.User) {
			return true
		}
		return channel != "" && (by.Channel == channel || by.ChannelName == channel)
	}
}

func (s *Service) isApprover(user string) bool {
	return slices.ContainsFunc(s.cfg.Remediate.Policies,
		func(p config.PolicyConfig) bool { return slices.Contains(p.Approvers, user) })
}

// notifiers creates the configured channels.
func (s *Service) notifiers(links notify.Links) (*notify.Handler, error) {
	n := s.cfg.Notify
	all := map[state.Channel]notify.Notifier{}
	if n.Console {
		all[state.ChannelConsole] = console.New(console.Options{Out: s.deps.Out, Colour: s.deps.Colour})
	}
	if n.Slack.TokenFile != "" {
		cfg := slack.Config{TokenFile: n.Slack.TokenFile, SigningSecretFile: n.Slack.SigningSecretFile,
			Channel: n.Slack.Channel, APIURL: n.Slack.APIURL}
		if err := cfg.Validate(); err != nil {
			return nil, fmt.Errorf("notify.slack: %w", err)
		}
		all[state.ChannelSlack] = slack.New(cfg, slack.Options{Clock: s.deps.Clock, Log: s.deps.Logger, TookOver: s.Keeper.TookOver,
			Token: access.NewSecret(n.Slack.TokenFile).Value, Approves: s.tokens.SlackApproves})
	}
	handler := notify.HandlerConfig{View: s.Keeper, Clock: s.deps.Clock, Notifiers: all, Links: links, Since: s.Keeper.Since,
		Several: len(s.cfg.Clusters) > 1, Playbook: s.playbookFor, Titles: titlesOf(s.catalog)}
	if len(n.Templates) > 0 {
		templates, problems := wording.Load(n.Templates, s.deps.Logger)
		if len(problems) > 0 {
			return nil, fmt.Errorf("notify.templates: %s", problems[0])
		}
		handler.Wording = func(ctx context.Context, ch state.Channel, f notify.Facts, m notify.Message) notify.Words {
			return templates.Words(ctx, ch, f, m, s.deps.Clock.Now())
		}
	}
	if n.PagerDuty.RoutingKeyFile != "" {
		cfg := n.PagerDuty.Notifier()
		if err := cfg.Validate(); err != nil {
			return nil, fmt.Errorf("notify.pagerduty: %w", err)
		}
		pager := pagerduty.New(cfg, pagerduty.Options{Clock: s.deps.Clock, TookOver: s.Keeper.TookOver,
			RoutingKey: access.NewSecret(n.PagerDuty.RoutingKeyFile).Value,
			APIToken:   access.NewSecret(n.PagerDuty.APITokenFile).Value})
		all[state.ChannelPagerDuty] = pager
		handler.Flood = s.Keeper.Flood
		s.background = append(s.background, func(ctx context.Context) error {
			outbox.WatchFlood(ctx, outbox.FloodConfig{Source: s.Keeper, Log: s.Keeper, Lease: s.lease, Clock: s.deps.Clock,
				Logger: s.deps.Logger, Channel: state.ChannelPagerDuty, PerMinute: pagerduty.PerMinute})
			return nil
		})
		if n.PagerDuty.APITokenFile != "" {
			handler.Noter = pager
		}
	}
	return notify.NewHandler(handler), nil
}

// NewRouter creates the routes. The default routes use configured channels only.
func NewRouter(cfg config.Config) (*notify.Router, error) { return NewRouterFor(cfg, cfg.Channels()) }

// NewRouterFor creates the routes as if exactly these channels were configured.
func NewRouterFor(cfg config.Config, channels []state.Channel) (*notify.Router, error) {
	var routes []notify.Route
	for _, r := range cfg.Notify.Routes {
		routes = append(routes, notify.Route{Severity: r.Severity, Cause: r.Cause, Cluster: r.Scope.Cluster,
			Namespace: r.Scope.Namespace,
			Model:     r.Scope.Model, Pool: r.Scope.Pool, Channels: r.Channels})
	}
	return notify.NewRouter(routes, channels)
}

// playbookFor returns the playbook for the incident's verdict, with its checks answered, for
// messages.
func (s *Service) playbookFor(in *state.Incident, ev *state.Evidence) notify.Playbook {
	pb, ok := s.Library.For(in.Diagnosis)
	if !ok {
		return notify.Playbook{}
	}
	out := notify.Playbook{ID: pb.ID, Title: pb.Title, Escalate: pb.Escalate.String()}
	for _, a := range playbooks.Answers(pb, *in, *ev) {
		out.Checks = append(out.Checks, notify.Check{Ask: a.Check.Ask, Answer: a.Text, State: string(a.State)})
	}
	return out
}

// pages returns the handler of the incident pages.
func (s *Service) pages(cfg web.Config) (http.Handler, error) {
	cfg.View, cfg.Clock, cfg.Logger = s.Keeper, s.deps.Clock, s.deps.Logger
	cfg.Mode, cfg.Version, cfg.Clusters = s.cfg.Remediate.Mode, Version, s.cfg.ClusterNames()
	cfg.Playbook, cfg.Playbooks, cfg.Fleet = s.webPlaybook, s.playbookIDs, s.webFleet
	cfg.Replica, cfg.Loading, cfg.Causes = s.Keeper.Replica, s.Keeper.Loading, s.causes()
	cfg.Titles, cfg.Units = map[string]string{}, map[string]string{}
	known, err := signals.LoadSignals()
	if err != nil {
		return nil, fmt.Errorf("loading the signals: %w", err)
	}
	for _, signal := range known {
		cfg.Titles[signal.ID], cfg.Units[signal.ID] = signal.Title, signal.Unit
	}
	for _, symptom := range s.catalog.Symptoms() {
		cfg.Titles["symptom:"+string(symptom.ID)] = symptom.Title
	}
	return web.New(cfg)
}

// causes returns the IDs of the causes that an incident may have, sorted.
func (s *Service) causes() []state.Cause {
	return slices.Sorted(maps.Keys(s.catalog.CauseTable()))
}

// skipped returns how many inputs the bot skipped, and the newest. Its reason is one line: the text
// of a panic may come from an alert.
func (s *Service) skipped() (n uint64, newest state.SkippedInput) {
	n, newest = s.Keeper.Skipped()
	newest.Reason = text.Line(newest.Reason, 500)
	return n, newest
}

// intake returns the state of incoming alerts for the pages.
func (s *Service) intake(refusing string) web.Intake {
	in := web.Intake{Refusing: refusing}
	in.Skipped, in.Newest = s.skipped()
	list, _ := s.deps.aside.Last()
	for _, a := range list {
		in.Aside = append(in.Aside, web.Aside{Alert: a.Alert, Text: a.Text, Receiver: a.Receiver, Count: a.Count,
			Last: a.Last})
	}
	return in
}

// playbookIDs returns the IDs of the playbooks, for the pages.
func (s *Service) playbookIDs() []string {
	var ids []string
	for _, pb := range s.Library.All() {
		ids = append(ids, pb.ID)
	}
	return ids
}

// webPlaybook returns a playbook for the pages. With an incident it is the playbook for that
// incident's verdict. Without one it is the playbook of the ID, and its checks have no answers.
func (s *Service) webPlaybook(id string, in *state.Incident, ev *state.Evidence) (web.Playbook, bool) {
	pb, ok := s.Library.Get(id)
	var incident state.Incident
	var evidence state.Evidence
	if in != nil {
		incident = *in
		pb, ok = s.Library.For(in.Diagnosis)
	}
	if !ok {
		return web.Playbook{}, false
	}
	if ev != nil {
		evidence = *ev
	}
	run := playbooks.Run(pb, incident, evidence)
	body, err := playbooks.HTML(run.Body)
	if err != nil {
		log := s.deps.Logger
		if in != nil {
			log = log.With(incidentlog.Key, in.ID)
		}
		log.Warn("a playbook cannot be shown", "playbook", id, "err", err)
	}
	safe := template.HTML(body) //nolint:gosec // the library renders Markdown without raw HTML
	out := web.Playbook{ID: pb.ID, Title: pb.Title, Cause: pb.Cause, Severity: pb.Severity, Body: safe,
		Worse:    run.Worse,
		Escalate: run.Escalate}
	for _, a := range run.Answers {
		check := web.Check{ID: a.Check.ID, Ask: a.Check.Ask, State: string(a.State), Limit: a.Limit, ByHand: a.ByHand,
			Signal: a.Check.Signal}
		if in != nil {
			check.Answer = a.Text
		} else {
			check.State = ""
		}
		if a.Check.Agg != "sum" { // no single line of a chart reaches a limit on the sum of pods
			check.Threshold = cmp.Or(a.Check.Crit, a.Check.Warn)
		}
		out.Checks = append(out.Checks, check)
	}
	for _, r := range run.FirstAid {
		out.FirstAid = append(out.FirstAid, web.Step{Text: r.Text, When: r.When, Action: r.Action})
	}
	return out, true
}
