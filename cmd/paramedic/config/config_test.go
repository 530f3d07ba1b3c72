package config

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// documented is the file of the design, with every key at its default. It must be valid and equal
// the defaults.
const documented = `listen: 127.0.0.1:8080
state:
  dir: ./paramedic-data            # embedded NATS JetStream, fsync before acknowledging
  nats: {url: "", credentials_file: "", replicas: 3}   # set url: an external NATS cluster (2.12 or newer), N bot replicas
  retain: 720h
auth:
  alertmanager: {bearer_token_file: "", basic_auth: {username: "", password_file: ""}, client_ca_file: ""}
  api: {tokens_file: ""}           # token → name and role: viewer, responder, admin
tls: {cert_file: "", key_file: ""}
clusters:                          # alerts pick theirs by the label ` + "`cluster`" + `; the first is the default
  - name: default
    prometheus: {url: http://prometheus:9090, bearer_token_file: ""}
    alertmanager: {url: http://alertmanager:9093}      # silences; reconciling alerts that vanished
    kubernetes: {kubeconfig: "", context: ""}          # {}: in-cluster; absent: no Kubernetes context
    engines: [http://127.0.0.1:8000/metrics]           # scraped directly where there is no Prometheus
    traces: {tempo_url: ""}
triage: {settle: 10s, resolve_hold: 2m, rules_dir: ""}
playbooks: {dir: ""}
notify:
  console: true
  slack: {token_file: "", signing_secret_file: "", app_token_file: "", channel: "#llm-oncall", api_url: ""}
  pagerduty: {routing_key_file: "", webhook_secret_file: "", api_token_file: "", from: "", events_url: "", api_url: ""}
  routes: []                       # match on severity, cause, scope → channels; default: critical pages, warning posts, info logs
remediate:
  mode: suggest                    # observe | suggest | approve | auto
  policies: []                     # per cause, action and scope: mode, approvers, limits; the strictest wins
`

func TestDocumentedExampleEqualsTheDefaults(t *testing.T) {
	got, err := Parse("paramedic.yaml", []byte(documented))
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Clusters = got.Clusters
	want.Notify.Routes, want.Remediate.Policies = []RouteConfig{}, []PolicyConfig{}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("what it spells out is not the default (-default +file):\n%s", d)
	}
}

func TestEmptyFileMeansDefaults(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "---\n"} {
		got, err := Parse("paramedic.yaml", []byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if d := cmp.Diff(Default(), got); d != "" {
			t.Errorf("%q:\n%s", text, d)
		}
	}
}

