package catalog

import (
	"reflect"

	"paramedic/internal/strictyaml"
)

// maxFile limits the size of a catalogue file; the largest built-in file has a few KiB.
const maxFile = 1 << 20

// kinds maps the types of entries to the names that problems use.
var kinds = map[reflect.Type]string{
	reflect.TypeFor[fileYAML]():      "a rules file",
	reflect.TypeFor[symptomYAML]():   "a symptom",
	reflect.TypeFor[alertYAML]():     "an alert",
	reflect.TypeFor[metricYAML]():    "an entry of metrics",
	reflect.TypeFor[wordYAML]():      "an entry of words",
	reflect.TypeFor[xidYAML]():       "an xid",
	reflect.TypeFor[causeYAML]():     "a cause",
	reflect.TypeFor[lookAlikeYAML](): "a look-alike",
	reflect.TypeFor[linkYAML]():      "a link of a chain",
	reflect.TypeFor[evidenceYAML]():  "evidence",
	reflect.TypeFor[elseYAML]():      "else",
	reflect.TypeFor[recoverYAML]():   "a recovery",
	reflect.TypeFor[pathologyYAML](): "a pathology",
}

// fileYAML is the format of a catalogue file.
type fileYAML struct {
	Symptoms []symptomYAML `yaml:"symptoms" jsonschema_description:"Additional symptoms: the possible meanings of alerts."`
	Alerts   []alertYAML   `yaml:"alerts" jsonschema_description:"Symptoms of alert rules by the rule's name."`
	Metrics  []metricYAML  `yaml:"metrics" jsonschema_description:"Symptoms of alert rules by the metrics in their expression. The first matching entry wins; yours come before the built-in ones."`
	Words    []wordYAML    `yaml:"words" jsonschema_description:"Symptoms of alert rules by a word in their name, if nothing else matches."`
	Recover  []recoverYAML `yaml:"recoveries" jsonschema_description:"Actions after a GPU's driver error, the worst first. Yours come after the built-in ones, or replace those with the same ID."`
	Xids     []xidYAML     `yaml:"xids" jsonschema_description:"NVIDIA's driver errors."`
	Causes   []causeYAML   `yaml:"causes" jsonschema_description:"Causes that a verdict can name. An entry with the ID of a built-in cause replaces it."`

	Pathologies []pathologyYAML `yaml:"pathologies" jsonschema_description:"Patterns of several signals that are shown with a pool's health. An entry with the ID of a built-in pathology replaces it."`
}

type symptomYAML struct {
	ID      strictyaml.Text `yaml:"id" jsonschema:"required" jsonschema_description:"A name such as queue_buildup."`
	Title   string          `yaml:"title" jsonschema_description:"The title for people."`
	Serving bool            `yaml:"serving" jsonschema_description:"The symptom is about requests and engines. It belongs to the model's incidents even if the alert names no model."`
	Own     bool            `yaml:"own" jsonschema_description:"The symptom comes from the worker itself or its node, never from a neighbour's failure."`
}

type alertYAML struct {
	Name     strictyaml.Text   `yaml:"name" jsonschema:"required" jsonschema_description:"The alert's name."`
	Symptom  string            `yaml:"symptom" jsonschema:"required" jsonschema_description:"What it means."`
	Severity string            `yaml:"severity" jsonschema:"enum=critical,enum=warning,enum=info" jsonschema_description:"The severity of alerts without the label severity."`
	Hints    map[string]string `yaml:"hints" jsonschema_description:"Words that evidence can ask for with hint(name)."`
}

type metricYAML struct {
	Any     []strictyaml.Text `yaml:"any" jsonschema:"required" jsonschema_description:"Names of metrics, without the suffixes of histograms; a '*' stands for anything."`
	Is      string            `yaml:"is" jsonschema:"enum=above,enum=below,enum=zero" jsonschema_description:"The comparison in the rule."`
	Also    []string          `yaml:"also" jsonschema_description:"Metrics that the expression must also read."`
	Idle    []string          `yaml:"idle" jsonschema_description:"Metrics that the expression must require to be zero, or below a number."`
	Func    []string          `yaml:"func" jsonschema_description:"PromQL functions, one of which must enclose the metric."`
	Without []string          `yaml:"without" jsonschema_description:"PromQL functions that must not enclose the metric."`
	Label   map[string]string `yaml:"label" jsonschema_description:"A label of the selector, and a regular expression that must match a part of its value in lower case."`
	Symptom string            `yaml:"symptom" jsonschema:"required" jsonschema_description:"What it means."`
	Hints   map[string]string `yaml:"hints" jsonschema_description:"Words that evidence can ask for with hint(name)."`
}

