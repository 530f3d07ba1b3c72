package service

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"paramedic/cmd/paramedic/config"
	"paramedic/state"
	"paramedic/webhook/access"
	"paramedic/webhook/chat"
)

// Every channel and page shows the playbook that the cause names.
func TestNamedPlaybookIsShownEverywhere(t *testing.T) {
	s, err := New(config.Default(), Deps{Store: idleStore{}, Clock: state.SystemClock{}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	in := &state.Incident{Diagnosis: state.Diagnosis{Cause: "my_cause", Playbook: "kv_exhaustion"}}
	if got := s.playbookFor(in, &state.Evidence{}).ID; got != "kv_exhaustion" {
		t.Errorf("messages show %q", got)
	}
	if got, _ := s.webPlaybook(in.Diagnosis.Playbook, in, nil); got.ID != "kv_exhaustion" {
		t.Errorf("the page shows %q", got.ID)
	}
	in.Diagnosis.Playbook = "" // as the page of an incident without a cause asks
	if got, _ := s.webPlaybook(in.Diagnosis.Playbook, in, nil); got.ID != "unknown" {
		t.Errorf("the page shows %q", got.ID)
	}
}

// A website that resolves its name to this machine can read nothing of an open bot, neither pages
// nor metrics.
func TestOpenBotRefusesOtherHostNames(t *testing.T) {
	cfg := config.Default()
	cfg.PublicURL = "https://oncall.example"
	s, err := New(cfg, Deps{Store: idleStore{}, Clock: state.SystemClock{}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{"rebound.example:8080": http.StatusForbidden, "127.0.0.1:8080": http.StatusOK,
		"oncall.example": http.StatusOK} {
		for _, path := range []string{"/", "/incidents", "/fleet", "/actions", "/playbooks", "/metrics", "/api/v1/status"} {
			w := httptest.NewRecorder()
			s.Handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://"+host+path, nil))
			if w.Code != want {
				t.Errorf("%s asked for %s was answered with %d, want %d", host, path, w.Code, want)
			}
		}
	}
}

// An invalid alert is shown on the page and counted, and the other alerts of its payload are
// triaged.
func TestSetAsideAlertsAreShownAndCounted(t *testing.T) {
	base, bot := startBot(t)
	bad := `{"status":"firing","labels":{"alertname":"Bad\u001b[2J<b>"},"startsAt":"2026-11-21T02:59:00Z"},`
	resp, err := http.Post(base+"/webhook/alertmanager", "application/json", strings.NewReader(strings.Replace(oneAlert, `"alerts":[`, `"alerts":[`+bad, 1)))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	awaitAlerts(t, bot, 1)
	for path, want := range map[string]string{"/": "Paramedic could not read some alerts", "/metrics": `paramedic_alerts_set_aside_total{reason="control_character"} 1`,
		"/api/v1/status": `"reason":"control_character"`} {
		resp, err := http.Get(base + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !strings.Contains(string(body), want) || strings.Contains(string(body), "\x1b") || path == "/" &&
			strings.Contains(string(body), "<b>\"") {
			t.Errorf("%s: %v: %s", path, err, body)
		}
	}
}

// Feedback may name every cause of the rules, and no other.
func TestFeedbackTakesCausesOfTheRules(t *testing.T) {
	base, bot := startBot(t)
	send := func(path, body string) (int, string) { return ask(t, http.MethodPost, base+path, body) }
	send("/webhook/alertmanager", oneAlert)
	awaitAlerts(t, bot, 1)
	for cause, code := range map[string]int{"kv_leak": http.StatusOK, "kv_leaks": http.StatusBadRequest} {
		got, answer := send("/api/v1/incidents/1/feedback", `{"right":false,"cause":"`+cause+`"}`)
		if got != code || code != http.StatusOK && !strings.Contains(answer, "kv_exhaustion, kv_leak, ") {
			t.Errorf("%s: %d: %s", cause, got, answer)
		}
	}
}

// The bot never asks the addresses that an alert brings: they are text of those who can fire one.
func TestAddressesInAlertsAreNotFetched(t *testing.T) {
	var asked atomic.Int64
	trap := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer trap.Close()
	base, bot := startBot(t)
	payload := strings.NewReplacer(`"annotations":{}`, `"annotations":{"runbook_url":"`+trap.URL+`/runbook","dashboard":"`+trap.URL+`/d"}`,
		`"generatorURL":""`, `"generatorURL":"`+trap.URL+`/graph?g0.expr=vllm%3Anum_requests_waiting+%3E+5"`,
		`"externalURL":"http://am"`, `"externalURL":"`+trap.URL+`"`).Replace(oneAlert)
	resp, err := http.Post(base+"/webhook/alertmanager", "application/json", strings.NewReader(payload))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	awaitAlerts(t, bot, 1)
	awaitStorm(t, bot, "the evidence is gathered", func(all []state.Incident) bool {
		_, due := bot.Keeper.OldestDue()
		_, gathered := bot.Keeper.Evidence(all[0].ID)
		return gathered && due == 0
	})
	if n := asked.Load(); n > 0 {
		t.Errorf("the bot asked an alert's address %d times", n)
	}
}

// The metrics export the backlog of triage and of the outbox.
func TestMetricsExportTheBacklog(t *testing.T) {
	base, bot := startBot(t)
	resp, err := http.Post(base+"/webhook/alertmanager", "application/json", strings.NewReader(oneAlert))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	awaitAlerts(t, bot, 1)
	page := metricsOf(t, base)
	for _, name := range []string{"paramedic_backlog_inputs", "paramedic_backlog_alerts", "paramedic_backlog_oldest_seconds",
		"paramedic_backlog_work_seconds"} {
		if !strings.Contains(page, name+`{partition="0"} 0`) {
			t.Errorf("no %s of an idle partition", name)
		}
	}
	for _, name := range []string{"paramedic_outbox_due ", "paramedic_outbox_oldest_seconds "} {
		if !strings.Contains(page, "\n"+name) {
			t.Errorf("no %s", name)
		}
	}
}

// In Slack, known users and the incident channel may read incidents. A guest elsewhere may not.
func TestSlackReadersNeedATokenOrTheChannel(t *testing.T) {
	cfg := config.Default()
	cfg.Notify.Slack.Channel = "#llm-oncall"
	cfg.Remediate.Policies = []config.PolicyConfig{{Approvers: config.List[string]{"U0APPROVER"}}}
	dir := t.TempDir()
	put(t, dir, "tokens.yaml", []byte("- {token: some-token, name: ana, role: viewer, slack_user: U0ANA}\n"))
	tokens, err := access.LoadTokens(filepath.Join(dir, "tokens.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		channel string
		by      chat.Asker
		want    bool
	}{
		{"#llm-oncall", chat.Asker{User: "U0ANA", ChannelName: "directmessage"}, true},
		{"#llm-oncall", chat.Asker{User: "U0APPROVER", ChannelName: "general"}, true},
		{"#llm-oncall", chat.Asker{User: "U9GUEST", Channel: "C1", ChannelName: "llm-oncall"}, true},
		{"C1", chat.Asker{User: "U9GUEST", Channel: "C1", ChannelName: "privategroup"}, true},
		{"#llm-oncall", chat.Asker{User: "U9GUEST", Channel: "C2", ChannelName: "general"}, false},
		{"C1", chat.Asker{User: "U9GUEST", Channel: "C2", ChannelName: "privategroup"}, false},
		{"", chat.Asker{User: "U9GUEST"}, false},
		{"#llm-oncall", chat.Asker{}, false},
	} {
		cfg.Notify.Slack.Channel = c.channel
		for name, tokens := range map[string]*access.Tokens{"tokens": tokens, "no tokens": nil} {
			want := c.want && (tokens != nil || c.by.User != "U0ANA")
			if got := (&Service{cfg: cfg}).maySlackRead(tokens)(c.by); got != want {
				t.Errorf("%s, channel %q: %+v may read: %t", name, c.channel, c.by, got)
			}
		}
	}
}

// To deny needs fewer rights than to approve: everyone who may act may deny.
func TestSlackRightsFollowTheVerb(t *testing.T) {
	cfg := config.Default()
	cfg.Remediate.Policies = []config.PolicyConfig{{Approvers: config.List[string]{"U0LISTED", "U0OTHER"}}}
	s, action := &Service{cfg: cfg}, &state.Action{Approvers: []string{"U0LISTED"}}
	people := map[string]state.Actor{"admin": {ID: "U0ADMIN", Role: state.Admin}, "responder": {ID: "U0RESP", Role: state.Responder},
		"viewer": {ID: "U0VIEW", Role: state.Viewer},
		"listed": {ID: "U0LISTED"}, "listed elsewhere": {ID: "U0OTHER"}, "guest": {ID: "U0GUEST"}}
	for _, c := range []struct {
		verb   state.Verb
		action *state.Action
		may    string
	}{
		{state.VerbApprove, action, "listed"},
		{state.VerbDeny, action, "admin listed responder"},
		{state.VerbCancel, action, "admin listed responder"},
		{state.VerbAck, nil, "admin listed listed elsewhere responder"},
		{state.VerbHalt, nil, "admin listed listed elsewhere responder"},
		{state.VerbResume, nil, "admin"},
	} {
		var may []string
		for name, by := range people {
			by.Via = "slack"
			if reason, ok := s.authorizeSlack(by, c.verb, c.action); ok {
				may = append(may, name)
			} else if reason == "" {
				t.Errorf("%s by the %s is refused without a reason", c.verb, name)
			}
		}
		if slices.Sort(may); strings.Join(may, " ") != c.may {
			t.Errorf("%s: %q may, want %q", c.verb, may, c.may)
		}
	}
}
