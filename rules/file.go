package rules

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"
)

// maxFile limits the size of a catalogue file; the largest built-in file has a few KiB.
const maxFile = 1 << 20

// text is a string with its line, for problems.
type textAt struct {
	s    string
	line int
}

func (t *textAt) UnmarshalYAML(n *yaml.Node) error {
	t.line = n.Line
	if n.Kind != yaml.ScalarNode {
		return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: wants a text", n.Line)}}
	}
	t.s = n.Value
	return nil
}

// fileYAML is the format of a catalogue file.
type fileYAML struct {
	Symptoms []symptomYAML `yaml:"symptoms" jsonschema_description:"What alerts can mean, beyond the built-in symptoms."`
	Alerts   []alertYAML   `yaml:"alerts" jsonschema_description:"What alert rules mean by their name."`
	Metrics  []metricYAML  `yaml:"metrics" jsonschema_description:"What alert rules mean by the metrics in their expression. The first entry that fits wins; yours come before the built-in ones."`
	Words    []wordYAML    `yaml:"words" jsonschema_description:"What alert rules mean by a word in their name, where nothing else is known."`
	Recover  []recoverYAML `yaml:"recoveries" jsonschema_description:"What a GPU needs after a driver error, the worst first. Yours come after the built-in ones, or replace those of the same ID."`
	Xids     []xidYAML     `yaml:"xids" jsonschema_description:"NVIDIA's driver errors."`
	Causes   []causeYAML   `yaml:"causes" jsonschema_description:"Troubles that a verdict can name. One with the ID of a built-in cause replaces it."`

	Pathologies []pathologyYAML `yaml:"pathologies" jsonschema_description:"Patterns of several signals that are told beside a pool's health. One with the ID of a built-in one replaces it."`
}

type symptomYAML struct {
	ID      textAt `yaml:"id" jsonschema:"required" jsonschema_description:"A name such as queue_buildup."`
	Title   string `yaml:"title" jsonschema_description:"What a person reads."`
	Serving bool   `yaml:"serving" jsonschema_description:"It is about requests and engines, so that it belongs with the troubles of the model even where it names none."`
	Own     bool   `yaml:"own" jsonschema_description:"It happens to a worker by itself or by its machine, never by the failure of a neighbour."`
}

type alertYAML struct {
	Name     textAt            `yaml:"name" jsonschema:"required" jsonschema_description:"The alert's name."`
	Symptom  string            `yaml:"symptom" jsonschema:"required" jsonschema_description:"What it means."`
	Severity string            `yaml:"severity" jsonschema:"enum=critical,enum=warning,enum=info" jsonschema_description:"Where the alert carries no label severity."`
	Hints    map[string]string `yaml:"hints" jsonschema_description:"Words that evidence can ask for with hint(name)."`
}

type metricYAML struct {
	Any     []textAt          `yaml:"any" jsonschema:"required" jsonschema_description:"Names of metrics, without the suffixes of histograms; a '*' stands for anything."`
	Is      string            `yaml:"is" jsonschema:"enum=above,enum=below,enum=zero" jsonschema_description:"How the rule compares the metric."`
	Also    []string          `yaml:"also" jsonschema_description:"Metrics that the expression must read too."`
	Idle    []string          `yaml:"idle" jsonschema_description:"Metrics that the expression must want to be zero, or below something."`
	Func    []string          `yaml:"func" jsonschema_description:"PromQL functions of which one must stand around the metric."`
	Without []string          `yaml:"without" jsonschema_description:"PromQL functions that must not."`
	Label   map[string]string `yaml:"label" jsonschema_description:"A label that the selector asks for, and a regular expression that its value, in lower case, has to fit somewhere."`
	Symptom string            `yaml:"symptom" jsonschema:"required" jsonschema_description:"What it means."`
	Hints   map[string]string `yaml:"hints" jsonschema_description:"Words that evidence can ask for with hint(name)."`
}

type wordYAML struct {
	Any     []textAt `yaml:"any" jsonschema:"required" jsonschema_description:"Words, in lower case and without punctuation."`
	Symptom string   `yaml:"symptom" jsonschema:"required" jsonschema_description:"What they mean."`
}

