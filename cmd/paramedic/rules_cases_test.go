package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/lab"
	"paramedic/lab/drill"
	"paramedic/lab/scrape"
)

// record writes the pages of a broken fleet, as curl would, and returns the case's files workers
// and pages.
func record(t *testing.T, dir, fault string, ages ...time.Duration) (workers, pages string) {
	t.Helper()
	scenario, err := drill.New(fault, 4)
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
			scrape.Worker(fleet, pod.Name).ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
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

// Recorded pages are enough for a case, without alerts or written evidence.
func TestRecordedPagesAreACase(t *testing.T) {
	dir := t.TempDir()
	workers, pages := record(t, dir, lab.KVExhaustion, 10*time.Minute, 9*time.Minute, 8*time.Minute, 2*time.Minute, 0)
	putLines(t, filepath.Join(dir, "full.txtar"), "-- workers --", workers+"-- pages --", pages+"-- want --", "cause kv_exhaustion",
		"symptoms kv_pressure queue_buildup")
	if code, out := testRulesIn(t, dir); code != exitOK || !strings.Contains(out, "the one case passes") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	putLines(t, filepath.Join(dir, "wrong.txtar"), "-- workers --", workers+"-- pages --", pages+"-- want --", "cause routing_skew")
	if code, out := testRulesIn(t, dir); code != exitFinding || !strings.Contains(out, "FAIL  wrong") ||
		!strings.Contains(out, "cause kv_exhaustion") {
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

// The cases of a directory run with its rules, and a mistake in a rule is reported with its line.
func TestOwnRulesAreTestedWithTheirCases(t *testing.T) {
	dir := t.TempDir()
	putLines(t, filepath.Join(dir, "ours.yaml"), "symptoms:", "  - {id: our_symptom, title: Ours}", "alerts:",
		"  - {name: OurAlert, symptom: our_symptom}",
		"causes:", "  - id: our_cause", `    title: "Ours on {target}"`, "    prior: -2", "    scope: pool", "    explains: {our_symptom: 5}", "    evidence:",
		`      - {when: requests_waiting.max > 7, weight: 6, text: "{requests_waiting.max} wait"}`)
	putLines(t, filepath.Join(dir, "cases", "ours.txtar"), "-- alerts.json --", `[{"labels": {"alertname": "OurAlert", "model_name": "m", "namespace": "llm"}}]`,
		"-- workers --", "a llm vllm-0 vllm m node-1", "-- evidence --", "requests_waiting * 9", "-- want --", "cause our_cause",
		"title Ours on")
	if code, out := testRulesIn(t, dir); code != exitOK || !strings.Contains(out, "ok    ours") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	putLines(t, filepath.Join(dir, "more.yaml"), "causes:",
		"  - {id: unproven, title: More, prior: -9, scope: pool, explains: {our_symptom: 1}, evidence: [{when: requests_waiting.max > "+
			"99, weight: 1, text: more}]}")
	if code, out := testRulesIn(t, dir); code != exitOK ||
		!strings.Contains(out, "no case tests unproven ("+filepath.Join(dir, "more.yaml")+":2)") ||
		strings.Contains(out, "tests our_cause") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	putLines(t, filepath.Join(dir, "wrong.yaml"), "causes:", "  - id: other", "    titel: Typo")
	if code, out := testRulesIn(t, dir); code != exitFinding || !strings.Contains(out, "wrong.yaml:3: ") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	if err := os.RemoveAll(filepath.Join(dir, "cases")); err != nil {
		t.Fatal(err)
	}
	if code, out := testRulesIn(t, dir); code != exitFinding || !strings.Contains(out, "wrong.yaml:3: ") {
		t.Errorf("wrong rules without a case: exit %d:\n%s", code, out)
	}
}

// ourRules writes a user's cause, and a case that needs it, each into a directory.
func ourRules(t *testing.T, rulesIn, caseIn string) (file string) {
	t.Helper()
	putLines(t, filepath.Join(rulesIn, "ours.yaml"), "causes:", "  - id: our_cause", `    title: "Ours on {target}"`, "    prior: 10", "    scope: pool", "    explains: {queue_buildup: 5}", "    evidence:",
		`      - {when: requests_waiting.max > 7, weight: 9, text: "{requests_waiting.max} wait"}`)
	file = filepath.Join(caseIn, "ours.txtar")
	putLines(t, file, "-- alerts.json --", `[{"labels": {"alertname": "VLLMRequestQueueBackup", "model_name": "m", "namespace": "llm"}}]`,
		"-- workers --", "a llm vllm-0 vllm m node-1", "-- evidence --", "requests_waiting * 9", "-- want --", "cause our_cause",
		"not kv_exhaustion unknown")
	return file
}

// Rules are found beside their cases, whether the argument is a case or its directory.
func TestRulesBesideACaseAreLoaded(t *testing.T) {
	for name, c := range map[string]struct{ rules, cases, run string }{
		"a file beside its rules":         {"a", "a", "a/ours.txtar"},
		"a file below its rules":          {"a", "a/cases", "a/cases/ours.txtar"},
		"a directory beside its rules":    {"a", "a", "a"},
		"a directory below its rules":     {"a", "a/cases", "a/cases"},
		"a directory far above its cases": {"a", "a/b/c", "a"},
		"rules in a directory of several": {"a/b", "a/b", "a"},
	} {
		root := t.TempDir()
		ourRules(t, filepath.Join(root, c.rules), filepath.Join(root, c.cases))
		code, out := testRulesIn(t, filepath.Join(root, c.run))
		if want := "the one case passes, with the rules in " + filepath.Join(root, c.rules); code != exitOK || !strings.Contains(out, want) {
			t.Errorf("%s: exit %d, want %q:\n%s", name, code, want, out)
		}
	}
	// A configuration in the parent directory is not read as rules. Another case in the directory
	// does not matter.
	root := t.TempDir()
	file := ourRules(t, filepath.Join(root, "elsewhere"), filepath.Join(root, "cases"))
	putLines(t, filepath.Join(root, "paramedic.yaml"), "listen: 127.0.0.1:8080")
	putLines(t, filepath.Join(root, "cases", "broken.txtar"), "-- want --", "incidents 0")
	if code, out := testRulesIn(t, file); code != exitFinding || !strings.Contains(out, `no cause "our_cause"`) || !strings.Contains(out, "1 of 1 cases fail\n") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	var out bytes.Buffer
	if code := run(t.Context(), []string{"rules", "test", "--dir", filepath.Join(root, "elsewhere"), file}, &out, &out); code != exitOK {
		t.Errorf("with --dir: exit %d:\n%s", code, &out)
	}
	if code, out := testRulesIn(t, filepath.Join(root, "paramedic.yaml")); code != exitError ||
		!strings.Contains(out, "is not a case: the name of a case must end in .txtar") {
		t.Errorf("exit %d:\n%s", code, out)
	}
}

// A misspelt word makes a case fail.
func TestMisspeltWordsOfACaseAreFound(t *testing.T) {
	const alerts, worker = `[{"labels": {"alertname": "VLLMRequestQueueBackup", "model_name": "m", "namespace": "llm"}}]`, "a llm vllm-0 vllm m node-1"
	put := func(evidence, want string, more ...string) (int, string) {
		dir := t.TempDir()
		putLines(t, filepath.Join(dir, "case.txtar"),
			append([]string{"-- alerts.json --", alerts, "-- workers --", worker, "-- evidence --", evidence, "-- want --", want},
				more...)...)
		return testRulesIn(t, dir)
	}
	for line, why := range map[string]string{
		"not kv_exhaustoin":        `want:1: no cause "kv_exhaustoin"; did you mean kv_exhaustion?`,
		"cause nothing_that_is":    `want:1: no cause "nothing_that_is"; there are bad_rollout, `,
		"symptoms queue_build_up":  `want:1: no symptom "queue_build_up"; did you mean queue_buildup?`,
		"missing kv_usge":          `want:1: no signal "kv_usge"; did you mean kv_usage?`,
		"pods b":                   `want:1: no worker "b"; there are a`,
		"not":                      "want:1: not needs the ID of a cause",
		"title":                    "want:1: title needs a value",
		"nott kv_exhaustion":       "want:1: unknown word nott",
		"not nowhere\nnot neither": `want:2: no cause "neither"`, // one does not hide the other
	} {
		if code, out := put("requests_waiting * 0", line); code != exitFinding || !strings.Contains(out, why) {
			t.Errorf("%q: exit %d, want %q:\n%s", line, code, why, out)
		}
	}
	for evidence, why := range map[string]string{
		"requests_wating * 9":    `evidence:1: no signal "requests_wating"; did you mean requests_waiting?`,
		"missing kv_usge denied": `evidence:1: no signal "kv_usge"; did you mean kv_usage?`,
	} {
		if code, out := put(evidence, "incidents 1"); code != exitFinding || !strings.Contains(out, why) {
			t.Errorf("%q: exit %d, want %q:\n%s", evidence, code, why, out)
		}
	}
	for part, why := range map[string]string{
		"-- evidance --": "the case has an unknown file evidance; did you mean evidence?",
		"-- want --":     "the case has two files want: merge them",
	} {
		if code, out := put("requests_waiting * 9", "incidents 1", part, "x"); code != exitFinding || !strings.Contains(out, why) {
			t.Errorf("%q: exit %d, want %q:\n%s", part, code, why, out)
		}
	}
	if code, out := put("requests_waiting * 0", "not kv_exhaustion\nsymptoms queue_buildup\nincidents 1"); code != exitOK {
		t.Errorf("exit %d:\n%s", code, out)
	}
}

// Parts of a case that would be skipped or misread are reported. Such a case would prove less than
// it claims.
func TestCaseFilesAreReadInFull(t *testing.T) {
	parts := map[string]string{
		"alerts.json": `[{"labels": {"alertname": "VLLMRequestQueueBackup", "model_name": "m", "namespace": "llm"}, "status": "firing", "startsAt": "2026-11-21T03:00:00Z"}]`,
		"workers":     "a llm vllm-0 vllm m node-1 0,1\nb llm vllm-1 vllm m node-2 0,1",
		"evidence":    "requests_waiting * 0\ngpu_util */* 90",
		"want":        "cause unknown",
	}
	run := func(part, text string) (int, string) {
		dir := t.TempDir()
		var lines []string
		for _, name := range []string{"alerts.json", "workers", "evidence", "want"} {
			if name == part {
				lines = append(lines, "-- "+name+" --", text)
			} else {
				lines = append(lines, "-- "+name+" --", parts[name])
			}
		}
		putLines(t, filepath.Join(dir, "case.txtar"), lines...)
		return testRulesIn(t, dir)
	}
	if code, out := run("", ""); code != exitOK {
		t.Fatalf("exit %d:\n%s", code, out)
	}
	for _, c := range []struct{ part, text, why string }{
		{"alerts.json", `[{"labels": {"alertname": "A"}, "annotation": {"summary": "x"}}]`, "alerts.json: alert 1 has an unknown key annotation; did you mean annotations?"},
		{"alerts.json", `[{"labels": {"alertname": "A"}, "status": "resolved"}]`, "alerts.json: alert 1 is resolved, and a case takes only firing alerts: remove it"},
		{"alerts.json", `{"receiver": "x", "alerts": []}`, `alerts.json: it must be a list of alerts, [{…}, {…}], and is object: from a webhook's body copy the value of "alerts"`},
		{"alerts.json", `[{"labels": {"alertname": "A", "code": 500}}]`, `alerts.json: labels wants texts in quotes, as {"severity": "warning"}, and there is number`},
		{"alerts.json", `[{"labels": {"alertname": "A"}, "after": 9}]`, "alerts.json: after wants a text in quotes, and there is number"},
		{"workers", parts["workers"] + "\na llm vllm-2 vllm m node-3",
			"workers:3: the short name a is used twice: give each worker its own"},
		{"workers", parts["workers"] + "\nc llm vllm-1 vllm m node-3", "workers:3: the pod vllm-1 is used twice: give each worker its own"},
		{"workers", "a llm vllm-0 vllm m node-1 0, 1",
			"workers:1: GPUs are given twice, the second time as 1: write all of them as one word, such as 0,1"},
		{"workers", "a llm vllm-0 vllm m node-1 0,1 role=decod", `workers:1: role is "decod": use prefill or decode`},
		{"workers", "# none", "evidence:1: * matches no worker: list workers in a file workers, or write pool"},
		{"evidence", "gpu_util */7 90", `evidence:1: no worker has the GPU of "*/7"`},
		{"evidence", "requests_waiting bb 9", `evidence:1: no worker "bb"; did you mean b?`},
		{"evidence", "requests_waiting * NaN", `evidence:1: value "NaN" is not a number`},
		{"evidence", "requests_waiting * 9 was=Inf", `evidence:1: was must be a number, and is "Inf"`},
		{"evidence", "requests_waiting * 9 was=1 was=2", "evidence:1: was= is given twice"},
		{"want", "min_confidence NaN", "want:1: min_confidence needs one number from 0 to 1"},
		{"want", "min_confidence 90", "want:1: min_confidence needs one number from 0 to 1"},
		{"want", "min_confidence at least 0.9", "want:1: min_confidence needs one number from 0 to 1"},
		{"want", "impact nonne", `want:1: no impact "nonne"; did you mean none?`},
		{"want", "impact none felt", "want:1: impact needs one word"},
		{"want", "impact felt", "impact unknown, want felt"},
	} {
		if code, out := run(c.part, c.text); code != exitFinding || !strings.Contains(out, c.why) {
			t.Errorf("%s %q: exit %d, want %q:\n%s", c.part, c.text, code, c.why, out)
		}
	}
}

// All mistakes of a case are reported at once, in all its files, without follow-up errors.
func TestCaseMistakesAreReportedTogether(t *testing.T) {
	mistakes := func(files string) (int, []string) {
		dir := t.TempDir()
		putLines(t, filepath.Join(dir, "case.txtar"), files)
		code, out := testRulesIn(t, dir)
		var told []string
		for line := range strings.Lines(out) {
			if _, text, ok := strings.Cut(line, "case.txtar:  "); ok {
				told = append(told, strings.TrimSpace(text))
			}
		}
		return code, told
	}
	for name, c := range map[string]struct {
		files string
		want  []string // how they begin
	}{
		"in what is given": {"-- alerts.json --\n" + `[{"labels": {}}, {"labels": {"alertname": "A"}, "after": "soon"}]` + `
-- workers --
a llm
b llm p-1 p m n colour=red
-- notes --
-- pages --
c x.prom
b gone.prom long
-- evidence --
kv_usge a x was=y
kv_usage nobody 1
base gone.txt
kv_usage
-- want --
cause kv_exhaustoin
nott kv_leak
incidents many
min_confidence high
looks_like kv_leak
incident 1
looks_like kv_leak
pods a c
`, []string{
			"the case has an unknown file notes;", "alerts.json: alert 1 has no labels", `alerts.json: alert 2: after is "soon"`, "workers:1: write short-name", "workers:2: unknown key colour=",
			"pages:1: write the short name", `pages:2: "long" is not an age`, "pages:2: no file ", `evidence:1: no signal "kv_usge"`, `evidence:1: value "x" is not`, "evidence:1: was must be a number",
			`evidence:2: no worker "nobody"`, "evidence:3: no file ", "evidence:4: write signal", `want:1: no cause "kv_exhaustoin"`, "want:2: unknown word nott", `want:3: "many" is not a number`,
			"want:4: min_confidence needs one number", "want:7: write a line cause", `want:8: no worker "c"`,
		}},
		"in what comes out": {"-- alerts.json --\n" + `[{"labels": {"alertname": "VLLMRequestQueueBackup", "model_name": "m", "namespace": "llm"}}]` + `
-- want --
cause kv_leak
nott kv_leak
symptoms oom
incident 2
cause kv_leak
title x
incident 1
title nothing
`, []string{
			"want:2: unknown word nott", "cause unknown (", "no symptom oom", "want:4: the case has 1 incidents, and none has number 2", "title ",
		}},
		"in recorded pages": {"-- workers --\na llm p-0 p m n\nb llm p-1 p m n\nc llm p-2 p m n\n-- pages --\na x.prom\nb x.prom\nc " +
			"x.prom\na x.prom 2m\n-- x.prom --\nvllm:num_requests_running 1\n-- want --\nincidents 0\n", []string{
			"pages: p-1 has no page of 2m before", "pages: p-2 has no page of 2m before",
		}},
	} {
		code, told := mistakes(c.files)
		if code != exitFinding || !slices.EqualFunc(told, c.want, strings.HasPrefix) {
			t.Errorf("%s: exit %d, told\n%s\nwant\n%s", name, code, strings.Join(told, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

func TestCasesWithoutExpectationFail(t *testing.T) {
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
		"without want": {"-- alerts.json --\n[]\n", "has no file want"},
		"with no labels": {"-- alerts.json --\n[{\"label\": {\"alertname\": \"A\"}}]\n-- want --\nincidents 1\n",
			"alert 1 has no labels"},
		"without anything": {"-- want --\nincidents 0\n", "no alerts.json, no evidence and no pages"},
		"with a page gone": {"-- workers --\na llm p-0 p m n\n-- pages --\na gone.prom\n-- want --\nincidents 0\n", "gone.prom"},
		"with no such worker": {"-- workers --\na llm p-0 p m n\n-- pages --\nb x.prom\n-- want --\nincidents 0\n",
			"pages:1: write the short name of a worker"},
		"with half the pages": {"-- workers --\na llm p-0 p m n\nb llm p-1 p m n\n-- pages --\na x.prom\n-- x.prom " +
			"--\nvllm:num_requests_running 1\n-- want --\nincidents 0\n", ""},
		"with an old page": {"-- workers --\na llm p-0 p m n\n-- pages --\na x.prom 5m\n-- x.prom --\nvllm:num_requests_running 1\n-- " +
			"want --\nincidents 0\n", "case's own time"},
		"like nothing": {queue + "looks_like gateway_failure\n", "the case does not look like gateway_failure: no alert is a sign of it"},
		"hardly like it": {queue + "looks_like engine_hang\n",
			"the case does not look like engine_hang: alerts and evidence support it with only"},
		"like no cause": {queue + "looks_like kv_exhausted\n", `want:2: no cause "kv_exhausted"; did you mean kv_exhaustion?`},
		"like it, named late": {strings.Replace(queue, "cause concurrency_cap\n", "looks_like kv_exhaustion\n", 1),
			"want:1: write a line cause before looks_like"},
		"with pages apart": {"-- workers --\na llm p-0 p m n\nb llm p-1 p m n\n-- pages --\na x.prom\nb x.prom\na x.prom 2m\n-- x.prom " +
			"--\nvllm:num_requests_running 1\n-- want --\nincidents 0\n", "p-1 has no page of 2m before"},
	} {
		dir := t.TempDir()
		putLines(t, filepath.Join(dir, "case.txtar"), c.files)
		code, out := testRulesIn(t, dir)
		if c.why == "" && code != exitOK || c.why != "" && (code != exitFinding || !strings.Contains(out, c.why)) {
			t.Errorf("a case %s: exit %d, want a finding that says %q:\n%s", name, code, c.why, out)
		}
	}
}

// The case in the guide holds.
func TestGuidesCaseHolds(t *testing.T) {
	guide, err := os.ReadFile("../../docs/own-rules.md")
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