type wordYAML struct {
	Any     []strictyaml.Text `yaml:"any" jsonschema:"required" jsonschema_description:"Words, in lower case and without punctuation."`
	Symptom string            `yaml:"symptom" jsonschema:"required" jsonschema_description:"What they mean."`
}

type recoverYAML struct {
	ID     strictyaml.Text   `yaml:"id" jsonschema:"required" jsonschema_description:"A name such as reset."`
	Title  strictyaml.Text   `yaml:"title" jsonschema:"required" jsonschema_description:"What such an error is called in the title of a verdict."`
	Driver string            `yaml:"driver" jsonschema_description:"The driver's name for it in the text of Xid 154."`
	Code   *int              `yaml:"code" jsonschema_description:"Its number in DCGM's field GPU_RECOVERY_ACTION."`
	Action string            `yaml:"action" jsonschema:"required" jsonschema_description:"What to do, in one line."`
	Do     []strictyaml.Text `yaml:"do" jsonschema_description:"First aid, for people."`
	Avoid  []strictyaml.Text `yaml:"avoid" jsonschema_description:"Actions that make it worse."`
}

type xidYAML struct {
	Code    strictyaml.Text `yaml:"code" jsonschema:"required" jsonschema_description:"The number."`
	Name    string          `yaml:"name" jsonschema_description:"The error's name."`
	Class   string          `yaml:"class" jsonschema:"required,enum=hardware,enum=application,enum=notice" jsonschema_description:"Whose trouble it is."`
	Needs   string          `yaml:"needs" jsonschema_description:"The ID of the required recovery. The default depends on the class: reset, restart_app or none."`
	Meaning string          `yaml:"meaning" jsonschema_description:"The meaning of the error."`
	Action  string          `yaml:"action" jsonschema_description:"The action for people."`
}

type causeYAML struct {
	ID         strictyaml.Text            `yaml:"id" jsonschema:"required" jsonschema_description:"A name such as kv_exhaustion."`
	Title      strictyaml.Text            `yaml:"title" jsonschema:"required" jsonschema_description:"One line for people, with placeholders such as {target}, {pods}, {of_workers}."`
	Prior      float64                    `yaml:"prior" jsonschema:"minimum=-100,maximum=100" jsonschema_description:"The probability without any evidence, in decibans; most are from -6 to -12."`
	Scope      string                     `yaml:"scope" jsonschema:"required,enum=pod,enum=pool,enum=gpu,enum=node" jsonschema_description:"What is broken."`
	Playbook   string                     `yaml:"playbook" jsonschema_description:"The ID of its playbook; by default the cause's own ID."`
	What       strictyaml.Text            `yaml:"what" jsonschema_description:"The problem in one or two sentences."`
	Explains   map[string]float64         `yaml:"explains" jsonschema_description:"Symptoms that it explains, each with its weight in decibans."`
	LeadsTo    []strictyaml.Text          `yaml:"leads_to" jsonschema_description:"Causes that are its consequences."`
	LeadsAfter []string                   `yaml:"leads_after" jsonschema_description:"Symptoms. If there are any, leads_to counts only if the incident has one of them: growing memory alone has no effect on other workers."`
	Chain      []linkYAML                 `yaml:"chain" jsonschema_description:"The signals from the cause to its symptoms, as they move one after another. A verdict shows those that the evidence supports."`
	Where      map[string]strictyaml.Text `yaml:"where" jsonschema_description:"Conditions that several lines of evidence share, by name. Their when and unless may use the name in place of the condition."`
	Evidence   []evidenceYAML             `yaml:"evidence" jsonschema:"required" jsonschema_description:"What speaks for and against it."`
	LookAlikes []lookAlikeYAML            `yaml:"look_alikes" jsonschema_description:"Causes that are easily confused with it."`
	Do         []strictyaml.Text          `yaml:"do" jsonschema_description:"First aid, for people."`
	Avoid      []strictyaml.Text          `yaml:"avoid" jsonschema_description:"Actions that make it worse."`
}