type recoverYAML struct {
	ID     textAt   `yaml:"id" jsonschema:"required" jsonschema_description:"A name such as reset."`
	Title  textAt   `yaml:"title" jsonschema:"required" jsonschema_description:"What such an error is called in the title of a verdict."`
	Driver string   `yaml:"driver" jsonschema_description:"How the driver names it in the text of Xid 154."`
	Code   *int     `yaml:"code" jsonschema_description:"Its number in DCGM's field GPU_RECOVERY_ACTION."`
	Action string   `yaml:"action" jsonschema:"required" jsonschema_description:"What to do, in one line."`
	Do     []textAt `yaml:"do" jsonschema_description:"First aid, for people."`
	Avoid  []textAt `yaml:"avoid" jsonschema_description:"What makes it worse."`
}

type xidYAML struct {
	Code    textAt `yaml:"code" jsonschema:"required" jsonschema_description:"The number."`
	Name    string `yaml:"name" jsonschema_description:"Its name."`
	Class   string `yaml:"class" jsonschema:"required,enum=hardware,enum=application,enum=notice" jsonschema_description:"Whose trouble it is."`
	Needs   string `yaml:"needs" jsonschema_description:"The ID of the recovery that it asks for. Left out it is reset, restart_app or none, by the class."`
	Meaning string `yaml:"meaning" jsonschema_description:"What it means."`
	Action  string `yaml:"action" jsonschema_description:"What to do."`
}

type causeYAML struct {
	ID         textAt             `yaml:"id" jsonschema:"required" jsonschema_description:"A name such as kv_exhaustion."`
	Title      textAt             `yaml:"title" jsonschema:"required" jsonschema_description:"One line for people, with placeholders such as {target}, {pods}, {of_workers}."`
	Prior      float64            `yaml:"prior" jsonschema:"minimum=-100,maximum=100" jsonschema_description:"How likely it is before anything is known, in decibans; most are from -6 to -12."`
	Scope      string             `yaml:"scope" jsonschema:"required,enum=pod,enum=pool,enum=gpu,enum=node" jsonschema_description:"What is broken."`
	Playbook   string             `yaml:"playbook" jsonschema_description:"The ID of its playbook; the cause's own ID where it is left out."`
	What       textAt             `yaml:"what" jsonschema_description:"What goes on, in a sentence or two."`
	Explains   map[string]float64 `yaml:"explains" jsonschema_description:"Symptoms that it explains, with the decibans that each speaks for it."`
	LeadsTo    []textAt           `yaml:"leads_to" jsonschema_description:"Causes that are its consequences."`
	LeadsAfter []string           `yaml:"leads_after" jsonschema_description:"Symptoms of which its incident must have one before leads_to counts: a memory that only grows has overloaded nobody yet."`
	Evidence   []evidenceYAML     `yaml:"evidence" jsonschema:"required" jsonschema_description:"What speaks for and against it."`
	LookAlikes []lookAlikeYAML    `yaml:"look_alikes" jsonschema_description:"Causes that are easily taken for it."`
	Do         []textAt           `yaml:"do" jsonschema_description:"First aid, for people."`
	Avoid      []textAt           `yaml:"avoid" jsonschema_description:"What makes it worse."`
}

type pathologyYAML struct {
	ID        textAt   `yaml:"id" jsonschema:"required" jsonschema_description:"A name such as kv_thrashing."`
	Title     string   `yaml:"title" jsonschema:"required" jsonschema_description:"What a person reads."`
	Published string   `yaml:"published" jsonschema_description:"The pattern in the numbers by which it is known."`
	Corrected string   `yaml:"corrected" jsonschema_description:"What is wrong with that, and what is asked instead."`
	Per       string   `yaml:"per" jsonschema:"enum=pod,enum=gpu,enum=node" jsonschema_description:"Ask it of each of these; without it, of the whole pool."`
	When      textAt   `yaml:"when" jsonschema:"required" jsonschema_description:"CEL over signals, as in evidence."`
	Text      textAt   `yaml:"text" jsonschema:"required" jsonschema_description:"What was seen, with placeholders such as {kv_usage}, {pod}."`
	PointsTo  []textAt `yaml:"points_to" jsonschema:"required" jsonschema_description:"Causes that look like it."`
}