// Parsing reports every problem at once, with its line.
func TestConfigReportsAllProblemsWithLines(t *testing.T) {
	const text = `listen: 0.0.0.0:8080
colour: green
state:
  retain: ten days
auth:
  alertmanager:
    basic_auth: {username: am}
clusters:
  - name: a
    prometheus: {url: prometheus:9090}
  - name: a
    engines:
      - http://10.0.0.1:8000/metrics
      - http://user:secret@10.0.0.2:8000/metrics
triage:
  rules_dir: /no/such/rules
notify:
  slack:
    token_file: /no/such/token
    chanel: "#x"
  pagerduty:
    routing_key_file: ${PARAMEDIC_TEST_UNSET}
  routes:
    - severity: [fatal]
      channels: [pager, slack]
    - cause: [gpu_fault]
      scope: {cluster: b}
      channels: [console]
remediate:
  mode: manual
  managed_label: managed
  policies:
    - action: reboot
      scope: {model: llama}
      freeze:
        - {days: [friday], from: 6pm, to: "06:00"}
`
	_, err := Parse("paramedic.yaml", []byte(text))
	var wrong *Error
	if !errors.As(err, &wrong) {
		t.Fatalf("want a *ConfigError, got %v", err)
	}
	want := []struct {
		line int
		text string
	}{
		{1, "but the API has no tokens: set auth.api.tokens_file"},
		{2, `the configuration has no key colour; there are auth, clusters, listen, `},
		{4, `state.retain: "ten days" is not a duration such as 10s, 2m or 720h`},
		{7, "needs both username and password_file"},
		{10, "must be an http:// or https:// URL"},
		{11, `"a" is the name of another cluster, too: give each its own`},
		{14, "must not contain a user or a password: use a *_file key"},
		{16, `"/no/such/rules" is not a directory`},
		{19, "cannot be read"},
		{20, `notify.slack has no key chanel; did you mean channel?`},
		{22, "environment variable PARAMEDIC_TEST_UNSET is not set"},
		{24, `"fatal" is not one of critical, warning, info`},
		{25, `"pager" is not one of console, slack, pagerduty`},
		{27, `there is no cluster "b" in clusters`},
		{30, `"manual" is not one of observe, suggest, approve, auto`},
		{31, "is neither key=value nor - (no label)"},
		{33, `"reboot" is not one of set_engine_arg, restart_worker`},
		{34, `remediate.policies[0].scope has no key model; there are cluster, namespace, pool`},
		{35, `from: "6pm" is not a time such as 22:00`},
		{35, `"friday" is not a day: use mon, tue, `},
	}
	rest := wrong.Problems
	for _, w := range want {
		found := false
		for i, p := range rest {
			if p.Line == w.line && strings.Contains(p.Text, w.text) {
				rest, found = append(rest[:i:i], rest[i+1:]...), true
				break
			}
		}
		if !found {
			t.Errorf("line %d: no word of %s", w.line, w.text)
		}
	}
	for _, p := range rest {
		t.Errorf("unexpected: %s", p)
	}
	if strings.Contains(err.Error(), "secret@") {
		t.Errorf("the error shows a password: %v", err)
	}
}

// Traces come from one store. A token without a store is a mistake that would otherwise show in the
// first incident.
func TestTracesTakeOneStore(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for traces, want := range map[string]string{
		"{tempo_url: http://tempo:3200, bearer_token_file: " + token + "}": "",
		"{jaeger_url: http://jaeger:16686/jaeger}":                         "",
		"{tempo_url: http://tempo:3200, jaeger_url: http://jaeger:16686}": "paramedic.yaml:3: " +
			"clusters[0].traces.jaeger_url: cannot be set together with tempo_url: remove one of them",
		"{tempo_url: tempo:3200}": "paramedic.yaml:3: " +
			"clusters[0].traces.tempo_url: must be an http:// or https:// URL",
		"{jaeger_url: http://user:s3cret@jaeger:16686}": "paramedic.yaml:3: " +
			"clusters[0].traces.jaeger_url: must not contain a user or a password",
		"{bearer_token_file: " + token + "}": "paramedic.yaml:3: " +
			"clusters[0].traces.bearer_token_file: has no use without a trace store: set tempo_url or jaeger_url, or remove it",
		"{headers_file: " + token + "}": "paramedic.yaml:3: " +
			"clusters[0].traces.headers_file: has no use without a trace store: set tempo_url or jaeger_url, or remove it",
		"{tempo_url: http://tempo:3200, bearer_token_file: \"${PARAMEDIC_TEST_UNSET}\"}": "paramedic.yaml:3: " +
			"clusters[0].traces.bearer_token_file: environment variable PARAMEDIC_TEST_UNSET is not set",
		"{zipkin_url: http://zipkin:9411}": `paramedic.yaml:3: clusters[0].traces has no key zipkin_url; there are bearer_token_file, headers_file, jaeger_url, tempo_url`,
	} {
		_, err := Parse("paramedic.yaml", []byte("clusters:\n  - name: prod\n    traces: "+traces+"\n"))
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", traces, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, want %s", traces, err, want)
		}
	}
}

// A policy for a misspelt cause would forbid nothing.
func TestPoliciesRejectUnknownCauses(t *testing.T) {
	_, err := Parse("paramedic.yaml", []byte("remediate:\n  policies:\n    - cause: kv_exhaustoin\n      mode: observe\n"))
	if err == nil || !strings.Contains(err.Error(), `paramedic.yaml:3: remediate.policies[0].cause: there is no cause "kv_exhaustoin"`) {
		t.Errorf("err: %v", err)
	}
	if _, err := Parse("paramedic.yaml", []byte("remediate:\n  policies: [{cause: kv_exhaustion}, {cause: unknown}]\n")); err != nil {
		t.Error(err)
	}
}

