package playbooks

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"paramedic/internal/strictyaml"
	"paramedic/internal/userfile"
)

//go:embed library/*.md
var builtin embed.FS

// maxFile limits the size of one playbook, because a person has to read it.
const maxFile = 256 << 10

// Load reads the built-in playbooks and those of a directory (none if it is ""), which add to them
// or replace them by ID. If playbooks have mistakes, the error is of type [Problems] and lists
// those of all files.
func Load(dir string) (*Library, error) {
	all := map[string]*Playbook{}
	entries, err := builtin.ReadDir("library")
	if err != nil {
		return nil, fmt.Errorf("listing the built-in playbooks: %w", err)
	}
	problems := readAll(entries, "library", func(name string) ([]byte, error) { return builtin.ReadFile("library/" + name) }, all)
	if dir != "" {
		if entries, err = os.ReadDir(dir); err != nil {
			return nil, fmt.Errorf("reading the playbooks directory: %w", err)
		}
		read := func(name string) ([]byte, error) { return userfile.Read(dir, name, maxFile) }
		problems = append(problems, readAll(entries, dir, read, all)...)
	}
	if err := problems.err(); err != nil {
		return nil, err
	}
	return newLibrary(all), nil
}

// readAll parses every .md file of one directory into all.
func readAll(entries []fs.DirEntry, dir string, read func(name string) ([]byte, error), all map[string]*Playbook) Problems {
	var problems Problems
	for _, e := range entries {
		if e.IsDir() || filepath.Ext(e.Name()) != ".md" || strings.EqualFold(e.Name(), "README.md") {
			continue
		}
		name := filepath.Join(dir, e.Name())
		data, err := read(e.Name())
		if err != nil {
			problems = append(problems, Problem{File: name, Text: err.Error()})
			continue
		}
		pb, found := Parse(name, data)
		problems = append(problems, found...)
		if len(found) == 0 {
			all[pb.ID] = pb
		}
	}
	return problems
}

// Parse reads one playbook. The playbook is valid only if there are no problems.
func Parse(file string, data []byte) (*Playbook, Problems) {
	front, body, bodyLine, ok := split(string(data))
	if !ok {
		const text = `has no front matter: the first line and the line after the YAML have to be "---"`
		return nil, Problems{{File: file, Line: 1, Text: text}}
	}
	fm := frontMatter{}
	doc, found := format.ReadInto(&fm, file, []byte("\n"+front)) // the line above is the first "---"
	problems := Problems(found)
	switch {
	case doc.Broken:
		return nil, problems
	case doc.Empty():
		const text = "front matter is empty: it needs id, title, cause, severity, checks, first_aid, worse and escalate"
		return nil, append(problems, Problem{File: file, Line: 2, Text: text})
	}
	pb := fm.playbook()
	pb.File, pb.Body = file, body
	pb.doc, pb.bodyLine = doc, bodyLine
	problems = append(problems, pb.check()...)
	_ = problems.err() // sorts
	return pb, problems
}

// format is the format of a playbook's front matter.
var format = strictyaml.Format[frontMatter]{Kinds: map[reflect.Type]string{reflect.TypeFor[frontMatter](): "the front matter"}}

// split returns the front matter, the body, and the line where the body starts.
func split(s string) (front, body string, line int, ok bool) {
	s = strings.ReplaceAll(strings.TrimPrefix(s, "\ufeff"), "\r\n", "\n")
	rest, ok := strings.CutPrefix(s, "---\n")
	if !ok {
		return "", "", 0, false
	}
	if strings.HasPrefix(rest, "---\n") {
		return "", rest[4:], 3, true
	}
	front, body, ok = strings.Cut(rest, "\n---\n")
	if !ok {
		return "", "", 0, false
	}
	return front, body, strings.Count(front, "\n") + 4, true
}

// Line returns the line of a front matter key in the playbook's file.
func (pb *Playbook) Line(key string) int { return pb.line(key) }

// line returns the line of a key such as checks.0.signal, or else that of its nearest parent. The
// body counts as a key.
func (pb *Playbook) line(path string) int {
	if path == "body" {
		return pb.bodyLine
	}
	return max(1, pb.doc.Line(strings.Split(path, ".")...))
}

