package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	monitoringv1alpha1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// rendered renders the chart with values, given as YAML, over a rung's.
func rendered(t *testing.T, rung, values string) []document {
	t.Helper()
	docs, err := tryRender(rung, values)
	if err != nil {
		t.Fatal(err)
	}
	return docs
}

func tryRender(rung, values string) ([]document, error) {
	dir, err := os.MkdirTemp("", "values")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	more := filepath.Join(dir, "values.yaml")
	if err := os.WriteFile(more, []byte(values), 0o600); err != nil {
		return nil, err
	}
	all, err := readValues(valuesOf(rung), more)
	if err != nil {
		return nil, err
	}
	return render(all)
}

// Generated files equal what the chart and the code give; `make generate` writes them.
func TestManifestsEqualTheChart(t *testing.T) {
	for _, step := range []func() (map[string][]byte, error){chartFiles, manifests} {
		files, err := step()
		if err != nil {
			t.Fatal(err)
		}
		folders := map[string]bool{}
		for name, want := range files {
			folders[filepath.Dir(name)] = true
			if got, err := os.ReadFile(filepath.Join(deployDir, name)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("deploy/%s is not up to date (%v): run make generate", name, err)
			}
		}
		for folder := range folders {
			entries, err := os.ReadDir(filepath.Join(deployDir, folder))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				name := filepath.Join(folder, e.Name())
				if files[name] == nil && !e.IsDir() && e.Name() != "README.md" && e.Name() != "observer.yaml" {
					t.Errorf("deploy/%s is not generated any more: remove it", name)
				}
			}
		}
	}
}

func TestChartPassesHelmLint(t *testing.T) {
	if err := lintRungs(); err != nil {
		t.Error(err)
	}
}

// everything turns on every optional object.
const everything = `
replicas: 3
state: {nats: {url: "nats://nats.nats:4222", credentialsKey: nats.creds, tls: {caKey: nats-ca.crt, certKey: nats.crt, privateKey: nats.key}}}
config: {public_url: "https://bot.corp.example", tls: {cert_file: /etc/paramedic/secrets/tls.crt, key_file: /etc/paramedic/secrets/tls.key}}
image: {pullSecrets: [registry]}
env: [{name: TZ, value: Europe/Berlin}]
podAnnotations: {team: sre}
priorityClassName: system-cluster-critical
nodeSelector: {pool: cpu}
tolerations: [{key: x, operator: Exists}]
networkPolicy: {ingressFrom: [{namespaceSelector: {}}], egressPorts: [443, 9090]}
serviceMonitor: {enabled: true, labels: {release: prometheus}}
prometheusRule: {enabled: true, labels: {release: prometheus}, runbookURL: "https://docs.corp.example"}
alertmanagerConfig: {enabled: true, labels: {release: prometheus}}
dashboards: {enabled: true}
`

// Every object, also the Prometheus operator's, has only fields that its kind knows.
func TestObjectsFitTheirSchemas(t *testing.T) {
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, monitoringv1.AddToScheme, monitoringv1alpha1.AddToScheme} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	strict := serializer.NewCodecFactory(known, serializer.EnableStrict).UniversalDeserializer()
	kinds := map[string]int{}
	for _, rung := range rungs {
		for _, values := range []string{"{}", everything} {
			for _, d := range rendered(t, rung, values) {
				_, kind, err := strict.Decode([]byte(d.text), nil, nil)
				if err != nil {
					t.Errorf("%s: %s: %v\n%s", rung, d.template, err, d.text)
					continue
				}
				kinds[kind.Kind]++
			}
		}
	}
	for _, want := range []string{"StatefulSet", "Deployment", "Service", "ConfigMap", "Role", "ClusterRole", "NetworkPolicy",
		"PodDisruptionBudget", "ServiceMonitor", "PrometheusRule", "AlertmanagerConfig"} {
		if kinds[want] == 0 {
			t.Errorf("no rendering has a %s", want)
		}
	}
	if kinds["Secret"] > 0 {
		t.Error("the chart renders a Secret, but it must only refer to one")
	}
}

// objects returns the objects of the rung suggest by kind and name.
func objects(t *testing.T, values string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, d := range rendered(t, "suggest", values) {
		var o struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err := yaml.Unmarshal([]byte(d.text), &o); err != nil {
			t.Fatal(err)
		}
		all[o.Kind+"/"+o.Metadata.Name] = d.text
	}
	return all
}

