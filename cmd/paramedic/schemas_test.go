package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"golang.org/x/tools/txtar"
)

// schema is as much of JSON Schema as the generated ones use.
type schema struct {
	Type       string             `json:"type"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
	Items      *schema            `json:"items"`
	Enum       []any              `json:"enum"`
	OneOf      []*schema          `json:"oneOf"`
	More       json.RawMessage    `json:"additionalProperties"`
	About      string             `json:"description"`
}

func readSchema(t *testing.T, file string) *schema {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var s schema
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	return &s
}

// problems are where a value is not what the schema says, as paths.
func (s *schema) problems(at string, v any) []string {
	if len(s.OneOf) > 0 {
		for _, one := range s.OneOf {
			if len(one.problems(at, v)) == 0 {
				return nil
			}
		}
		return []string{at + " is none of what it may be"}
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
		return []string{fmt.Sprintf("%s is %v, not one of %v", at, v, s.Enum)}
	}
	var out []string
	switch v := v.(type) {
	case map[string]any:
		for _, name := range s.Required {
			if _, ok := v[name]; !ok {
				out = append(out, at+" lacks "+name)
			}
		}
		for name, value := range v {
			inner := s.Properties[name]
			if inner == nil {
				inner = &schema{}
				if string(s.More) == "false" || s.Type != "object" {
					out = append(out, at+" has the unknown key "+name)
				} else if len(s.More) > 0 && json.Unmarshal(s.More, inner) != nil {
					continue // anything goes
				}
			}
			out = append(out, inner.problems(at+"."+name, value)...)
		}
	case []any:
		if s.Items == nil {
			return []string{at + " is a list"}
		}
		for i, value := range v {
			out = append(out, s.Items.problems(fmt.Sprintf("%s[%d]", at, i), value)...)
		}
	default:
		kinds := map[string]string{"string": "string", "int": "integer number", "float64": "number", "bool": "boolean"}
		if kind := fmt.Sprintf("%T", v); s.Type != "" && v != nil && !strings.Contains(kinds[kind], s.Type) {
			out = append(out, fmt.Sprintf("%s is a %s, want a %s", at, kind, s.Type))
		}
	}
	return out
}

func decoded(t *testing.T, data string) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(data), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// An editor that uses the schemas has nothing to complain about in what is built in.
func TestSchemasAcceptWhatIsBuiltIn(t *testing.T) {
	count := map[string]int{}
	check := func(s *schema, file, data string) {
		t.Helper()
		count[filepath.Ext(file)]++
		for _, p := range s.problems("", decoded(t, data)) {
			t.Errorf("%s: %s", file, p)
		}
	}
	files := func(pattern string) []string {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	read := func(file string) string {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	forRules, forBooks, forAlerts := readSchema(t, "../../docs/rules.schema.json"), readSchema(t, "../../docs/playbook.schema.json"), readSchema(t, "../../docs/case-alerts.schema.json")
	for _, f := range files("../../rules/catalog/*.yaml") {
		if filepath.Base(f) != "signals.yaml" { // it is not for users
			check(forRules, f, read(f))
		}
	}
	for _, f := range files("../../playbooks/library/*.md") {
		front, _, _ := strings.Cut(strings.TrimPrefix(read(f), "---\n"), "\n---\n")
		check(forBooks, f, front)
	}
	for _, f := range files("../../rules/testdata/cases/*.txtar") {
		for _, part := range txtar.Parse([]byte(read(f))).Files {
			if part.Name == "alerts.json" {
				check(forAlerts, f, string(part.Data))
			}
		}
	}
	if count[".yaml"] < 15 || count[".md"] < 12 || count[".txtar"] < 60 {
		t.Errorf("too little was found to check: %v", count)
	}
}

func TestSchemasFindMistakes(t *testing.T) {
	for _, c := range []struct{ file, text, want string }{
		{"rules", "causes: [{id: x, title: T, scope: galaxy, evidence: []}]", "scope is galaxy"},
		{"rules", "causes: [{id: x, titel: T, scope: pod, evidence: []}]", "unknown key titel"},
		{"rules", "causes: [{id: x, title: T, scope: pod, evidence: [{when: a, weight: heavy, text: t}]}]", "weight is a string, want a number"},
		{"rules", "alerts: [{symptom: kv_pressure}]", "lacks name"},
		{"playbook", "{id: x, title: T, cause: x, severity: loud, checks: [], first_aid: [], worse: [], escalate: {after: 5m, to: us}}", "severity is loud"},
		{"playbook", "{id: x, title: T, cause: x, severity: info, checks: [], first_aid: [{text: do, action: reboot}], worse: [], escalate: {after: 5m, to: us}}", "action is reboot"},
		{"case-alerts", "[{labels: {alertname: 5}}]", "alertname is a int, want a string"},
		{"case-alerts", "[{labels: {alertname: A}, annotation: {}}]", "unknown key annotation"},
		{"case-alerts", "[{annotations: {}}]", "lacks labels"},
	} {
		got := strings.Join(readSchema(t, "../../docs/"+c.file+".schema.json").problems("", decoded(t, c.text)), "\n")
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %q found, want %q", c.text, got, c.want)
		}
	}
}

// Every key of a file that people write explains itself in their editor.
func TestSchemasExplainEveryKey(t *testing.T) {
	var walk func(file, at string, s *schema)
	walk = func(file, at string, s *schema) {
		for name, inner := range s.Properties {
			if inner.About == "" {
				t.Errorf("%s: %s.%s has no description", file, at, name)
			}
			walk(file, at+"."+name, inner)
			if inner.Items != nil {
				walk(file, at+"."+name+"[]", inner.Items)
			}
		}
	}
	for _, file := range []string{"rules", "playbook"} {
		walk(file, "", readSchema(t, "../../docs/"+file+".schema.json"))
	}
	walk("case-alerts", "[]", readSchema(t, "../../docs/case-alerts.schema.json").Items)
}