// frontMatter is the front matter of a playbook's file.
type frontMatter struct {
	ID       string `yaml:"id" jsonschema:"required,pattern=^[a-z][a-z0-9_]*$" jsonschema_description:"The ID, and the file's name without .md."`
	Title    string `yaml:"title" jsonschema:"required" jsonschema_description:"The title that people read."`
	Cause    string `yaml:"cause" jsonschema:"required,pattern=^[a-z][a-z0-9_]*$" jsonschema_description:"The cause that it answers."`
	Severity string `yaml:"severity" jsonschema:"required,enum=critical,enum=warning,enum=info" jsonschema_description:"The urgency for users."`
	Checks   []struct {
		ID     string   `yaml:"id" jsonschema:"required,pattern=^[a-z][a-z0-9_]*$" jsonschema_description:"A name, unique in the playbook."`
		Ask    string   `yaml:"ask" jsonschema:"required" jsonschema_description:"The question."`
		Signal string   `yaml:"signal" jsonschema:"required" jsonschema_description:"The signal that answers it."`
		Agg    string   `yaml:"agg" jsonschema:"enum=max,enum=min,enum=avg,enum=sum" jsonschema_description:"Aggregate over the workers. Default: max, or min with below."`
		Warn   *float64 `yaml:"warn" jsonschema_description:"The answer is a warning at or past this."`
		Crit   *float64 `yaml:"crit" jsonschema_description:"The answer is bad at or past this."`
		Below  bool     `yaml:"below" jsonschema_description:"Low values are bad."`
		Broken bool     `yaml:"broken" jsonschema_description:"Checks only the workers that the verdict names, if it names some."`
		Unit   string   `yaml:"unit" jsonschema_description:"The unit of warn and crit."`
		Bad    []string `yaml:"bad" jsonschema_description:"For text signals: the answer is bad if it contains one of these."`
		ByHand string   `yaml:"by_hand" jsonschema_description:"A kubectl, curl or PromQL command that answers it without Paramedic. It may have placeholders such as {namespace}, {pod}, {model}, {workload}."`
	} `yaml:"checks" jsonschema:"required" jsonschema_description:"Questions that live signals answer."`
	FirstAid []struct {
		Action  string            `yaml:"action" jsonschema_description:"The action that Paramedic can take. Without it the step is for people."`
		Params  map[string]string `yaml:"params" jsonschema_description:"Of set_engine_arg: arg, and direction (lower or raise)."`
		Text    string            `yaml:"text" jsonschema:"required" jsonschema_description:"The step."`
		When    string            `yaml:"when" jsonschema_description:"The condition under which it is the right step."`
		Verdict bool              `yaml:"verdict" jsonschema_description:"In an incident the verdict's own steps replace this one. Without such a step they come last."`
	} `yaml:"first_aid" jsonschema:"required" jsonschema_description:"Steps, in the order to try."`
	Worse    []string `yaml:"worse" jsonschema:"required" jsonschema_description:"Steps that make it worse."`
	Escalate struct {
		After string `yaml:"after" jsonschema:"required" jsonschema_description:"A duration such as 30m, or \"at once\"."`
		To    string `yaml:"to" jsonschema:"required" jsonschema_description:"The people to call."`
	} `yaml:"escalate" jsonschema:"required" jsonschema_description:"When to call for help, and the people to call."`
}

func (fm *frontMatter) playbook() *Playbook {
	pb := &Playbook{ID: fm.ID, Title: fm.Title, Cause: fm.Cause, Severity: fm.Severity, Worse: slices.Clone(fm.Worse),
		Escalate: Escalation{After: fm.Escalate.After, To: fm.Escalate.To}}
	for _, c := range fm.Checks {
		c.ByHand = strings.TrimRight(c.ByHand, "\n")
		pb.Checks = append(pb.Checks, Check(c))
	}
	for _, r := range fm.FirstAid {
		pb.FirstAid = append(pb.FirstAid, Remedy(r))
	}
	return pb
}
