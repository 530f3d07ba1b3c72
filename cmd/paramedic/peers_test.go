package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"paramedic/cmd/paramedic/config"
	"paramedic/cmd/paramedic/service"
	"paramedic/lab/alerting"
	"paramedic/notify/pagerduty/pagerdutytest"
	"paramedic/notify/slack"
	"paramedic/notify/slack/slacktest"
	"paramedic/state"
	"paramedic/state/jetstream"
)

// The tests of this file are named after bugs that users of other tools reported. Each says what
// happened there. It shows on the whole bot, with a log on disk and real HTTP, that it cannot
// happen here.

// An onCall is a bot as a team runs it, with fake Slack and PagerDuty.
type onCall struct {
	t      *testing.T
	dir    string
	slack  *slacktest.Server
	pager  *pagerdutytest.Server
	settle string // how long symptoms are gathered
	extra  string // more of the configuration
	url    string
	cfg    config.Config
	bot    *service.Service
	log    *slog.Logger                  // nil: none
	store  func(state.Store) state.Store // replaces the bot's store by one around it; nil: the store itself
	stop   func()
}

const (
	onCallSecret = "8f742231b10e8888abcd99yyyzzz85a5"
	onCallKey    = "0123456789abcdef0123456789abcdef"
)

func newOnCall(t *testing.T, extra string) *onCall { return newOnCallAfter(t, "10ms", extra) }

func newOnCallAfter(t *testing.T, settle, extra string) *onCall {
	return newOnCallAs(t, settle, extra, "")
}

// newOnCallAs also takes keys of the section notify.
func newOnCallAs(t *testing.T, settle, extra, notify string) *onCall {
	o := &onCall{t: t, dir: t.TempDir(), settle: settle, extra: notify + extra, slack: slacktest.New(slacktest.Options{}),
		pager: pagerdutytest.New(pagerdutytest.Options{RoutingKey: onCallKey})}
	o.begin("- {token: 0123456789abcdef0123456789abcdef, name: ada, role: responder, slack_user: U0ADA}\n")
	return o
}

// begin starts the bot with a tokens file.
func (o *onCall) begin(tokens string) {
	t := o.t
	t.Cleanup(func() {
		o.slack.Close()
		o.pager.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	for name, text := range map[string]string{"slack": "xoxb-1", "signing": onCallSecret, "routing": onCallKey,
		"tokens.yaml": tokens} {
		put(t, o.dir, name, []byte(text))
	}
	if err := os.Mkdir(filepath.Join(o.dir, "rules"), 0o700); err != nil {
		t.Fatal(err)
	}
	o.start()
	t.Cleanup(func() { o.stop() })
}

// start starts the bot on its stored state.
func (o *onCall) start() {
	o.t.Helper()
	file := func(name string) string { return filepath.Join(o.dir, name) }
	cfg, err := config.Parse("paramedic.yaml", fmt.Appendf(nil, `
listen: 127.0.0.1:0
state: {dir: %s}
auth: {api: {tokens_file: %s}}
triage: {settle: %s, rules_dir: %s}
notify:
  console: false
  slack: {token_file: %s, signing_secret_file: %s, api_url: %q}
  pagerduty: {routing_key_file: %s, events_url: %q, api_url: %q}
%s`, file("data"), file("tokens.yaml"), o.settle, file("rules"), file("slack"), file("signing"), o.slack.URL(), file("routing"), o.pager.URL(), o.pager.URL(), o.extra))
	if err != nil {
		o.t.Fatal(err)
	}
	o.cfg = cfg
	log := o.log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	store, err := jetstream.Open(o.t.Context(), jetstream.Config{Dir: cfg.State.Dir, Retain: time.Hour, Logger: log})
	if err != nil {
		o.t.Fatal(err)
	}
	used := state.Store(store)
	if o.store != nil {
		used = o.store(store)
	}
	if o.bot, err = service.New(cfg, service.Deps{Store: used, Clock: state.SystemClock{}, Logger: log, Out: io.Discard}); err != nil {
		o.t.Fatal(err)
	}
	server := httptest.NewServer(o.bot.Handler)
	o.url = server.URL
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		if err := o.bot.Run(ctx); err != nil {
			o.t.Error(err)
		}
	})
	bot := o.bot
	o.stop = sync.OnceFunc(func() {
		bot.CloseStreams()
		server.Close()
		cancel()
		group.Wait()
		if err := store.Close(context.Background()); err != nil {
			o.t.Error(err)
		}
	})
	o.await("the bot is ready", func() bool { return o.bot.Keeper.Ready(ctx) == nil })
}

