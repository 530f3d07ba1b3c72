package catalog_test

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"paramedic/rules/catalog"
	"paramedic/rules/classify"
	"paramedic/rules/rulestest"
	"paramedic/state"
)

func TestBuiltInCatalogueHasNoProblems(t *testing.T) {
	c := rulestest.MustLoad(t)
	if len(c.Causes()) < 10 {
		t.Errorf("%d causes, want the first ten", len(c.Causes()))
	}
	for _, id := range []state.Symptom{"ttft_high", "itl_high", "e2e_high", "queue_buildup", "queue_time_high", "kv_pressure",
		"preemptions",
		"throughput_drop", "error_rate", "aborts", "prefix_hit_low", "gpu_memory_high", "gpu_hardware", "gpu_throttled", "gpu_idle",
		"memory_growth",
		"oom", "crash_loop", "worker_down", "target_down", "no_endpoints", "rollout_stuck", "slo_burn", "quality", state.Unclassified} {
		if _, ok := c.SymptomTable()[id]; !ok {
			t.Errorf("no symptom %s", id)
		}
	}
	for _, cause := range c.Causes() {
		if cause.Playbook == "" || !regexp.MustCompile(`^[a-z0-9_]+$`).MatchString(cause.Playbook) {
			t.Errorf("cause %s: playbook %q is no file name", cause.ID, cause.Playbook)
		}
		if cause.What == "" || len(cause.Do) == 0 || len(cause.Avoid) == 0 || len(cause.LookAlikes) == 0 {
			t.Errorf("cause %s does not say what it is, what to do, what to avoid and what looks like it", cause.ID)
		}
		for _, a := range cause.LookAlikes {
			if other, ok := c.Cause(a.Cause); ok && other.Differs(cause.ID) == "" && cause.ID != "benign_alert" &&
				a.Cause != "benign_alert" &&
				!strings.Contains("prefix_cache_collapse kv_exhaustion", string(a.Cause)) && cause.ID != "prefill_starvation" &&
				cause.ID != "engine_hang" {
				t.Errorf("%s says what sets %s apart, but not the other way round", cause.ID, a.Cause)
			}
		}
	}
}

func TestUserRulesExtendAndReplace(t *testing.T) {
	dir := t.TempDir()
	rulestest.Write(t, dir, "mine.yaml", `alerts:
  - {name: LLMHighTTFT, symptom: e2e_high}
  - {name: OurOwnRule, symptom: kv_pressure}
causes:
  - id: kv_leak
    title: "Ours on {target}"
    prior: -1
    scope: pod
    explains: {kv_pressure: 9}
    evidence:
      - {when: kv_usage.max > 0.5, weight: 20, text: "used {kv_usage.max}"}
`)
	c, problems, err := catalog.Load(dir)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	if s := classify.Classify(c, state.Alert{Labels: map[string]string{"alertname": "LLMHighTTFT"}}, "x"); s.Symptom != "e2e_high" {
		t.Errorf("a user's alert does not replace ours: %v", s)
	}
	if s := classify.Classify(c, state.Alert{Labels: map[string]string{"alertname": "OurOwnRule"}}, "x"); s.Symptom != "kv_pressure" {
		t.Errorf("a user's alert is not known: %v", s)
	}
	if cause, _ := c.Cause("kv_leak"); cause.Prior != -1 || len(cause.Evidence) != 1 {
		t.Errorf("a user's cause does not replace ours: %+v", cause)
	}
}

