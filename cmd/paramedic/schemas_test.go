package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"golang.org/x/tools/txtar"
)

// A schema is the part of JSON Schema that the generated schemas use.
type schema struct {
	Type       string             `json:"type"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
	Items      *schema            `json:"items"`
	Enum       []any              `json:"enum"`
	OneOf      []*schema          `json:"oneOf"`
	Pattern    string             `json:"pattern"`
	MinLength  int                `json:"minLength"`
	MinItems   int                `json:"minItems"`
	Minimum    *float64           `json:"minimum"`
	Maximum    *float64           `json:"maximum"`
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

// problems returns the paths at which a value violates the schema.
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
		if len(v) < s.MinItems {
			out = append(out, at+" is empty")
		}
		for i, value := range v {
			out = append(out, s.Items.problems(fmt.Sprintf("%s[%d]", at, i), value)...)
		}
	default:
		kinds := map[string]string{"string": "string", "int": "integer number", "float64": "number", "bool": "boolean"}
		if kind := fmt.Sprintf("%T", v); s.Type != "" && v != nil && !strings.Contains(kinds[kind], s.Type) {
			out = append(out, fmt.Sprintf("%s is a %s, want a %s", at, kind, s.Type))
		}
		out = append(out, s.bounds(at, v)...)
	}
	return out
}

// bounds returns the paths at which a text or a number is out of bounds.
func (s *schema) bounds(at string, v any) []string {
	text, isText := v.(string)
	n, isNumber := v.(float64)
	if i, ok := v.(int); ok {
		n, isNumber = float64(i), true
	}
	switch {
	case isText && len(text) < s.MinLength:
		return []string{at + " is empty"}
	case isText && !regexp.MustCompile(s.Pattern).MatchString(text):
		return []string{fmt.Sprintf("%s is %q, which is not like %s", at, text, s.Pattern)}
	case isNumber && (s.Minimum != nil && n < *s.Minimum || s.Maximum != nil && n > *s.Maximum):
		return []string{fmt.Sprintf("%s is %g, beyond what it may be", at, n)}
	}
	return nil
}

func decoded(t *testing.T, data string) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(data), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// The schemas accept everything that is built in.
func TestSchemasAcceptBuiltInKnowledge(t *testing.T) {
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
	forRules, forBooks, forAlerts := readSchema(t, "../../docs/reference/rules.schema.json"), readSchema(t,
		"../../docs/reference/playbook.schema.json"), readSchema(t, "../../docs/reference/case-alerts.schema.json")
	for _, f := range files("../../rules/catalog/*.yaml") {
		if filepath.Base(f) != "signals.yaml" { // it is not for users
			check(forRules, f, read(f))
		}
	}
	for _, f := range files("../../playbooks/library/*.md") {
		front, _, _ := strings.Cut(strings.TrimPrefix(read(f), "---\n"), "\n---\n")
		check(forBooks, f, front)
	}
	for _, f := range files("../../rules/casetest/testdata/cases/*.txtar") {
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
		{"rules", "causes: [{id: x, title: T, scope: pod, evidence: [{when: a, weight: heavy, text: t}]}]",
			"weight is a string, want a number"},
		{"rules", "alerts: [{symptom: kv_pressure}]", "lacks name"},
		{"rules", "causes: [{id: x, title: T, scope: pod, evidence: []}]", "evidence is empty"},
		{"rules", "causes: [{id: x, title: '', scope: pod, evidence: [{when: a, weight: 1, text: t}]}]", "title is empty"},
		{"rules", "causes: [{id: x, title: T, scope: pod, prior: -200, evidence: [{when: a, weight: 1, text: t}]}]",
			"prior is -200, beyond"},
		{"rules", "causes: [{id: x, title: T, scope: pod, evidence: [{when: a, weight: 1000, text: t}]}]", "weight is 1000, beyond"},
		{"rules", "causes: [{id: x, title: T, scope: pod, explains: {kv_pressure: 500}, evidence: [{when: a, weight: 1, text: t}]}]",
			"explains.kv_pressure is 500, beyond"},
		{"rules", "metrics: [{any: [], symptom: kv_pressure}]", "any is empty"},
		{"playbook", "{id: Mine, title: T, cause: x, severity: info, checks: [], first_aid: [], worse: [], escalate: {after: 5m, to: ''}}",
			"id is \"Mine\", which is not like"},
		{"playbook", "{id: mine, title: T, cause: x, severity: info, checks: [], first_aid: [], worse: [], escalate: {after: 5m, to: ''}}",
			"escalate.to is empty"},
		{"playbook", "{id: mine, title: T, cause: x, severity: info, checks: [], first_aid: [], worse: [], escalate: {after: 5m, to: us}}",
			"worse is empty"},
		{"playbook", "{id: x, title: T, cause: x, severity: loud, checks: [], first_aid: [], worse: [], escalate: {after: 5m, to: us}}",
			"severity is loud"},
		{"playbook", "{id: x, title: T, cause: x, severity: info, checks: [], first_aid: [{text: do, action: reboot}], worse: [], " +
			"escalate: {after: 5m, to: us}}", "action is reboot"},
		{"case-alerts", "[{labels: {alertname: 5}}]", "alertname is a int, want a string"},
		{"case-alerts", "[{labels: {alertname: A}, annotation: {}}]", "unknown key annotation"},
		{"case-alerts", "[{annotations: {}}]", "lacks labels"},
	} {
		got := strings.Join(readSchema(t, "../../docs/reference/"+c.file+".schema.json").problems("", decoded(t, c.text)), "\n")
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %q found, want %q", c.text, got, c.want)
		}
	}
}

// Every key of the users' files has a description for editors.
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
		walk(file, "", readSchema(t, "../../docs/reference/"+file+".schema.json"))
	}
	walk("case-alerts", "[]", readSchema(t, "../../docs/reference/case-alerts.schema.json").Items)
}