type lookAlikeYAML struct {
	Cause   textAt   `yaml:"cause" jsonschema:"required" jsonschema_description:"The other cause."`
	Differs string   `yaml:"differs" jsonschema:"required" jsonschema_description:"What one would see if it were that one."`
	By      []textAt `yaml:"by" jsonschema_description:"Signals without which this cause cannot be told from that one: where one is not known, and that one could be ahead if it were, neither is named."`
}

type evidenceYAML struct {
	When    textAt    `yaml:"when" jsonschema:"required" jsonschema_description:"CEL over signals, such as kv_usage.max > 0.95. A signal has value, max, min, avg, sum, count, baseline, hour_ago, day_ago and week_ago (of key signals), z and text. What was not measured makes the answer missing, which is neutral."`
	Unless  textAt    `yaml:"unless" jsonschema_description:"CEL; where it holds the evidence is not looked at."`
	Per     string    `yaml:"per" jsonschema:"enum=pod,enum=gpu,enum=node" jsonschema_description:"Ask it of each of these; without it, of the whole scope."`
	Of      string    `yaml:"of" jsonschema:"enum=any,enum=minority,enum=all" jsonschema_description:"Of how many it must be true."`
	Marks   bool      `yaml:"marks" jsonschema_description:"Those of whom it is true are named as broken."`
	Weight  float64   `yaml:"weight" jsonschema:"required,minimum=-100,maximum=100" jsonschema_description:"Decibans: +10 makes the cause ten times as likely, -10 a tenth."`
	Why     string    `yaml:"why" jsonschema_description:"Why it weighs so much and no more, and so much where it is not there: what else could be seen like this."`
	Text    textAt    `yaml:"text" jsonschema:"required" jsonschema_description:"What was seen, with placeholders such as {kv_usage.max}, {pod}, {count}, {total}."`
	Expects string    `yaml:"expects" jsonschema_description:"What one would see, told where it was not seen."`
	Signal  string    `yaml:"signal" jsonschema_description:"The signal that the finding shows; the first of when, where it is left out."`
	Needed  bool      `yaml:"needed" jsonschema_description:"It is what the cause is: where it could not be asked, the cause is not named."`
	Settles []string  `yaml:"settles" jsonschema_description:"Causes that take the verdict over no more once this was seen, whatever is seen later."`
	Else    *elseYAML `yaml:"else" jsonschema_description:"What it means that it was looked for and is not there."`
}

type elseYAML struct {
	When   textAt  `yaml:"when" jsonschema_description:"CEL that must also hold, of the whole scope."`
	Weight float64 `yaml:"weight" jsonschema:"required,minimum=-100,maximum=100" jsonschema_description:"Decibans."`
	Text   textAt  `yaml:"text" jsonschema:"required" jsonschema_description:"What was seen."`
}

// A source is one file with its origin.
type source struct {
	name string
	data []byte
	own  bool // from the user
}

// sources returns the built-in files, then the user's, each sorted by name.
func sources(dir string) ([]source, error) {
	var out []source
	names, err := fs.Glob(embedded, "catalog/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing the built-in catalogue: %w", err)
	}
	for _, name := range names {
		if name == "catalog/signals.yaml" {
			continue // has its own loader
		}
		data, err := embedded.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading the built-in catalogue: %w", err)
		}
		out = append(out, source{name: name, data: data})
	}
	if dir == "" {
		return out, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the rules directory: %w", err)
	}
	for _, e := range entries {
		if !isYAML(e) {
			continue
		}
		name := filepath.Join(dir, e.Name())
		info, err := os.Stat(name)
		if err != nil {
			return nil, fmt.Errorf("reading a rules file: %w", err)
		}
		if info.Size() > maxFile {
			return nil, fmt.Errorf("rules file %s has %d bytes; split it into files of at most %d", name, info.Size(), maxFile)
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading a rules file: %w", err)
		}
		out = append(out, source{name: name, data: data, own: true})
	}
	return out, nil
}

func sortProblems(ps []Problem) {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		if a.File != b.File {
			if a.File < b.File {
				return -1
			}
			return 1
		}
		return a.Line - b.Line
	})
}
