package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"paramedic/notify/slack/slacktest"
	"paramedic/state/jetstream/natstest"
)

// secrets has a value for every secret that a configuration can name.
var secrets = map[string]string{
	"alertmanager": "s3cret-of-alertmanager-0001", "password": "s3cret-basic-password-0002", "api": "s3cret-token-of-ada-00000003",
	"slack": "xoxb-s3cret-0004", "signing": "s3cret-signing-0005", "routing": "5ec2e70000000000000000000000000006",
	"subscription": "s3cret-subscription-0007", "rest": "s3cret-rest-token-0008", "prometheus": "s3cret-prometheus-0009",
	"traces": "s3cret-traces-0010", "collector": "s3cret-collector-0011", "nats": "s3cret-nats-password-0012",
	"guess": "s3cret-wrong-guess-0013",
}

// everySecret is a configuration with all of them. %[1]s is the folder, %[2]q a server that repeats
// each request in its answer, %[3]q Slack, and %[4]s the state.
const everySecret = `
listen: 127.0.0.1:0
state: {%[4]s}
auth:
  alertmanager: {bearer_token_file: %[1]s/alertmanager, basic_auth: {username: am, password_file: %[1]s/password}}
  api: {tokens_file: %[1]s/tokens.yaml}
clusters:
  - name: prod
    prometheus: {url: %[2]q, bearer_token_file: %[1]s/prometheus}
    alertmanager: {url: %[2]q}
    engines: [%[2]q]
    traces: {tempo_url: %[2]q, bearer_token_file: %[1]s/traces}
triage: {settle: 10ms}
notify:
  console: true
  slack: {token_file: %[1]s/slack, signing_secret_file: %[1]s/signing, api_url: %[3]q}
  pagerduty: {routing_key_file: %[1]s/routing, webhook_secret_file: %[1]s/subscription, api_token_file: %[1]s/rest,
    from: bot@example.com, events_url: %[2]q, api_url: %[2]q}
tracing: {endpoint: %[2]q, headers_file: %[1]s/collector}
`

// The bot takes alerts, delivers and fails to deliver, to servers that repeat every secret in their
// answers. No file of the store, line of the log, message or answer has one.
func TestSecretsStayInTheirFiles(t *testing.T) {
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		dump, _ := httputil.DumpRequest(r, true)
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]any{"ok": false, "error": string(dump), "status": "invalid event", "message": string(dump),
			"errors": []string{string(dump)}})
	}))
	defer echo.Close()
	t.Run("embedded", func(t *testing.T) {
		slack := slacktest.New(slacktest.Options{Token: secrets["slack"]})
		defer slack.Close()
		dir := t.TempDir()
		data := filepath.Join(dir, "data")
		p := serveSecrets(t, dir, echo.URL, slack.URL(), "dir: "+data)
		p.await("Slack has a message", func() bool { return len(slack.Messages()) > 0 })
		p.leaksNothing("the store", func() string { return content(t, data) })
		for _, m := range slack.Messages() {
			hasNone(t, "a message", m.Text+string(m.Blocks)+string(m.Metadata))
		}
	})
	t.Run("external", func(t *testing.T) {
		dir := t.TempDir()
		nats := strings.Replace(natstest.Start(t), "//", "//bot:"+secrets["nats"]+"@", 1)
		p := serveSecrets(t, dir, echo.URL, echo.URL+"/", fmt.Sprintf("nats: {url: %q, replicas: 1}", nats))
		p.leaksNothing("the store", func() string {
			out, err := exec.Command("paramedic", "state", "export", "--config", filepath.Join(dir, "paramedic.yaml"), "-").CombinedOutput()
			if err != nil {
				t.Errorf("export: %v: %s", err, out)
			}
			return string(out)
		})
	})
	t.Run("unusable URL", func(t *testing.T) {
		dir := t.TempDir()
		for _, nats := range []string{"nats://bot:" + secrets["nats"] + "@127.0.0.1:port", "nats://bot:" + secrets["nats"] + "/x@127.0.0.1:4222"} {
			put(t, dir, "paramedic.yaml", fmt.Appendf(nil, "clusters: [{name: prod}]\nlisten: 127.0.0.1:0\nstate: {nats: {url: %q}}\n", nats))
			for _, args := range [][]string{{"serve"}, {"check", "--online"}, {"state", "export", filepath.Join(dir, "out")}} {
				out, err := exec.Command("paramedic", append(args, "--config", filepath.Join(dir, "paramedic.yaml"))...).CombinedOutput()
				if err == nil {
					t.Errorf("%v works with %s", args, nats)
				}
				hasNone(t, strings.Join(args, " "), string(out))
			}
		}
	})
}

