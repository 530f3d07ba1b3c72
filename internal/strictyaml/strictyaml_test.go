package strictyaml

import (
	"reflect"
	"strings"
	"testing"
)

type menu struct {
	Title Text   `yaml:"title" jsonschema:"required" jsonschema_description:"What it is called."`
	Items []item `yaml:"items"`
}

type item struct {
	Name  string  `yaml:"name"`
	Price float64 `yaml:"price"`
}

var menus = Format[menu]{Kinds: map[reflect.Type]string{
	reflect.TypeFor[menu](): "a menu", reflect.TypeFor[item](): "an item"}}

func TestReadReturnsValuesWithLines(t *testing.T) {
	got, problems := menus.Read("a.yaml", []byte("\ntitle: Lunch\nitems:\n  - {name: soup, price: 3.5}\n"))
	if len(problems) > 0 || got.Title != (Text{Value: "Lunch", Line: 2}) || got.Items[0] != (item{"soup", 3.5}) {
		t.Errorf("%+v, %v", got, problems)
	}
}

func TestReadReportsAllProblemsAtOnce(t *testing.T) {
	const file = "items:\n  - {nam: soup}\n  - {name: [x], price: much}\n  - {name: a, name: b}\n---\ntitle: Dinner\n"
	_, problems := menus.Read("a.yaml", []byte(file))
	var all []string
	for _, p := range problems {
		all = append(all, p.String())
	}
	got := strings.Join(all, "\n")
	for _, want := range []string{
		"a.yaml:1: a menu needs title: What it is called.",
		"a.yaml:2: an item has no key nam; did you mean name?",
		"a.yaml:3: name must be text, not a list",
		`a.yaml:3: price must be a number, not "much"`,
		"a.yaml:4: name occurs twice, first in line 4: remove one",
		"only the first document of a file is read",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("missing %q in\n%s", want, got)
		}
	}
}

func TestReadLocatesBrokenYAML(t *testing.T) {
	_, problems := menus.Read("a.yaml", []byte("title: Lunch\nitems:\n  - {name: soup\n"))
	if len(problems) == 0 || problems[0].Line != 3 || !strings.HasPrefix(problems[0].Text, "this is not YAML: ") {
		t.Errorf("%v", problems)
	}
}

func TestPositionSplitsParserMessages(t *testing.T) {
	for message, want := range map[string]struct {
		line int
		rest string
	}{
		"yaml: line 3: bad": {3, "bad"}, "line 12: worse": {12, "worse"}, "yaml: none": {0, "none"}, "line x: y": {0, "line x: y"},
	} {
		if line, rest := Position(message); line != want.line || rest != want.rest {
			t.Errorf("%q: %d, %q", message, line, rest)
		}
	}
}
