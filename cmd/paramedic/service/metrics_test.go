package service

import (
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"

	"paramedic/rules/promql"
	"paramedic/state"
)

// descriptions returns the descriptions of all metrics that the bot can export.
func descriptions(t *testing.T) []string {
	t.Helper()
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		newMetrics().registry.Describe(descs)
	}()
	var out []string
	for d := range descs {
		out = append(out, d.String())
	}
	return out
}

// An alert on a metric that the bot does not export would never fire. Each alert also has its
// section in docs/operate.md.
func TestOwnAlertsReadExportedMetrics(t *testing.T) {
	raw, err := os.ReadFile("../../../deploy/prometheus/self/paramedic.yml")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile("../../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	exported := described(t)
	for _, r := range file.Groups[0].Rules {
		if err := promql.ParsePromQL(r.Expr); err != nil {
			t.Errorf("%s: %v", r.Alert, err)
		}
		for _, use := range promql.UsesOf(r.Expr) {
			if strings.HasPrefix(use.Metric, "paramedic_") && exported[strings.TrimSuffix(use.Metric, "_count")] == nil {
				t.Errorf("%s reads %s, which the bot does not export", r.Alert, use.Metric)
			}
		}
		anchor := strings.ToLower(r.Alert)
		if !strings.HasSuffix(r.Annotations["runbook_url"], "/docs/operate.md#"+anchor) ||
			!strings.Contains(strings.ToLower(string(docs)), "\n### "+anchor+"\n") {
			t.Errorf("%s has no section in docs/operate.md, or its runbook_url names another", r.Alert)
		}
	}
}

// metricsOf returns the bot's page of metrics.
func metricsOf(t *testing.T, base string) string {
	t.Helper()
	_, page := ask(t, http.MethodGet, base+"/metrics", "")
	return page
}

// After an alert the metrics tell of the payload, the incident, its verdict and the store.
func TestMetricsFollowAnIncident(t *testing.T) {
	base, bot := startBot(t)
	resp, err := http.Post(base+"/webhook/alertmanager", "application/json", strings.NewReader(oneAlert))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	awaitAlerts(t, bot, 1)
	want := []string{
		`paramedic_build_info{version="`, `paramedic_incidents{status="open"} 1`, `paramedic_incidents_opened_total{severity=`,
		"paramedic_diagnosis_delay_seconds_count 1", `paramedic_diagnosis_confidence_count{cause="unknown"} 1`,
		`paramedic_first_aid_halted{cluster="default"} 0`, "paramedic_runs_need_person 0",
	}
	var page string
	missing := func() []string {
		page = metricsOf(t, base)
		return slices.DeleteFunc(slices.Clone(want), func(line string) bool { return strings.Contains(page, line) })
	}
	for deadline := time.After(time.Minute); len(missing()) > 0; {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			t.Fatalf("the metrics lack %q", missing())
		}
	}
	last := regexp.MustCompile(`(?m)^paramedic_last_payload_timestamp_seconds (\S+)$`).FindStringSubmatch(page)
	if last == nil || last[1] == "0" {
		t.Errorf("the time of the last payload is %v", last)
	}
}

// Every answer of a guard counts, also those of a run that is asked again.
func TestGuardDecisionsAreCounted(t *testing.T) {
	m := newMetrics()
	m.decided([]state.GuardResult{{Guard: "freeze", Decision: state.Hold}, {Guard: "breaker", Decision: state.Allow}})
	m.decided([]state.GuardResult{{Guard: "freeze", Decision: state.Hold}})
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "paramedic_guard_decisions_total" {
			continue
		}
		for _, metric := range f.GetMetric() {
			key := ""
			for _, l := range metric.GetLabel() {
				key += l.GetName() + "=" + l.GetValue() + " "
			}
			got[key] = metric.GetCounter().GetValue()
		}
	}
	if got["decision=hold guard=freeze "] != 2 || got["decision=allow guard=breaker "] != 1 {
		t.Errorf("the counters are %v", got)
	}
}