// serveSecrets starts the bot, and sends it an alert, wrong credentials and a command.
func serveSecrets(t *testing.T, dir, echo, slack, where string) *process {
	t.Helper()
	for name, value := range secrets {
		put(t, dir, name, []byte(value+"\n"))
	}
	put(t, dir, "collector", []byte("Authorization: "+secrets["collector"]+"\n"))
	put(t, dir, "tokens.yaml", fmt.Appendf(nil, "- {token: %s, name: ada, role: admin, slack_user: U0ADA}\n", secrets["api"]))
	p := serveProcess(t, dir, fmt.Sprintf(everySecret, dir, echo, slack, where))
	p.token = secrets["api"]
	payload := strings.ReplaceAll(`{"version":"4","status":"firing","receiver":"r","groupKey":"g","alerts":[{"status":"firing","startsAt":"TIME",
		"fingerprint":"00000000000000aa","annotations":{},"generatorURL":"","labels":{"alertname":"VLLMKVCacheExhaustion","severity":"critical",
		"namespace":"llm","model_name":"llama-70b","pod":"a-visible-pod"}}]}`, "TIME", time.Now().UTC().Format(time.RFC3339))
	for _, token := range []string{secrets["guess"], secrets["alertmanager"]} {
		p.ask(http.MethodPost, "/webhook/alertmanager", payload, http.Header{"Authorization": {"Bearer " + token}})
	}
	p.ask(http.MethodGet, "/api/v1/incidents", "", http.Header{"Authorization": {"Bearer " + secrets["guess"]}})
	command := url.Values{"command": {"/paramedic"}, "text": {"list"}, "user_id": {"U0ADA"}, "user_name": {"ada"}}.Encode()
	for _, key := range []string{secrets["guess"], secrets["signing"]} {
		p.ask(http.MethodPost, "/webhook/slack/command", command, slacktest.Sign(key, []byte(command), time.Now()))
	}
	p.await("PagerDuty and Slack refuse or take the page", func() bool {
		page, _ := p.ask(http.MethodGet, "/metrics", "", nil)
		return delivered.MatchString(page) && strings.Contains(page, `channel="pagerduty",kind="notify",outcome=`)
	})
	return p
}

// leaksNothing asks the bot for everything it answers, stops it, and looks at all that is left.
func (p *process) leaksNothing(store string, stored func() string) {
	p.t.Helper()
	list, _ := p.ask(http.MethodGet, "/api/v1/incidents", "", nil)
	var all struct {
		Incidents []struct {
			ID string `json:"id"`
		} `json:"incidents"`
	}
	if err := json.Unmarshal([]byte(list), &all); err != nil || len(all.Incidents) == 0 {
		p.t.Fatalf("no incident: %v, %s", err, list)
	}
	answers := list
	for _, path := range []string{"/", "/fleet", "/actions", "/playbooks", "/metrics", "/readyz", "/healthz", "/openapi.yaml", "/api/v1/status",
		"/api/v1/stats", "/api/v1/fleet", "/api/v1/actions", "/incidents/ID", "/api/v1/incidents/ID", "/api/v1/incidents/ID/timeline",
		"/api/v1/incidents/ID/report"} {
		body, code := p.ask(http.MethodGet, strings.ReplaceAll(path, "ID", all.Incidents[0].ID), "", nil)
		if code != http.StatusOK {
			p.t.Errorf("%s answers %d", path, code)
		}
		answers += body
	}
	p.stop()
	for what, text := range map[string]string{"the answers": answers, "standard output": p.stdout.String(), store: stored()} {
		if !strings.Contains(text, "a-visible-pod") {
			p.t.Errorf("%s do not have the alert, so nothing is proved: %.300s", what, text)
		}
		hasNone(p.t, what, text)
	}
	hasNone(p.t, "the log", p.stderr.String())
}

// hasNone reports a secret in a text, with what is before it.
func hasNone(t *testing.T, what, text string) {
	t.Helper()
	for name, secret := range secrets {
		if i := strings.Index(text, secret); i >= 0 {
			t.Errorf("%s: the secret %s is in …%s", what, name, text[max(0, i-200):i])
		}
	}
}

// content returns all files of a folder.
func content(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		all.Write(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