// The user's rules add causes. A misspelt cause is still an error.
func TestPoliciesAcceptOwnCauses(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "mine.yaml", []byte("causes:\n  - {id: my_cause, title: Mine, prior: -10, scope: pool, what: Mine., explains: "+
		"{ttft_high: 3},\n     evidence: [{when: kv_usage.max > 0.9, weight: 3, text: full}]}\n"))
	_, err := Parse("paramedic.yaml", []byte("triage: {rules_dir: "+dir+`}
notify:
  routes:
    - {cause: [my_cause, unknown], channels: [console]}
    - {cause: [my_cuase], channels: [console]}
remediate:
  policies:
    - {cause: [my_cause, kv_exhaustion], mode: observe}
    - {cause: kv_exhaustoin, mode: observe}
`))
	var wrong *Error
	if !errors.As(err, &wrong) || len(wrong.Problems) != 2 || wrong.Problems[0].Line != 5 || wrong.Problems[1].Line != 9 {
		t.Errorf("want both misspelt causes and nothing else, got %v", err)
	}
}

// Mistakes that would stop the bot, or leave it without effect, are found before it starts. That
// includes the contents of referenced files.
func TestConfigChecksReferencedFiles(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "empty", []byte(" \n"))
	put(t, dir, "secret", []byte("s3cret"))
	put(t, dir, "tokens.yaml", []byte("- {token: long-enough, name: ada, role: admin}\n- {token: x, name: bob, role: king}\n- {token: "+
		"long-enough, role: viewer}\n"))
	t.Setenv("PARAMEDIC_TEST_BLANK", " ")
	text := strings.ReplaceAll(`listen: 127.0.0.1:99999
state: {dir: DIR/secret}
auth:
  alertmanager: {bearer_token_file: DIR/empty}
  api: {tokens_file: DIR/tokens.yaml}
tls: {cert_file: DIR/secret, key_file: DIR/secret}
clusters:
  - name: a
    prometheus: {url: http://prometheus:9090, bearer_token_file: "${PARAMEDIC_TEST_BLANK}"}
notify:
  slack:
    channel: "#inference"
  pagerduty:
    events_url: https://events.eu.pagerduty.com
remediate:
  policies:
    - limits:
        per_incident: -1
        evictions_per_hour: -3
        max_load: 85
  verify: {min_samples: -1}
`, "DIR", dir)
	_, err := Parse("paramedic.yaml", []byte(text))
	want := strings.ReplaceAll(`paramedic.yaml:1: listen: port "99999" is not a number from 0 to 65535
paramedic.yaml:2: state.dir: "DIR/secret" is a file: name a directory
paramedic.yaml:4: auth.alertmanager.bearer_token_file: DIR/empty is empty
paramedic.yaml:6: tls: cannot be used: tls: failed to find any PEM data in certificate input
paramedic.yaml:9: clusters[0].prometheus.bearer_token_file: environment variable PARAMEDIC_TEST_BLANK is empty
paramedic.yaml:11: notify.slack.token_file: is empty, so the bot would post nothing: set it, or remove notify.slack
paramedic.yaml:13: notify.pagerduty.routing_key_file: is empty, so the bot would page no one: set it, or remove notify.pagerduty
paramedic.yaml:18: remediate.policies[0].limits.per_incident: must be from 1 to 6, and is -1
paramedic.yaml:19: remediate.policies[0].limits.evictions_per_hour: must be from 1 to 10, and is -3
paramedic.yaml:20: remediate.policies[0].limits.max_load: must be from 0.1 to 0.95, and is 85
paramedic.yaml:21: remediate.verify.min_samples: is -1: it must not be negative
DIR/tokens.yaml:2: a token needs at least 8 characters and no spaces
DIR/tokens.yaml:2: role must be viewer, responder or admin
DIR/tokens.yaml:3: the entry has the token of the one in line 1: each entry needs its own`, "DIR", dir)
	if err == nil {
		t.Fatal("nothing was found")
	}
	if d := cmp.Diff(strings.Split(want, "\n"), strings.Split(err.Error(), "\n")); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestRefusesToListenBeyondLoopbackWithoutAuth(t *testing.T) {
	for listen, open := range map[string]bool{"127.0.0.1:8080": true, "[::1]:8080": true, "localhost:8080": true, "127.9.9.9:1": true,
		":8080": false, "0.0.0.0:8080": false, "[::]:8080": false, "10.0.0.1:8080": false, "example.com:8080": false} {
		_, err := Parse("paramedic.yaml", []byte("listen: \""+listen+"\"\n"))
		if open != (err == nil) {
			t.Errorf("%s: %v", listen, err)
		}
		if !open && (!strings.Contains(err.Error(), "auth.alertmanager.bearer_token_file") ||
			!strings.Contains(err.Error(), "auth.api.tokens_file")) {
			t.Errorf("%s: the error does not say which keys are missing: %v", listen, err)
		}
	}
}