func TestProblemsNameFileAndLine(t *testing.T) {
	dir := t.TempDir()
	rulestest.Write(t, dir, "bad.yaml", `alerts:
  - {name: A, symptom: no_such_symptom}
causes:
  - id: mine
    title: "On {nowhere}"
    scope: galaxy
    leads_to: [nothing]
    evidence:
      - {when: no_such_signal.max > 0.5, weight: 1, text: a}
      - {when: kv_usage.maximum > 0.5, weight: 1, text: b}
      - {when: kv_usage.max, weight: 1, text: c}
      - {when: has_symptom("no_such"), weight: 1, text: d}
      - {when: "[1,2].all(x, x > 0)", weight: 1, text: e}
      - {when: kv_usage.max > 0.5, weight: 1, text: "{kv_usage.nothing}"}
      - {when: kv_usage.max > 0.5, weight: 1, text: f, per: star}
      - {when: e2e_p95.value > 2.0 * e2e_p95.week_ago, weight: 1, text: g}
`)
	rulestest.Write(t, dir, "worse.yaml", "causes:\n  - id: x\n    titel: y\n")
	_, problems, err := catalog.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]bool{}
	for _, p := range problems {
		lines[strings.TrimPrefix(p.String(), dir+string(os.PathSeparator))[:len("bad.yaml:1")]] = true
		t.Log(p)
	}
	for _, want := range []string{":2:", ":4:", ":5:", ":9:", ":10:", ":11:", ":12:", ":13:", ":14:", ":15:", ":16:"} {
		found := false
		for _, p := range problems {
			found = found || strings.Contains(p.String(), "bad.yaml"+want)
		}
		if !found {
			t.Errorf("no problem at bad.yaml%s", want)
		}
	}
	found := false
	for _, p := range problems {
		found = found || strings.HasPrefix(p.String(), filepath.Join(dir, "worse.yaml")+":3:")
	}
	if !found {
		t.Errorf("no problem for an unknown key at worse.yaml:3: %v", problems)
	}
}