func (o *onCall) await(what string, ok func() bool) {
	o.t.Helper()
	late := time.After(time.Minute)
	for !ok() {
		select {
		case <-late:
			o.t.Fatalf("never: %s; incidents %+v", what, o.bot.Keeper.Incidents())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// alert delivers a firing alert from an Alertmanager that the bot's configuration does not name.
func (o *onCall) alert(labels map[string]string) {
	o.t.Helper()
	am := alerting.NewAlertmanager(alerting.AlertmanagerConfig{URL: o.url + "/webhook/alertmanager",
		ExternalURL: "https://alerts.another-team.example"})
	now := time.Now().UTC()
	am.Receive(now, []alerting.Alert{{Labels: labels, StartsAt: now.Add(-time.Minute),
		Annotations: map[string]string{"summary": "KV cache is almost full"}}})
	if err := am.Deliver(o.t.Context(), now.Add(time.Minute)); err != nil {
		o.t.Fatal(err)
	}
}

var kvFull = map[string]string{"alertname": "VLLMKVCacheExhaustion", "severity": "critical", "namespace": "llm", "model_name": "llama-70b",
	"pod": "vllm-llama-6d5f8c7b9-abcde"}

// paged reports whether PagerDuty and Slack each have one message.
func (o *onCall) paged() bool {
	return len(o.pager.Incidents()) == 1 && len(o.slack.Messages()) == 1
}

// settled waits until every channel shows the current revision.
func (o *onCall) settled() {
	o.t.Helper()
	o.await("nothing is pending", func() bool {
		for _, in := range o.bot.Keeper.Incidents() {
			for _, ch := range in.Channels {
				if in.Told.Rev(ch) < in.Rev {
					return false
				}
			}
		}
		return true
	})
}

// HolmesGPT, issue 2230: it accepted webhooks of an Alertmanager outside its own stack, and ignored
// their alerts. Here the bot accepts alerts of every Alertmanager. It answers 200 when an alert is
// on disk, and the alert becomes a diagnosed incident that is notified. Only the URL has to be
// configured.
func TestHolmes2230AnyAlertmanagersWebhookIsTriaged(t *testing.T) {
	o := newOnCall(t, "")
	o.alert(kvFull)
	o.await("paged and posted", o.paged)
	in := o.bot.Keeper.Incidents()[0]
	if in.DiagnosedAt.IsZero() || in.Symptoms[0].Symptom != "kv_pressure" || in.Scope.Namespace != "llm" {
		t.Errorf("%+v", in)
	}
	if said := string(o.slack.Messages()[0].Blocks); !strings.Contains(said, "llama-70b") {
		t.Errorf("Slack shows %s", said)
	}
}

// Robusta, issue 2102: a step of its enrichment called an endpoint that its vendor had removed, and
// failed. Here triage needs no vendor's service. If the operator's own services answer 404, people
// are still paged, and the message lists what is unknown.
func TestRobusta2102MissingEndpointDelaysNoPage(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	defer gone.Close()
	o := newOnCall(t, fmt.Sprintf("clusters: [{name: default, prometheus: {url: %q}, traces: {tempo_url: %q}, engines: [%q]}]\n", gone.URL,
		gone.URL, gone.URL+"/metrics"))
	o.alert(kvFull)
	o.await("paged and posted", o.paged)
	in := o.bot.Keeper.Incidents()[0]
	if len(in.Diagnosis.Missing) == 0 || in.Cause() != state.Unknown {
		t.Errorf("missing %q, cause %s", in.Diagnosis.Missing, in.Cause())
	}
}

// Robusta, issue 419: a restart of its one runner lost alerts or sent duplicates. Here a bot that
// is killed between sending a message and recording it sends no duplicate. Alerts from before the
// kill are notified after the restart.
func TestRobusta419RestartSendsNoDuplicates(t *testing.T) {
	o := newOnCall(t, "")
	o.slack.Inject(slacktest.Fault{Method: "chat.postMessage", Kind: slacktest.Lost}) // posted, and the answer never comes
	o.pager.Inject(pagerdutytest.Fault{Kind: pagerdutytest.Lost})
	o.alert(kvFull)
	o.await("both have it", o.paged)
	o.stop()
	o.start()
	o.alert(map[string]string{"alertname": "VLLMRequestQueueBackup", "severity": "warning", "namespace": "llm", "model_name": "llama-70b",
		"pod": "vllm-llama-6d5f8c7b9-abcde"})
	o.await("the second alert is part of it", func() bool {
		all := o.bot.Keeper.Incidents()
		return len(all) == 1 &&
			all[0].AlertCount == 2
	})
	o.settled()
	if !o.paged() {
		t.Errorf("%d pages, %d messages", len(o.pager.Incidents()), len(o.slack.Messages()))
	}
	if got := append(o.slack.Failures(), o.pager.Failures()...); len(got) > 0 {
		t.Error(got)
	}
}

// Keep, issue 6793: a user's rule was silently ignored. Here a rule is used, or the bot refuses to
// start and prints its line.
func TestKeep6793OwnRuleIsUsedOrRefused(t *testing.T) {
	o := newOnCall(t, "")
	o.stop()
	rules := filepath.Join(o.dir, "rules")
	put(t, rules, "ours.yaml", []byte("alerts:\n  - {name: OurCacheRule, symptom: kv_pressure}\n"))
	o.start()
	ours := maps.Clone(kvFull)
	ours["alertname"] = "OurCacheRule"
	o.alert(ours)
	o.await("paged", o.paged)
	if in := o.bot.Keeper.Incidents()[0]; in.Symptoms[0].Symptom != "kv_pressure" {
		t.Errorf("the rule was ignored: %+v", in.Symptoms)
	}
	for wrong, says := range map[string]string{
		"alerts:\n  - {nane: OurCacheRule, symptom: kv_pressure}\n": "ours.yaml:2",
		"alerts:\n  - {name: OurCacheRule, symptom: kv_presure}\n":  "ours.yaml:2",
		"alarms:\n  - {name: OurCacheRule, symptom: kv_pressure}\n": "ours.yaml:1",
	} {
		put(t, rules, "ours.yaml", []byte(wrong))
		_, err := service.New(o.cfg, service.Deps{Store: idleStore{}, Clock: state.SystemClock{}, Logger: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q is answered %v", wrong, err)
		}
	}
}

// HolmesGPT, issue 431: buttons did not work if self-hosted, because clicks went through the
// vendor. Here Slack signs clicks and sends them to the bot itself. Every shown button works, up to
// the recorded decision.
func TestHolmes431EveryButtonWorks(t *testing.T) {
	o := newOnCall(t, "remediate: {policies: [{scope: {namespace: llm}, approvers: [U0ADA]}]}\n")
	o.alert(kvFull)
	o.await("posted", o.paged)
	in := o.bot.Keeper.Incidents()[0]
	plan := state.Action{ID: "ACT-01", Incident: in.ID, Kind: "set_engine_arg", Mode: "approve", State: state.AwaitingApproval,
		PlanHash: "h1", Approvers: []string{"U0ADA"},
		Change: "max_num_seqs 256 → 128", ExpiresAt: time.Now().Add(time.Hour), Target: state.Target{Cluster: in.Cluster, Namespace: "llm",
			Kind: "Deployment", Name: "vllm-llama"},
		Steps: []state.ActionStep{{State: state.AwaitingApproval, At: time.Now()}}}
	other := plan
	other.ID, other.PlanHash, other.Change = "ACT-02", "h2", "restart pod llm/vllm-llama-6d5f8c7b9-abcde"
	for _, a := range []state.Action{plan, other} {
		if err := o.bot.Keeper.Append(t.Context(), state.Input{Cluster: in.Cluster, Action: &state.ActionEvent{Action: a}}); err != nil {
			t.Fatal(err)
		}
	}
	shown := func(button string) []string { return o.slack.Messages()[0].Buttons(button) }
	o.await("both plans are shown with their buttons",
		func() bool { return len(shown(slack.ActionApprove)) == 2 && len(shown(slack.ActionDeny)) == 2 })
	o.click(slack.ActionAck, 0)
	o.await("acknowledged", func() bool { got, _ := o.bot.Keeper.Incident(in.ID); return got.AckedBy.ID == "U0ADA" })
	o.click(slack.ActionDeny, 1)
	o.await("denied", func() bool {
		a, _ := o.bot.Keeper.Action("ACT-02")
		return a.State == state.Denied && a.DecidedBy.ID == "U0ADA"
	})
	o.click(slack.ActionApprove, 0)
	o.await("approved", func() bool {
		a, _ := o.bot.Keeper.Action("ACT-01")
		return a.DecidedBy.ID == "U0ADA" && a.State != state.AwaitingApproval
	})
	o.settled()
	for _, button := range []string{slack.ActionAck, slack.ActionApprove, slack.ActionDeny} {
		if left := shown(button); len(left) != 0 {
			t.Errorf("what was decided still has the button %s", button)
		}
	}
	if got := o.slack.Whispers(); len(got) != 0 {
		t.Errorf("a click was answered %q", got)
	}
}

// click sends a click as Slack does.
func (o *onCall) click(button string, n int) {
	o.t.Helper()
	body, err := o.slack.Click(slacktest.Person{ID: "U0ADA", Name: "ada"}, o.slack.Messages()[0].TS, button, n)
	if err != nil {
		o.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(o.t.Context(), http.MethodPost, o.url+"/webhook/slack/interaction", bytes.NewReader(body))
	if err != nil {
		o.t.Fatal(err)
	}
	req.Header = slacktest.Sign(onCallSecret, body, time.Now())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		o.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		o.t.Fatalf("the click on %s was answered %s", button, resp.Status)
	}
}