// A verification that cannot take enough samples would escalate every action to a person.
func TestVerificationWindowFitsItsSamples(t *testing.T) {
	for verify, want := range map[string]string{
		"{settle: 5m, window: 1m, min_samples: 1000}": "paramedic.yaml:1: remediate.verify.min_samples: verification " +
			"needs 1000 samples, and a window of 1m0s at an interval of 30s has only 3",
		"{window: 4m}":      "remediate.verify.min_samples: verification needs 10 samples, and a window of 4m0s at an interval of 30s has only 9",
		"{interval: 5m}":    "a window of 10m0s at an interval of 5m0s has only 3",
		"{window: 270s}":    "",
		"{min_samples: 21}": "",
		"{min_samples: 22}": "has only 21",
		"{window: 50s, interval: 20s, min_samples: 4}": "", // 0, 20, 40 and 50 s
	} {
		_, err := Parse("paramedic.yaml", []byte("remediate: {mode: auto, verify: "+verify+"}\n"))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", verify, err, want)
		}
	}
}

// A setting that the bot would ignore or refuse at its start is a problem.
func TestSettingsWithoutEffectAreRefused(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("0123456789abcdef0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	pager := func(more string) string {
		return "notify: {pagerduty: {routing_key_file: " + key + ", " + more + "}}\n"
	}
	for text, want := range map[string]string{
		"clusters: [{name: a, prometheus: {bearer_token_file: " + key + "}}]\n": "prometheus.bearer_token_file: has no use without a Prometheus",
		"clusters: [{name: a, prometheus: {match: {cluster: eu-1}}}]\n":         "prometheus.match: has no use without a Prometheus",
		"remediate: {verify: {settle: 0s}}\n":                                   "remediate.verify.settle: must be above 0",
		"remediate: {wait: {poll: 0}}\n":                                        "remediate.wait.poll: must be above 0",
		pager("events_url: http://127.0.0.1:1/v2/enqueue"):                      "events_url: \"http://127.0.0.1:1/v2/enqueue\" must be an http or https address without a path",
		pager("api_url: http://127.0.0.1:1/x"):                                  "must be an http or https address without a path",
		pager("api_token_file: " + key + ", from: notmail"):                     "\"notmail\" is not an e-mail address",
		pager("from: a@example.com"):                                            "notes need both api_token_file and from",
		pager("events_url: http://127.0.0.1:1/"):                                "",
	} {
		_, err := Parse("paramedic.yaml", []byte(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), "paramedic.yaml:1: ") ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// An approver is a Slack user, or the name of a token that may approve.
func TestUnknownApproversAreListed(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(tokens, []byte("- {name: ada, token: 0123456789abcdef, role: responder}\n- {name: vic, token: fedcba9876543210, role: viewer}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := Parse("paramedic.yaml", []byte("auth: {api: {tokens_file: "+tokens+"}}\n"+
		"remediate: {policies: [{cause: kv_leak, approvers: [ada, adaa, vic, U0123ABCD]}]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := cfg.UnknownApprovers(); !slices.Equal(got, []string{"adaa", "vic"}) {
		t.Errorf("unknown: %q", got)
	}
}

func TestInvalidYAMLIsReportedWithItsLine(t *testing.T) {
	for text, want := range map[string]string{
		"listen: [":                      "paramedic.yaml:1:",
		"state:\n  dir: a\n dir: b\n":    "paramedic.yaml:3: this is not YAML",
		"listen: a:1\nlisten: b:2\n":     "paramedic.yaml:2: listen occurs twice, first in line 1: remove one",
		"listen: 127.0.0.1:1\n---\na: b": "paramedic.yaml:2: only the first document of a file is read: remove the line ---",
		"- a\n- b\n":                     "paramedic.yaml:1:",
		"a: b: c":                        "paramedic.yaml:1: this is not YAML: mapping values are not allowed",
		"triage: {settle: -1s}\n":        `paramedic.yaml:1: triage.settle: "-1s" is negative: use a duration such as 10s`,
		"triage:\n  settle: 5\n":         `paramedic.yaml:2: triage.settle: "5" is not a duration`,
		"state: {retain: 1m}\n":          "state.retain: must be at least 24h",
		"clusters: []\n":                 "clusters: is empty: name at least one cluster",
		"[]\n":                           "paramedic.yaml:1: the configuration must be keys with values, not a list; the keys are listen, ",
		"state: no\n":                    `paramedic.yaml:1: state must be keys with values, not "no"; the keys are dir, nats, retain`,
		"notify: {console: maybe}\n":     `paramedic.yaml:1: notify.console must be true or false, not "maybe"`,
		"listen: [a]\n":                  "paramedic.yaml:1: listen must be text, not a list",
		"clusters: {name: a}\n":          "paramedic.yaml:1: clusters must be a list, not keys with values",
		"remediate: {policies: [{cause: {a: b}}]}\n": "paramedic.yaml:1: remediate.policies[0].cause must be a word or a list, " +
			"not keys with values",
		"clusters: [a, {name: b, prometheus: {url: x}}]": "paramedic.yaml:1: clusters[0] must be keys with values, ",
		// a value with a line break
		"state:\n  nats: {replicas: \"a\\nb\"}\n": `paramedic.yaml:2: state.nats.replicas must be a whole number, not "a b"`,
		"state: {nats: {replicas: 2.5}}\n":        `paramedic.yaml:1: state.nats.replicas must be a whole number, not "2.5"`,
		// an address may hold a password
		"clusters: [{name: a, engines: \"http://user:s3cret@a\"}]": `paramedic.yaml:1: clusters[0].engines must be a list, not "http://us…"`,
	} {
		_, err := Parse("paramedic.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// Every configuration in the repository is valid, once its referenced files exist.
func TestConfigurationsInTheRepositoryLoad(t *testing.T) {
	t.Setenv("SLACK_SIGNING_SECRET", "x")
	found := map[string]string{}
	for _, path := range []string{fullExample} {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found[path] = string(raw)
	}
	err := filepath.WalkDir("../../../deploy", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || (filepath.Ext(path) != ".yaml" && filepath.Ext(path) != ".yml") {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for name, text := range configsIn(string(raw)) {
			found[path+name] = text
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 2 {
		t.Errorf("only %v: deploy/paramedic.yaml is missing", found)
	}
	for path, text := range found {
		t.Run(filepath.Base(path), func(t *testing.T) { loads(t, path, text) })
	}
}

// loads fails the test if a configuration is not valid once its referenced files exist.
func loads(t *testing.T, path, text string) {
	t.Helper()
	dir := t.TempDir()
	// One folder holds all files.
	text = strings.NewReplacer("/etc/paramedic/secrets/", "/etc/paramedic/", "/run/secrets/", "/etc/paramedic/").Replace(text)
	for _, name := range regexp.MustCompile(`/etc/paramedic/([a-z.-]+)`).FindAllStringSubmatch(text, -1) {
		put(t, dir, name[1], []byte("secret"))
	}
	put(t, dir, "tokens.yaml", []byte("- {token: one-of-them, name: ada, role: responder}\n"))
	put(t, dir, "otlp-headers", []byte("Authorization: Bearer secret\n"))
	cert, key := selfSigned(t)
	put(t, dir, "tls.crt", cert)
	put(t, dir, "tls.key", key)
	if _, err := Parse(path, []byte(strings.ReplaceAll(text, "/etc/paramedic/", dir+"/"))); err != nil {
		t.Error(err)
	}
}

// selfSigned returns a server's certificate and key in PEM.
func selfSigned(t *testing.T) (cert, key []byte) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	pair := server.TLS.Certificates[0]
	raw, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: pair.Certificate[0]}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

// configsIn returns the configurations in a file: the file itself, or those in its ConfigMaps.
func configsIn(text string) map[string]string {
	out := map[string]string{}
	dec := yaml.NewDecoder(strings.NewReader(text))
	for n := 1; ; n++ {
		var doc struct {
			Kind     string
			Data     map[string]string
			Clusters yaml.Node
			State    yaml.Node
			Listen   string
		}
		if dec.Decode(&doc) != nil {
			return out
		}
		switch {
		case doc.Kind == "ConfigMap":
			for name, text := range doc.Data {
				if name == "paramedic.yaml" || name == "config.yaml" {
					out["#"+strconv.Itoa(n)] = text
				}
			}
		case doc.Kind == "" && (doc.Listen != "" || doc.Clusters.Kind == yaml.SequenceNode && doc.State.Kind == yaml.MappingNode):
			out[""] = text
		}
	}
}

// keysOf returns the dotted keys of a YAML file, with [] for the items of a list.
func keysOf(t *testing.T, path string) map[string]bool {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(raw, &root); err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	var walk func(n *yaml.Node, prefix string)
	walk = func(n *yaml.Node, prefix string) {
		switch n.Kind {
		case yaml.DocumentNode:
			walk(n.Content[0], prefix)
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				key := prefix + n.Content[i].Value
				out[key] = true
				walk(n.Content[i+1], key+".")
			}
		case yaml.SequenceNode:
			item := strings.TrimSuffix(prefix, ".") + "[]"
			out[item] = true
			for _, c := range n.Content {
				walk(c, item+".")
			}
		}
	}
	walk(&root, "")
	return out
}

// A link to every address leads nowhere, and pages live at the top of their host.
func TestLinksNeedAnAddress(t *testing.T) {
	for text, want := range map[string]string{
		"listen: 127.0.0.1:8080": "http://127.0.0.1:8080", "listen: 10.1.2.3:8080": "http://10.1.2.3:8080",
		"listen: 0.0.0.0:8080": "", "listen: :8080": "", `listen: "[::]:8080"`: "",
		"{listen: 0.0.0.0:8080, public_url: https://ops.example.com/}": "https://ops.example.com",
	} {
		var c Config
		if err := yaml.Unmarshal([]byte(text), &c); err != nil {
			t.Fatal(err)
		}
		if got := c.BaseURL(); got != want {
			t.Errorf("%s: links begin with %q, want %q", text, got, want)
		}
	}
	for _, url := range []string{"https://ops.example.com/paramedic", "https://ops.example.com?x=1", "https://ops.example.com#y"} {
		if _, err := Parse("paramedic.yaml", []byte("public_url: "+url)); err == nil || !strings.Contains(err.Error(), "use https://ops.example.com") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestPrometheusHeadersAreChecked(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "good", []byte("X-Scope-OrgID: sre"))
	put(t, dir, "bad", []byte("hunter2"))
	for name, want := range map[string]string{"good": "", "bad": "line 1 is no header", "none": "cannot be read"} {
		_, err := Parse("paramedic.yaml", []byte("clusters: [{name: a, prometheus: {url: http://p:9090, headers_file: "+dir+"/"+name+"}}]"))
		if (err != nil) != (want != "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