type pathologyYAML struct {
	ID        strictyaml.Text   `yaml:"id" jsonschema:"required" jsonschema_description:"A name such as kv_thrashing."`
	Title     string            `yaml:"title" jsonschema:"required" jsonschema_description:"What a person reads."`
	Published string            `yaml:"published" jsonschema_description:"The pattern with its published numbers."`
	Corrected string            `yaml:"corrected" jsonschema_description:"The error in the published pattern, and the condition used instead."`
	Per       string            `yaml:"per" jsonschema:"enum=pod,enum=gpu,enum=node" jsonschema_description:"Evaluate the condition for each of these; by default for the whole pool."`
	When      strictyaml.Text   `yaml:"when" jsonschema:"required" jsonschema_description:"CEL over signals, as in evidence."`
	Text      strictyaml.Text   `yaml:"text" jsonschema:"required" jsonschema_description:"What was seen, with placeholders such as {kv_usage}, {pod}."`
	PointsTo  []strictyaml.Text `yaml:"points_to" jsonschema:"required" jsonschema_description:"Causes that look like it."`
}

type lookAlikeYAML struct {
	Cause   strictyaml.Text   `yaml:"cause" jsonschema:"required" jsonschema_description:"The other cause."`
	Differs string            `yaml:"differs" jsonschema:"required" jsonschema_description:"What one would see if it were that one."`
	By      []strictyaml.Text `yaml:"by" jsonschema_description:"Signals that are needed to distinguish the two causes. If one is missing and could put the other cause ahead, neither is named."`
}

type evidenceYAML struct {
	When    strictyaml.Text `yaml:"when" jsonschema:"required" jsonschema_description:"CEL over signals, such as kv_usage.max > 0.95. A signal has value, max, min, avg, sum, count, baseline, hour_ago, day_ago and week_ago (of key signals), z and text. What was not measured makes the answer missing, which is neutral."`
	Unless  strictyaml.Text `yaml:"unless" jsonschema_description:"CEL. If it holds, the evidence is skipped."`
	Per     string          `yaml:"per" jsonschema:"enum=pod,enum=gpu,enum=node" jsonschema_description:"Evaluate the condition for each of these; by default for the whole scope."`
	Of      string          `yaml:"of" jsonschema:"enum=any,enum=minority,enum=all" jsonschema_description:"How many entities must match."`
	Marks   bool            `yaml:"marks" jsonschema_description:"Matching entities are marked as broken."`
	Weight  float64         `yaml:"weight" jsonschema:"required,minimum=-100,maximum=100" jsonschema_description:"Decibans: +10 makes the cause ten times as likely, -10 a tenth."`
	Why     string          `yaml:"why" jsonschema_description:"The reason for the weights of the evidence and of else, such as other causes of the same observation."`
	Text    strictyaml.Text `yaml:"text" jsonschema:"required" jsonschema_description:"What was seen, with placeholders such as {kv_usage.max}, {pod}, {count}, {total}."`
	Expects string          `yaml:"expects" jsonschema_description:"The expected observation. It is shown if the evidence does not hold."`
	Signal  string          `yaml:"signal" jsonschema_description:"The signal that the finding shows; by default the first one in when."`
	Needed  bool            `yaml:"needed" jsonschema_description:"The evidence defines the cause: if it has no answer, the cause is not named."`
	Settles []string        `yaml:"settles" jsonschema_description:"Causes that cannot take over the verdict after this was seen, regardless of later evidence."`
	Open    *openYAML       `yaml:"leaves_open" jsonschema_description:"A cause that may still be the right one if this was seen. Steps that make it worse wait until it is ruled out."`
	Else    *elseYAML       `yaml:"else" jsonschema_description:"The finding if the evidence was evaluated and does not hold."`
}

type openYAML struct {
	Cause string `yaml:"cause" jsonschema:"required" jsonschema_description:"The other cause."`
	Sign  string `yaml:"sign" jsonschema:"required" jsonschema_description:"What one would see if it were that one."`
}

type elseYAML struct {
	When   strictyaml.Text `yaml:"when" jsonschema_description:"An additional CEL condition on the whole scope."`
	Weight float64         `yaml:"weight" jsonschema:"required,minimum=-100,maximum=100" jsonschema_description:"Decibans."`
	Text   strictyaml.Text `yaml:"text" jsonschema:"required" jsonschema_description:"What was seen."`
}
