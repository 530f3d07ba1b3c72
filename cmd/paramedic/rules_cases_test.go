package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"paramedic/lab"
)

// record writes the pages of a fleet in trouble, as somebody would with curl, and gives the case's files workers and pages.
func record(t *testing.T, dir, fault string, ages ...time.Duration) (workers, pages string) {
	t.Helper()
	scenario, err := lab.NewScenario(fault, 4)
	if err != nil {
		t.Fatal(err)
	}
	fleet, err := scenario.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, age := range ages {
		fleet.Advance(fleet.Start().Add(12*time.Minute - age))
		for i, pod := range fleet.Pods() {
			rec := httptest.NewRecorder()
			fleet.WorkerHandler(pod.Name).ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
			name := fmt.Sprintf("%c-%s.prom", 'a'+i, age)
			if err := os.WriteFile(filepath.Join(dir, name), rec.Body.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			if age == 0 {
				workers += fmt.Sprintf("%c llm %s vllm-llama llama-70b %s\n", 'a'+i, pod.Name, pod.Node)
			}
			pages += fmt.Sprintf("%c %s %s\n", 'a'+i, name, age)
		}
	}
	return workers, pages
}

func testRulesIn(t *testing.T, dir string) (int, string) {
	t.Helper()
	var out bytes.Buffer
	code := run(context.Background(), []string{"rules", "test", dir}, &out, &out)
	return code, out.String()
}

func putLines(t *testing.T, path string, lines ...string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Pages that somebody saved are enough for a case: no alert, no evidence written by hand.
func TestRecordedPagesAreACase(t *testing.T) {
	dir := t.TempDir()
	workers, pages := record(t, dir, lab.KVExhaustion, 2*time.Minute, 0)
	putLines(t, filepath.Join(dir, "full.txtar"), "-- workers --", workers+"-- pages --", pages+"-- want --", "cause kv_exhaustion", "symptoms kv_pressure queue_buildup")
	if code, out := testRulesIn(t, dir); code != exitOK || !strings.Contains(out, "all 1 cases hold") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	putLines(t, filepath.Join(dir, "wrong.txtar"), "-- workers --", workers+"-- pages --", pages+"-- want --", "cause routing_skew")
	if code, out := testRulesIn(t, dir); code != exitFinding || !strings.Contains(out, "FAIL  wrong") || !strings.Contains(out, "cause kv_exhaustion") {
		t.Errorf("exit %d:\n%s", code, out)
	}
}

func TestPagesOfAHealthyFleetShowNoIncident(t *testing.T) {
	dir := t.TempDir()
	workers, pages := record(t, dir, lab.BenignAlert, 2*time.Minute, 0)
	putLines(t, filepath.Join(dir, "well.txtar"), "-- workers --", workers+"-- pages --", pages+"-- want --", "incidents 0")
	if code, out := testRulesIn(t, dir); code != exitOK {
		t.Errorf("exit %d:\n%s", code, out)
	}
}

// A directory's own rules are part of what its cases are run against, and a rule that is wrong is named with its line.
func TestOwnRulesAreTestedWithTheirCases(t *testing.T) {
	dir := t.TempDir()
	putLines(t, filepath.Join(dir, "ours.yaml"), "symptoms:", "  - {id: our_symptom, title: Ours}", "alerts:", "  - {name: OurAlert, symptom: our_symptom}",
		"causes:", "  - id: our_cause", `    title: "Ours on {target}"`, "    prior: -2", "    scope: pool", "    explains: {our_symptom: 5}", "    evidence:",
		`      - {when: requests_waiting.max > 7, weight: 6, text: "{requests_waiting.max} wait"}`)
	putLines(t, filepath.Join(dir, "cases", "ours.txtar"), "-- alerts.json --", `[{"labels": {"alertname": "OurAlert", "model_name": "m", "namespace": "llm"}}]`,
		"-- workers --", "a llm vllm-0 vllm m node-1", "-- evidence --", "requests_waiting * 9", "-- want --", "cause our_cause", "title Ours on")
	if code, out := testRulesIn(t, dir); code != exitOK || !strings.Contains(out, "ok    ours") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	putLines(t, filepath.Join(dir, "wrong.yaml"), "causes:", "  - id: other", "    titel: Typo")
	if code, out := testRulesIn(t, dir); code != exitFinding || !strings.Contains(out, "wrong.yaml:3: ") {
		t.Errorf("exit %d:\n%s", code, out)
	}
}

func TestCasesThatProveNothingFail(t *testing.T) {
	queue := `-- alerts.json --
[{"labels": {"alertname": "VLLMRequestQueueBackup", "model_name": "llama-70b", "namespace": "llm"}}]
-- workers --
a llm p-0 p llama-70b n
-- evidence --
requests_running a 64 was=60
max_num_seqs a 64
requests_waiting a 38 was=0
kv_usage a 0.66 was=0.60
-- want --
cause concurrency_cap
`
	for name, c := range map[string]struct{ files, why string }{
		"without want":        {"-- alerts.json --\n[]\n", "has no file want"},
		"without anything":    {"-- want --\nincidents 0\n", "neither alerts.json nor evidence nor pages"},
		"with a page gone":    {"-- workers --\na llm p-0 p m n\n-- pages --\na gone.prom\n-- want --\nincidents 0\n", "gone.prom"},
		"with no such worker": {"-- workers --\na llm p-0 p m n\n-- pages --\nb x.prom\n-- want --\nincidents 0\n", "pages:1: wants the short-name of a worker"},
		"with half the pages": {"-- workers --\na llm p-0 p m n\nb llm p-1 p m n\n-- pages --\na x.prom\n-- x.prom --\nvllm:num_requests_running 1\n-- want --\nincidents 0\n", ""},
		"with an old page":    {"-- workers --\na llm p-0 p m n\n-- pages --\na x.prom 5m\n-- x.prom --\nvllm:num_requests_running 1\n-- want --\nincidents 0\n", "case's own time"},
		"like nothing":        {queue + "looks_like gateway_failure\n", "does not look like gateway_failure, which no alert is a sign of"},
		"hardly like it":      {queue + "looks_like engine_hang\n", "does not look like engine_hang, for which alerts and evidence speak with only 2 dB; 4 are the least"},
		"like no cause":       {queue + "looks_like kv_exhausted\n", "want:2: looks_like kv_exhausted: there is no such cause"},
		"like it, named late": {strings.Replace(queue, "cause concurrency_cap\n", "looks_like kv_exhaustion\n", 1), "want:1: looks_like wants a line cause before it"},
		"with pages apart":    {"-- workers --\na llm p-0 p m n\nb llm p-1 p m n\n-- pages --\na x.prom\nb x.prom\na x.prom 2m\n-- x.prom --\nvllm:num_requests_running 1\n-- want --\nincidents 0\n", "p-1 has no page of 2m0s before"},
	} {
		dir := t.TempDir()
		putLines(t, filepath.Join(dir, "case.txtar"), c.files)
		code, out := testRulesIn(t, dir)
		if c.why == "" && code != exitOK || c.why != "" && (code != exitFinding || !strings.Contains(out, c.why)) {
			t.Errorf("a case %s: exit %d, want a finding that says %q:\n%s", name, code, c.why, out)
		}
	}
}

// The case that the guide shows holds.
func TestTheGuidesCaseHolds(t *testing.T) {
	guide, err := os.ReadFile("../../docs/guide.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(guide), "```\n-- alerts.json --")
	example, _, closed := strings.Cut(after, "```")
	if !ok || !closed {
		t.Fatal("the guide shows no case")
	}
	dir := t.TempDir()
	putLines(t, filepath.Join(dir, "guide.txtar"), "-- alerts.json --"+example)
	if code, out := testRulesIn(t, dir); code != exitOK {
		t.Errorf("exit %d:\n%s", code, out)
	}
}
