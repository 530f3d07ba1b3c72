package rules

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// maxFile bounds a catalogue file: the largest of ours is a few KiB.
const maxFile = 1 << 20

// text is a string that knows its line, for problems.
type text struct {
	s    string
	line int
}

func (t *text) UnmarshalYAML(n *yaml.Node) error {
	t.line = n.Line
	if n.Kind != yaml.ScalarNode {
		return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: wants a text", n.Line)}}
	}
	t.s = n.Value
	return nil
}

// fileYAML is one catalogue file as it is written.
type fileYAML struct {
	Symptoms []symptomYAML `yaml:"symptoms"`
	Alerts   []alertYAML   `yaml:"alerts"`
	Metrics  []metricYAML  `yaml:"metrics"`
	Words    []wordYAML    `yaml:"words"`
	Xids     []xidYAML     `yaml:"xids"`
	Causes   []causeYAML   `yaml:"causes"`
}

type symptomYAML struct {
	ID      text   `yaml:"id"`
	Title   string `yaml:"title"`
	Serving bool   `yaml:"serving"`
}

type alertYAML struct {
	Name     text              `yaml:"name"`
	Symptom  string            `yaml:"symptom"`
	Severity string            `yaml:"severity"` // where the alert has no label severity
	Hints    map[string]string `yaml:"hints"`
}

type metricYAML struct {
	Any     []text            `yaml:"any"` // metric names; a '*' at either end stands for anything
	Is      string            `yaml:"is"`  // above, below, zero: how the rule compares it
	Also    []string          `yaml:"also"`
	Func    []string          `yaml:"func"`
	Without []string          `yaml:"without"` // functions that must not be around it
	Label   map[string]string `yaml:"label"`   // a matcher of the selector contains this
	Symptom string            `yaml:"symptom"`
	Hints   map[string]string `yaml:"hints"`
}

type wordYAML struct {
	Any     []text `yaml:"any"`
	Symptom string `yaml:"symptom"`
}

type xidYAML struct {
	Code    text   `yaml:"code"`
	Name    string `yaml:"name"`
	Class   string `yaml:"class"`
	Meaning string `yaml:"meaning"`
	Action  string `yaml:"action"`
}

type causeYAML struct {
	ID         text               `yaml:"id"`
	Title      text               `yaml:"title"`
	Prior      float64            `yaml:"prior"`
	Scope      string             `yaml:"scope"`
	Playbook   string             `yaml:"playbook"`
	What       text               `yaml:"what"`
	Explains   map[string]float64 `yaml:"explains"`
	LeadsTo    []text             `yaml:"leads_to"`
	Evidence   []evidenceYAML     `yaml:"evidence"`
	LookAlikes []lookAlikeYAML    `yaml:"look_alikes"`
	Do         []string           `yaml:"do"`
	Avoid      []string           `yaml:"avoid"`
}

type lookAlikeYAML struct {
	Cause   text   `yaml:"cause"`
	Differs string `yaml:"differs"`
}

type evidenceYAML struct {
	When    text      `yaml:"when"`
	Unless  text      `yaml:"unless"`
	Per     string    `yaml:"per"`
	Of      string    `yaml:"of"`
	Marks   bool      `yaml:"marks"`
	Weight  float64   `yaml:"weight"`
	Text    text      `yaml:"text"`
	Expects string    `yaml:"expects"`
	Signal  string    `yaml:"signal"`
	Else    *elseYAML `yaml:"else"`
}

type elseYAML struct {
	When   text    `yaml:"when"`
	Weight float64 `yaml:"weight"`
	Text   text    `yaml:"text"`
}

// source is one file with where it came from.
type source struct {
	name string
	data []byte
}

// sources are the built-in files, then the user's, each set in the order of its names.
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
		if ext := filepath.Ext(e.Name()); e.IsDir() || ext != ".yaml" && ext != ".yml" {
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
		out = append(out, source{name: name, data: data})
	}
	return out, nil
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)

// decode reads one file strictly.
func decode(src source) (fileYAML, []Problem) {
	var f fileYAML
	dec := yaml.NewDecoder(bytes.NewReader(src.data))
	dec.KnownFields(true)
	err := dec.Decode(&f)
	if err == nil || errors.Is(err, io.EOF) {
		return f, nil
	}
	lines := []string{err.Error()}
	if te := (*yaml.TypeError)(nil); errors.As(err, &te) {
		lines = te.Errors
	}
	var problems []Problem
	for _, l := range lines {
		p := Problem{File: src.name, Line: 1, Text: l}
		if m := yamlLine.FindStringSubmatch(l); m != nil {
			p.Line, _ = strconv.Atoi(m[1]) // digits only, by the pattern
			p.Text = m[2]
		}
		problems = append(problems, p)
	}
	return f, problems
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
