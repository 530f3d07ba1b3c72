package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"paramedic/cmd/paramedic/service"
	"paramedic/state"
)

// fakeFleet serves the part of the Prometheus API that check uses, with one alert rule and one that
// records llm:kv.
func fakeFleet(t *testing.T, expr string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		quoted, _ := json.Marshal(expr)
		data := map[string]string{
			"/api/v1/query": `{"resultType":"vector","result":[]}`,
			"/api/v1/rules": `{"groups":[{"name":"vllm","interval":30,"rules":[{"type":"recording","name":"llm:kv","query":"vllm:gpu_cache_usage_perc","health":"ok"},{"type":"alerting","name":"KVFull","query":` + string(quoted) +
				`,"duration":60,"health":"ok","state":"inactive","lastEvaluation":"2026-11-21T12:00:00Z"}]}]}`,
			"/api/v1/targets":                 `{"activeTargets":[{"labels":{"job":"vllm"},"scrapeInterval":"15s"}],"droppedTargets":[]}`,
			"/api/v1/label/job/values":        `["vllm"]`,
			"/api/v1/label/__name__/values":   `["up","vllm:kv_cache_usage_perc","http_requests_total","http_errors_total"]`,
			"/api/v1/labels":                  `["__name__","job","model_name","pod"]`,
			"/api/v1/label/model_name/values": `["llama-70b"]`,
		}[r.URL.Path]
		if strings.Contains(r.URL.RawQuery, "http_error_total") {
			data = `["http_error_total"]`
		}
		if data == "" || strings.Contains(r.URL.RawQuery, "server%21%3D") {
			data = `[]`
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"status":"success","data":%s}`, data)
	}))
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "paramedic.yaml")
	if err := os.WriteFile(file, []byte("clusters: [{name: prod, prometheus: {url: "+s.URL+"}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestCheckOnlineLintsTheFleetsRules(t *testing.T) {
	file := fakeFleet(t, "vllm:gpu_cache_usage_perc > 0.9")
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"check", "--online", "--config", file}, &out, &errs); code != exitFinding {
		t.Errorf("exit code %d\n%s%s", code, &out, &errs)
	}
	for _, want := range []string{"prod/rules", "1 finding in 1 alert rule", "critical", "vllm/KVFull", "never fires",
		"→ use `vllm:kv_cache_usage_perc`"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, &out)
		}
	}
	out.Reset()
	if code := run(t.Context(), []string{"check", "--online", "-o", "json", "--config", file}, &out, &errs); code != exitFinding {
		t.Errorf("exit code %d", code)
	}
	var got checkResult
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if l := got.Rules["prod"]; l.Rules != 1 || len(l.Findings) != 1 || l.Findings[0].Severity != state.Critical {
		t.Errorf("JSON says %+v", got)
	}
}

// check also reads recording rules and the labels of series.
func TestCheckOnlineSeesWhatRulesSelect(t *testing.T) {
	for expr, want := range map[string]string{
		`llm:kv > 0.9`: "in the recording rule llm:kv",
		`vllm:kv_cache_usage_perc{tenant="a"} > 0.9`:             "no series of vllm:kv_cache_usage_perc has a label tenant",
		`vllm:kv_cache_usage_perc{model_name="llama-7b"} > 0.9`:  "use llama-70b",
		`vllm:kv_cache_usage_perc{model_name="llama-70b"} > 0.9`: "ok, 1 alert rule\n",
		`rate(http_requests_total[10s]) > 1`:                     "never fires: rate needs two samples, and http_requests_total is scraped every 15s",
		`rate(http_request_total[5m]) > 1`:                       "no series here has had the name http_request_total in the last week, but there is http_requests_total",
		`rate(http_error_total[5m]) > 1`:                         "not checked: 1 metric without series in the last hour. Such a metric may appear with the first event, or with an exporter: http_error_total\n", // was there last week
		`kube_pod_status_unschedulable == 1`:                     "ok, 1 alert rule\n  not checked: 1 metric without series in the last hour. Such a metric may appear with the first event, or with an exporter: kube_pod_status_unschedulable\n",
	} {
		var out, errs bytes.Buffer
		run(t.Context(), []string{"check", "--online", "--config", fakeFleet(t, expr)}, &out, &errs)
		if !strings.Contains(out.String(), want) || strings.Contains(out.String(), "were not checked") {
			t.Errorf("%s: it does not say %q:\n%s%s", expr, want, &out, &errs)
		}
	}
}

// check prints what it did not look at.
func TestCheckReportsUnseenLabels(t *testing.T) {
	var out bytes.Buffer
	unseen := []string{"labels of 3 metrics were not checked: they take more than 390 queries"}
	printLint(&cli{out: &out}, "prod", service.LintResult{Rules: 2, Unseen: unseen})
	if got := out.String(); !strings.Contains(got, "ok, 2 alert rules\n  labels of 3 metrics were not checked") {
		t.Error(got)
	}
}

func TestCheckOnlineAcceptsSoundRules(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"check", "--online", "--config", fakeFleet(t, "vllm:kv_cache_usage_perc > 0.9")}, &out,
		&errs); code != exitOK {
		t.Errorf("exit code %d\n%s%s", code, &out, &errs)
	}
	if !strings.Contains(out.String(), "ok, 1 alert rule\n") {
		t.Errorf("it says:\n%s", &out)
	}
}

// check tests every expression of the user's rules, and prints the line of every problem.
func TestCheckReportsTheLineOfABadExpression(t *testing.T) {
	dir := t.TempDir()
	const causes = `causes:
  - id: my_cause
    title: "Mine on {target}"
    prior: -10
    scope: pool
    what: "Mine."
    explains: {ttft_high: 3}
    evidence:
      - when: kv_usage.max > 0.9
        weight: 3
        text: "full"
      - when: kv_usage.tallest > 0.9
        weight: 3
        text: "taller"
      - when: no_such_signal.max > 1 &&
        weight: 3
        text: "nothing"
`
	config := filepath.Join(t.TempDir(), "paramedic.yaml")
	for name, text := range map[string]string{filepath.Join(dir, "mine.yaml"): causes, config: "triage: {rules_dir: " + dir + "}\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"check", "--config", config}, &out, &errs); code != exitFinding {
		t.Errorf("exit code %d\n%s%s", code, &out, &errs)
	}
	for _, want := range []string{"mine.yaml:12: ", "tallest", "mine.yaml:15: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "mine.yaml:9:") {
		t.Errorf("it finds fault with what is right:\n%s", &out)
	}
}

// A cause may share another's playbook. A cause without an existing playbook would leave people
// with triage by hand.
func TestCheckFindsACauseWithoutItsPlaybook(t *testing.T) {
	dir := t.TempDir()
	const cause = "causes:\n  - {id: my_cause, title: Mine, prior: -10, scope: pool, what: Mine., explains: {ttft_high: 3}, " +
		"playbook: %q,\n" +
		"     evidence: [{when: kv_usage.max > 0.9, weight: 3, text: full}]}\n"
	config := filepath.Join(t.TempDir(), "paramedic.yaml")
	put(t, filepath.Dir(config), "paramedic.yaml", []byte("triage: {rules_dir: "+dir+"}\n"))
	for playbook, want := range map[string]string{
		"kv_exhaustion": "",
		"kv_exhaustoin": `mine.yaml:2: cause my_cause: there is no playbook "kv_exhaustoin"`,
		"":              `mine.yaml:2: cause my_cause: there is no playbook "my_cause"`,
	} {
		put(t, dir, "mine.yaml", fmt.Appendf(nil, cause, playbook))
		var out, errs bytes.Buffer
		code := run(t.Context(), []string{"check", "--config", config}, &out, &errs)
		if want == "" && code != exitOK || want != "" && (code != exitFinding || !strings.Contains(out.String(), want)) {
			t.Errorf("%q: exit code %d, want %q\n%s%s", playbook, code, want, &out, &errs)
		}
	}
}
