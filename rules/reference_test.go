package rules

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// exampleRules is the file that the reference shows.
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

// exampleExpressions show what an expression can ask.
var exampleExpressions = []struct{ form, means string }{
	{`has_symptom("ttft_high")`, "an alert of the incident has this symptom"},
	{`only_symptom("ttft_high")`, "and none has another"},
	{`began_before("kv_pressure", "aborts")`, "it has both, and the first began over a minute before the second"},
	{`lasted("ttft_high", 240.0)`, "it has it, and has had it for so many seconds"},
	{`hint("xid") == "79"`, "a fact that an alert carried, by `hints` of rules; empty if none did"},
	{`xid_class(gpu_xid.value) == "hardware"`, "`hardware`, `application`, `notice` or nothing, by the table of Xids"},
	{`alerted_xid("hardware")`, "the worst Xid that an alert carried is of this class"},
	{`role == "prefill"`, "the phase that the worker computes, where the other has workers of its own: `prefill` or `decode`"},
	{`worker != ""`, "the pod that is looked at, or that the GPU serves; empty for a whole pool"},
	{`workers > 1.0`, "how many workers the scope has; 0 if that is not known"},
	{`pool_known`, "the alerts say which pool they are about; the health of one that is guessed is no evidence"},
}

var fieldMeanings = map[string]string{
	"value": "the entity's own; of a pool its own series where there is one, else the mean of its pods", "max": "the most of the scope's pods",
	"min": "the least", "avg": "the mean", "sum": "all together", "count": "how many were measured", "baseline": "an hour before the onset, or what the pool had before; of what swings, the nearest of that hour before the trouble, unless several signals are asked for theirs",
	"hour_ago": "exactly an hour before the onset",
	"day_ago":  "a day before, of signals marked so below", "week_ago": "a week before, of the same", "z": "standard scores away from the hour before the onset",
	"text": "of signals that are words", "least": "of lengths: what they are at least where many requests were given up",
}

var placeholderMeanings = map[string]string{
	"cluster": "the cluster", "namespace": "the namespace", "model": "the model", "pool": "the pool", "target": "the pool, or what is known of it", "pod": "the pod of this entity, or the broken pods",
	"pods": "the broken pods", "node": "its node, or the broken nodes", "nodes": "the broken nodes", "gpu": "its GPU, or the broken GPUs", "gpus": "the broken GPUs", "workers": "how many workers there are",
	"broken": "how many are broken", "of_workers": "in brackets, with a blank before them: (1 of 4 workers); nothing where no worker is named", "full_in": "when the container's memory meets its limit", "count": "of how many entities it is true",
	"total": "of how many", "entity": "the entity", "rule": "the alert rule", "xid": "the Xid's number", "xid_title": "what its recovery is called", "xid_name": "its name",
	"xid_meaning": "what it means", "xid_action": "what to do", "xid_asks": "what the driver asks for", "xid_beside": "the Xids beside it, with a comma before them",
}

func reference(t *testing.T, c *Catalog) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(`# What rules are written of

<!-- Made from rules by make generate. -->

A file in ` + "`triage.rules_dir`" + ` can have the keys of ` + "`rules.schema.json`" + `. This one declares a cause; ` + "`paramedic rules show`" + ` shows any of the built-in ones, whose files
are in ` + "`rules/catalog`" + `:

` + "```yaml\n" + exampleRules + "```" + `

Decibans are ten times the decimal logarithm of the odds: +10 makes a cause ten times as likely, −3 half as likely. A cause's score is its prior, what each
explained symptom adds, 3 less for each symptom that it does not explain, and the weight of what was seen. From 6 on, and 4 ahead of the next, it is named.

## Expressions

` + "`when` is [CEL](https://cel.dev) without macros, of at most 1,024 characters. `kv_usage.max > 0.95 && requests_waiting.sum > 0.0` asks two signals. What was not measured\n" +
		"makes the answer missing, which counts for nothing and is told. With `per: pod` (gpu, node) it is asked of each.\n\n| field of a signal | is |\n|---|---|\n")
	for _, f := range readingFields {
		if fieldMeanings[f] == "" {
			t.Errorf("the field %s of signals is not explained", f)
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", f, fieldMeanings[f])
	}
	b.WriteString("\n| beside signals | is |\n|---|---|\n")
	for _, e := range exampleExpressions {
		fmt.Fprintf(&b, "| `%s` | %s |\n", e.form, e.means)
	}
	b.WriteString("\n## Placeholders\n\nIn texts of evidence signals can stand, as `{kv_usage}` or `{kv_usage.max}`, and these:\n\n| placeholder | is | in texts of |\n|---|---|---|\n")
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
	b.WriteString("\n## Symptoms\n\n| symptom | is |\n|---|---|\n")
	for _, id := range slices.Sorted(maps.Keys(c.symptoms)) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", id, c.symptoms[id].Title)
	}
	b.WriteString("\n## Signals\n\nEach is read from whatever engine runs, and from DCGM's exporter, kube-state-metrics or the API server.\n\n| signal | is | unit | of a | a day and a week ago |\n|---|---|---|---|---|\n")
	signals, err := LoadSignals()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range signals {
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
	const file = "../docs/reference/rules.md"
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

// What the reference shows is what the program takes.
func TestTheReferencesExamplesAreSound(t *testing.T) {
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
	env, err := newEnvironment(c.vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range exampleExpressions {
		if _, err := env.compile(e.form); err != nil {
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
