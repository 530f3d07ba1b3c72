package catalog

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"paramedic/rules/condition"
	"paramedic/rules/signals"
)

// A condition on a value that no query reads would never have an answer.
func TestConditionsUseOnlyQueriedPast(t *testing.T) {
	c, problems, err := Load("")
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	env, err := condition.NewEnvironment(c.Vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	for when, ok := range map[string]bool{
		"ttft_p95.value > 2.0 * ttft_p95.baseline": true, "arrival_rate.value > 2.0 * arrival_rate.week_ago": true,
		"e2e_p95.value > 2.0 * e2e_p95.baseline": false, "pod_ready.value < pod_ready.baseline": false,
		"gpu_temp.value > gpu_temp.day_ago": false,
	} {
		if _, err := env.Compile(when); (err == nil) != ok || err != nil &&
			!strings.Contains(err.Error(), "is never read: such values are read of") {
			t.Errorf("%s: %v", when, err)
		}
	}
}

// exampleRules is the file in the reference.
const exampleRules = `# yaml-language-server: $schema=PATH/docs/reference/rules.schema.json
symptoms:
  - {id: batch_late, title: The nightly batch is late}
alerts:
  - {name: NightlyBatchLate, symptom: batch_late, severity: warning}
causes:
  - id: batch_hog
    title: "A batch job holds the slots of {target}"
    what: The nightly batch runs into the day, and people wait behind it.
    prior: -8
    scope: pool
    explains: {batch_late: 6, queue_buildup: 4}
    chain:
      - {role: cause, signal: output_length_mean, moves: up}
      - {role: symptom, signal: requests_waiting, or: [queue_time_p95], moves: up}
    evidence:
      - when: requests_waiting.max > 20.0 && output_length_mean.value > 1.5 * output_length_mean.baseline
        weight: 8
        why: Only the batch asks for such answers. Chat users who do would look the same.
        text: "{requests_waiting.max} requests wait, and answers have {output_length_mean} tokens, before {output_length_mean.baseline}"
        expects: a queue behind longer answers
        else: {weight: -4, text: "Answers are as long as ever"}
    look_alikes:
      - {cause: traffic_surge, differs: More requests would arrive., by: [arrival_rate]}
    do: ["Stop the batch on {target}."]
    avoid: ["Scaling out: the batch takes the new slots, too."]
`

// exampleExpressions show the syntax of expressions.
var exampleExpressions = []struct{ form, means string }{
	{`has_symptom("ttft_high")`, "an alert of the incident has this symptom"},
	{`only_symptom("ttft_high")`, "and none has another"},
	{`began_before("kv_pressure", "aborts")`, "it has both, and the first began over a minute before the second"},
	{`lasted("ttft_high", 240.0)`, "it has the symptom for at least this many seconds"},
	{`hint("xid") == "79"`, "a fact that an alert carried, from the `hints` of its rule; empty if none did"},
	{`xid_class(gpu_xid.value) == "hardware"`, "`hardware`, `application`, `notice` or empty, by the table of Xids"},
	{`alerted_xid("hardware")`, "the worst Xid that an alert carried is of this class"},
	{`role == "prefill"`, "`prefill` or `decode` if the pool has separate workers for both phases; else empty"},
	{`worker != ""`, "the pod itself, or the pod that uses the GPU; empty for a whole pool"},
	{`workers > 1.0`, "the number of workers in the scope; 0 if unknown"},
	{`pool_known`, "the alerts name their pool; the health of a guessed pool is no evidence"},
}

var fieldMeanings = map[string]string{
	"value": "the entity's own value; for a pool its own series, or else the mean of its pods",
	"max":   "the highest value of the scope's pods",
	"min":   "the lowest value",
	"avg":   "the mean",
	"sum":   "the sum",
	"count": "the number of pods with a value",
	"baseline": "the value an hour before the onset. For a signal that swings: the value of that hour that is nearest to the present one. " +
		"In an expression with several baselines: `hour_ago`",
	"hour_ago": "the value an hour before the onset",
	"day_ago":  "the value a day before, for signals marked below",
	"week_ago": "the value a week before, for the same signals",
	"z":        "the distance from the hour before the onset, in standard deviations",
	"text":     "the value of a signal that is a word",
	"least":    "a lower bound of a length if many requests abort",
}

var placeholderMeanings = map[string]string{
	"cluster":     "the cluster",
	"namespace":   "the namespace",
	"model":       "the model",
	"pool":        "the pool",
	"target":      "the most specific known name of the affected scope",
	"pod":         "the pod of this entity, or the broken pods",
	"pods":        "the broken pods",
	"node":        "the node of this entity, or the broken nodes",
	"nodes":       "the broken nodes",
	"gpu":         "the GPU of this entity, or the broken GPUs",
	"gpus":        "the broken GPUs",
	"workers":     "the number of workers",
	"broken":      "the number of broken workers",
	"of_workers":  "in brackets, after a space: (1 of 4 workers); empty if no worker is named",
	"full_in":     "the time until the container reaches its memory limit",
	"count":       "the number of matching entities",
	"total":       "the number of entities with an answer",
	"entity":      "the entity",
	"rule":        "the alert rule",
	"xid":         "the Xid's number",
	"xid_title":   "the title of its recovery",
	"xid_name":    "its name",
	"xid_meaning": "its meaning",
	"xid_action":  "its action",
	"xid_asks":    "the driver's request",
	"xid_beside":  "the other recent Xids, after a comma",
}

func reference(t *testing.T, c *Catalog) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(`# Rules reference

<!-- Generated from rules by make generate. -->

A file in ` + "`triage.rules_dir`" + ` may have the keys of ` + "`rules.schema.json`" + `. This one declares a cause.
` + "`paramedic rules show`" + ` prints the built-in ones; their files are in ` + "`rules/catalog`" + `:

` + "```yaml\n" + exampleRules + "```" + `

Decibans are ten times the decimal logarithm of the odds: +10 makes a cause ten times as likely, −3
half as likely. A cause's score is the sum of its prior, the weight of each explained symptom, −3
for each unexplained symptom, and the weights of its evidence. A cause is named if its score is at
least 6 and leads the next one by 4.

## Expressions

` + "`when` is [CEL](https://cel.dev) without macros, of at most 1,024 characters. For example,\n" +
		"`kv_usage.max > 0.95 && requests_waiting.sum > 0.0` reads two signals. If a signal is missing, the\n" +
		"evidence has no answer: it has no weight and is listed. With `per: pod` (gpu, node) the expression\n" +
		"is evaluated for each.\n\n| field of a signal | meaning |\n|---|---|\n")
	for _, f := range condition.ReadingFields {
		if fieldMeanings[f] == "" {
			t.Errorf("the field %s of signals is not explained", f)
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", f, fieldMeanings[f])
	}
	b.WriteString("\n| other values | meaning |\n|---|---|\n")
	for _, e := range exampleExpressions {
		fmt.Fprintf(&b, "| `%s` | %s |\n", e.form, e.means)
	}
	b.WriteString("\n## Placeholders\n\nTexts of evidence may have signals, as `{kv_usage}` or `{kv_usage.max}`, and these:\n\n" +
		"| placeholder | meaning | in texts of |\n|---|---|---|\n")
	for _, p := range fixedPlaceholders {
		if placeholderMeanings[p] == "" {
			t.Errorf("the placeholder %s is not explained", p)
		}
		where := "everywhere"
		switch {
		case slices.Contains(ofEvidence, p):
			where = "evidence"
		case slices.Contains(ofVerdicts, p):
			where = "title, what, do, avoid"
		}
		fmt.Fprintf(&b, "| `{%s}` | %s | %s |\n", p, placeholderMeanings[p], where)
	}
	b.WriteString("\n## Symptoms\n\n| symptom | title |\n|---|---|\n")
	for _, id := range slices.Sorted(maps.Keys(c.symptoms)) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", id, c.symptoms[id].Title)
	}
	b.WriteString("\n## Signals\n\nEach signal is read from the running engine, DCGM's exporter, kube-state-metrics or the API\n" +
		"server.\n\n| signal | title | unit | per | a day and a week ago |\n|---|---|---|---|---|\n")
	all, err := signals.LoadSignals()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		unit, seasonal := s.Unit, ""
		if s.Text {
			unit = "a word"
		}
		if s.Seasonal {
			seasonal = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", s.ID, strings.ReplaceAll(s.Title, "|", `\|`), unit, s.Per, seasonal)
	}
	return b.String()
}

func TestGeneratedReferenceIsCurrent(t *testing.T) {
	const file = "../../docs/reference/rules.md"
	want := reference(t, builtIn(t))
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%s is not what the code says now: run `make generate` and commit it (%v)", file, err)
	}
}

// The program accepts the examples of the reference.
func TestReferenceExamplesLoad(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine.yaml"), []byte(exampleRules), 0o600); err != nil {
		t.Fatal(err)
	}
	c, problems, err := Load(dir)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	if cause, ok := c.Cause("batch_hog"); !ok || cause.File != filepath.Join(dir, "mine.yaml") {
		t.Errorf("the example's cause is %+v", cause)
	}
	env, err := condition.NewEnvironment(c.Vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range exampleExpressions {
		if _, err := env.Compile(e.form); err != nil {
			t.Errorf("%s: %v", e.form, err)
		}
	}
}

func builtIn(t *testing.T) *Catalog {
	t.Helper()
	c, problems, err := Load("")
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	return c
}