// Load reports every unusable entry. An unknown placeholder, or a weight that is no number, would
// otherwise appear only in an incident.
func TestUnusableEntriesAreProblems(t *testing.T) {
	dir := t.TempDir()
	rulestest.Write(t, dir, "mine.yaml", `alerts:
  - {name: A, symptom: kv_pressure, severity: sev-critical}
  - {name: B, symptom: kv_pressure, severity: p1}
causes:
  - id: mine
    title: Mine
    scope: pool
    prior: -.inf
    evidence:
      - {when: kv_usage.max > 0.5, weight: .inf, text: "{count} of {pods}"}
      - {when: kv_usage.max > 0.5, weight: 1, text: b, else: {weight: .nan, text: c}}
    do:
      - Look at {nodes}
      - Call {kv_usage}
      - Call {tagret}
    avoid: ["{tagret}"]
  - id: other
    title: Other
    scope: pool
    leads_to: [other]
    look_alikes: [{cause: other, differs: in nothing}]
    explains: {kv_pressure: 1e300}
    evidence: [{when: kv_usage.max > 0.5, weight: 1, text: a}]
metrics:
  - {any: [answers_total], label: {code: "5(.."}, symptom: error_rate}
  - {any: ['answers_total{code="500"}'], func: [raet, sum], symptom: error_rate}
words:
  - {any: [Answer-Errors, kaput], symptom: error_rate}
xids:
  - {code: -79, class: hardware}
pathologies:
  - {id: My Pattern, title: P, when: kv_usage.max > 0.5, text: t, points_to: [kv_leak]}
`)
	_, problems, err := catalog.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range problems {
		got = append(got, strings.TrimPrefix(p.String(), filepath.Join(dir, "mine.yaml")+":"))
	}
	want := []string{
		"2: alert A: severity \"sev-critical\" is none of critical, warning, info",
		"5: prior is -Inf dB: give a number from -100 to 100",
		"10: weight is +Inf dB: give a number from -100 to 100",
		"10: no value for {pods} here: in evidence there are {full_in}, {count}, {total}, in titles and advice {pods}, {nodes}, {gpus}, " +
			"{broken}, {of_workers}",
		"11: weight of else is NaN dB: give a number from -100 to 100",
		"14: no placeholder {kv_usage} here",
		"15: no placeholder {tagret} here",
		"16: no placeholder {tagret} here",
		"17: explains kv_pressure is 1e+300 dB: give a number from -100 to 100",
		"17: cause other leads to itself: take it out of leads_to",
		"17: cause other looks like itself: take it out of look_alikes",
		"25: label code: error parsing regexp: missing closing ): `5(..`",
		"26: \"answers_total{code=\\\"500\\\"}\" is no name of a metric: give the name alone, with * for anything, and what the selector " +
			"asks for as label",
		"26: PromQL has no function \"raet\"; did you mean rate?",
		"28: \"Answer-Errors\" is in no name of an alert, which is read as letters and digits alone: write \"answererrors\"",
		"30: xid code \"-79\" is not a number from 1 to 999",
		"32: pathology \"My Pattern\" cannot be an ID: cases, playbooks and addresses name it, so give it letters, digits, _, - and . only",
	}
	if !slices.Equal(got, want) {
		t.Errorf("problems:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A weight can only be questioned if its reason is known: every weight that this test names needs a
// why.
func TestEveryWeightHasAReason(t *testing.T) {
	c, _, err := catalog.Load("")
	if err != nil {
		t.Fatal(err)
	}
	for _, cause := range c.Causes() {
		for i, e := range cause.Evidence {
			switch n := len([]rune(e.Why)); {
			case n == 0:
				t.Errorf("%s (%s): evidence %d, %+g dB, does not say why so much: %s", cause.ID, cause.File, i+1, e.Weight, e.When)
			case n > 220:
				t.Errorf("%s (%s): why of evidence %d has %d characters, too many to be read at night", cause.ID, cause.File, i+1, n)
			}
		}
	}
}

// A person redoes the sum of an incident in the head, so every weight is a whole number.
func TestWeightsAreWholeDecibans(t *testing.T) {
	c, _, err := catalog.Load("")
	if err != nil {
		t.Fatal(err)
	}
	whole := func(cause *catalog.Cause, what string, weight float64) {
		if weight != math.Round(weight) {
			t.Errorf("%s (%s): %s is %+g dB", cause.ID, cause.File, what, weight)
		}
	}
	for _, cause := range c.Causes() {
		whole(cause, "prior", cause.Prior)
		for symptom, weight := range cause.Explains {
			whole(cause, string(symptom), weight)
		}
		for _, e := range cause.Evidence {
			whole(cause, e.When, e.Weight)
			if e.Else != nil {
				whole(cause, "else of "+e.When, e.Else.Weight)
			}
		}
	}
}

// One mistake hides no other, in its file or in the next, and each problem contains a fix.
func TestAllProblemsAreReportedAtOnce(t *testing.T) {
	dir := t.TempDir()
	rulestest.Write(t, dir, "a.yaml", `causes:
  - id: mine
    titel: typo
    prior: often
    scope: pool
    explains: {kv_pressur: 3}
    evidence:
      - {when: kv_usage.maxi > 0.5, weight: heavy, text: a, else: {weight: 2}}
      - {when: kv_usage.max > 0.5, weight: 3, text: [a], signal: kv_usge}
  - id: mine
    title: Two
    scope: pool
    scope: pod
    evidence: [{when: kv_usage.max > 0.5, weight: 1, text: a, else: {weight: -3, text: ""}}]
symptoms:
  - {id: s, serving: perhaps}
  - {id: s}
`)
	rulestest.Write(t, dir, "b.yaml", `alerts:
  - {name: A, symptom: kv_pressure}
  - name: B
   symptom: kv_pressure
causes: []
`)
	rulestest.Write(t, dir, "c.yaml", `alerts:
  - {name: A, symptom: kv_pressure}
  - {name: D, symptom: s} # declared in a.yaml
---
alerts: []
`)
	rulestest.Write(t, dir, "d.yaml", "alerts: 3\ncauses:\n  - title: x\n  - 5\nxids:\n  - {code: 79, class: hardware}\n  -\n  - {code: 79, class: "+
		"notice}\n")
	_, problems, err := catalog.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range problems {
		got = append(got, strings.ReplaceAll(p.String(), dir+string(os.PathSeparator), ""))
	}
	want := []string{
		`a.yaml:2: a cause needs title: `,
		`a.yaml:2: no symptom "kv_pressur"; did you mean kv_pressure?`,
		`a.yaml:3: a cause has no key titel; did you mean title?`,
		`a.yaml:4: prior must be a number, not "often"`,
		`a.yaml:8: weight must be a number, not "heavy"`,
		`a.yaml:8: else needs text: What was seen.`,
		`a.yaml:8: column 9: undefined field 'maxi'`,
		`a.yaml:9: text must be text, not a list`,
		`a.yaml:10: cause mine is declared twice, first at a.yaml:2: `,
		`a.yaml:13: scope occurs twice, first in line 12: remove one`,
		`a.yaml:14: else needs text: What was seen.`,
		`a.yaml:16: serving must be true or false, not "perhaps"`,
		`a.yaml:17: symptom s is declared twice, first at a.yaml:16: `,
		`b.yaml:4: this is not YAML: `,
		`c.yaml:2: alert A is declared twice, first at b.yaml:2: take one out, or give it another name`,
		`c.yaml:4: only the first document of a file is read: `,
		`d.yaml:1: alerts must be a list, not "3"`,
		`d.yaml:3: a cause needs id: A name such as kv_exhaustion.`,
		`d.yaml:3: a cause needs scope: `,
		`d.yaml:3: a cause needs evidence: `,
		`d.yaml:4: an entry of causes must be keys with values, not "5"`,
		`d.yaml:7: an empty entry in xids: fill it or remove it`,
		`d.yaml:8: xid 79 is declared twice, first at d.yaml:6: `,
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !strings.HasPrefix(got[i], want[i]) {
			t.Fatalf("problems:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// Causes in leads_to and look_alikes, and signals of evidence, have to exist.
func TestCatalogReferencesResolve(t *testing.T) {
	dir := t.TempDir()
	rulestest.Write(t, dir, "a.yaml", `causes:
  - id: mine
    title: Mine
    scope: pool
    leads_to: [kv_exhaustoin]
    look_alikes: [{cause: nothing_of_ours_at_all, differs: x}]
    evidence: [{when: kv_usage.max > 0.5, weight: 1, text: a, signal: kv_usge}]
  - id: other
    title: Other
    scope: pool
    evidence: [{when: kv_usage.max > 0.5, weight: 1, text: a, leaves_open: {cause: colt_start, sign: a young worker}}]
`)
	_, problems, err := catalog.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range problems {
		got = append(got, p.Text)
	}
	for i, want := range []string{`leads to "kv_exhaustoin", which is no cause; did you mean kv_exhaustion?`,
		`is no cause; there are bad_rollout, benign_alert, `, `leaves "colt_start" open, which is no cause; did you mean cold_start?`, `no signal "kv_usge"; did you mean kv_usage?`} {
		if !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("%d: nothing says %q:\n%s", i, want, strings.Join(got, "\n"))
		}
	}
}

// Anchors and merge keys are resolved as YAML defines them.
func TestYAMLAnchorsAndMergesAreResolved(t *testing.T) {
	dir := t.TempDir()
	rulestest.Write(t, dir, "a.yml", `causes:
  - &mine
    id: mine
    title: Mine
    scope: pool
    evidence: &seen [{when: kv_usage.max > 0.5, weight: 1, text: a}]
  - <<: *mine
    id: other
    evidence: *seen
`)
	rulestest.Write(t, dir, "b.yaml", "# nothing yet\n")
	c, problems, err := catalog.Load(dir)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	if other, ok := c.Cause("other"); !ok || other.Title != "Mine" || len(other.Evidence) != 1 {
		t.Errorf("got %+v", other)
	}
}

func TestMissingDirectoryIsAnError(t *testing.T) {
	if _, _, err := catalog.Load(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("loading from a directory that does not exist gave no error")
	}
}