// Every pack, also the bot's own, and every dashboard is in the chart.
func TestRulesAndDashboardsReachTheCluster(t *testing.T) {
	all := objects(t, everything)
	for pattern, object := range map[string]string{"prometheus/*.yml": "PrometheusRule/paramedic-", "grafana/*.json": "ConfigMap/paramedic-dashboard-"} {
		files, err := filepath.Glob(filepath.Join(deployDir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
			if all[object+name] == "" {
				t.Errorf("the chart does not bring %s", file)
			}
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var board corev1.ConfigMap
			if err := yaml.Unmarshal([]byte(all[object+name]), &board); err != nil {
				t.Fatal(err)
			}
			if board.Kind == "ConfigMap" && (board.Data["paramedic-"+name+".json"] != string(raw) || board.Labels["grafana_dashboard"] != "1") {
				t.Errorf("the ConfigMap does not hold the dashboard %s", name)
			}
		}
	}
	if rules := all["PrometheusRule/paramedic-vllm"]; !strings.Contains(rules, "runbook_url: https://bot.corp.example/playbooks/") ||
		strings.Contains(rules, "paramedic.example.com") || !strings.Contains(rules, "{{ $labels.model_name }}") {
		t.Errorf("the rules do not link to the bot, or lost their templates:\n%.800s", rules)
	}
	if own := all["PrometheusRule/paramedic-self"]; !strings.Contains(own, "alert: ParamedicWatchdog") ||
		!strings.Contains(own, "runbook_url: https://docs.corp.example/docs/operate.md#paramedicdown") {
		t.Errorf("the alerts about the bot are missing, or their links lead to it:\n%.800s", own)
	}
	if am := all["AlertmanagerConfig/paramedic"]; !strings.Contains(am, "url: https://paramedic.paramedic:8080/webhook/alertmanager") {
		t.Errorf("Alertmanager would not reach the bot:\n%s", am)
	}
	some := objects(t, "dashboards: {enabled: true, names: [vllm]}")
	if some["ConfigMap/paramedic-dashboard-vllm"] == "" || some["ConfigMap/paramedic-dashboard-sglang"] != "" {
		t.Error("dashboards.names does not choose")
	}
}

// A volume makes one replica with its state; a NATS cluster makes any number without.
func TestStoreDecidesTheWorkload(t *testing.T) {
	alone, shared := objects(t, "{}"), objects(t, everything)
	for _, want := range []string{"replicas: 1", "volumeClaimTemplates:", "mountPath: /var/lib/paramedic"} {
		if !strings.Contains(alone["StatefulSet/paramedic"], want) {
			t.Errorf("one replica lacks %q:\n%s", want, alone["StatefulSet/paramedic"])
		}
	}
	deployment := shared["Deployment/paramedic"]
	if !strings.Contains(deployment, "replicas: 3") || !strings.Contains(deployment, "topologySpreadConstraints:") ||
		strings.Contains(deployment, "mountPath: /var/lib/paramedic") {
		t.Errorf("three replicas are\n%s", deployment)
	}
	config := shared["ConfigMap/paramedic"]
	for _, want := range []string{"url: nats://nats.nats:4222", "credentials_file: /etc/paramedic/secrets/nats.creds",
		"ca_file: /etc/paramedic/secrets/nats-ca.crt", "cert_file: /etc/paramedic/secrets/nats.crt",
		"key_file: /etc/paramedic/secrets/nats.key"} {
		if !strings.Contains(config, want) {
			t.Errorf("three replicas lack %q:\n%s", want, config)
		}
	}
	if !strings.Contains(shared["Service/paramedic"], "sessionAffinity: ClientIP") {
		t.Error("a login would not hold")
	}
	if alone["Deployment/paramedic"] != "" || shared["StatefulSet/paramedic"] != "" {
		t.Error("there are both workloads")
	}
}

func TestContradictoryValuesAreRefused(t *testing.T) {
	for values, want := range map[string]string{
		"mode: approve":                                 "minItems",
		"mode: automatic":                               "mode",
		"replicas: 2":                                   "replicas",
		"colour: green":                                 "colour",
		"image: {digest: latest}":                       "digest",
		"config: {remediate: {mode: auto}}":             "set the value mode instead of config.remediate.mode",
		"config: {listen: 127.0.0.1:8080}":              "the chart sets config.listen itself",
		"prometheusRule: {enabled: true, packs: [tgi]}": "there is no pack tgi",
		"dashboards: {enabled: true, names: [tgi]}":     "there is no dashboard tgi",
	} {
		if _, err := tryRender("suggest", values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", values, err, want)
		}
	}
}

// Without a mode that writes, there is no write verb and no second account, also if namespaces are
// named.
func TestReadOnlyRungsGrantNoWriteVerb(t *testing.T) {
	for _, rung := range []string{"observe", "suggest"} {
		for _, d := range rendered(t, rung, "firstAid: {namespaces: [llm]}") {
			for _, verb := range []string{"patch", "create", "update", "delete", "impersonate"} {
				if strings.Contains(d.text, "verbs:") && strings.Contains(d.text, verb) {
					t.Errorf("%s grants %s:\n%s", rung, verb, d.text)
				}
			}
			if strings.Contains(d.text, "first-aid") || strings.Contains(d.text, "first_aid_account") {
				t.Errorf("%s has an account that writes:\n%s", rung, d.text)
			}
		}
	}
}

func TestPodIsConfined(t *testing.T) {
	for _, values := range []string{"{}", everything} {
		var bot string
		for _, d := range rendered(t, "auto", values) {
			if d.template == "bot" {
				bot = d.text
			}
		}
		for _, want := range []string{"runAsNonRoot: true", "readOnlyRootFilesystem: true", "allowPrivilegeEscalation: false",
			"capabilities: {drop: [ALL]}", "seccompProfile: {type: RuntimeDefault}", "/readyz", "/healthz"} {
			if !strings.Contains(bot, want) {
				t.Errorf("the pod lacks %s", want)
			}
		}
	}
}
