package strictyaml

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

type menu struct {
	Title Text   `yaml:"title" jsonschema:"required" jsonschema_description:"What it is called."`
	Items []item `yaml:"items"`
}

type item struct {
	Name  string  `yaml:"name"`
	Price float64 `yaml:"price"`
}

// An order has entries without a name of their own, and defaults.
type order struct {
	Table table          `yaml:"table"`
	Dish  List[string]   `yaml:"dish"`
	Wait  pause          `yaml:"wait"`
	Hot   bool           `yaml:"hot"`
	Extra map[string]int `yaml:"extra"`
	Seats []place        `yaml:"seats"`
}

type place struct {
	table `yaml:",inline"`
	Seat  string `yaml:"seat"`
}

type table struct {
	Number int    `yaml:"number"`
	Code   string `yaml:"-"`
}

type pause time.Duration

func (p *pause) UnmarshalText(b []byte) error {
	d, err := time.ParseDuration(string(b))
	*p = pause(d)
	return err
}

var orders = Format[order]{Kinds: map[reflect.Type]string{reflect.TypeFor[order](): "the order"}}

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

func TestProblemsNameThePathOfUnnamedEntries(t *testing.T) {
	for file, want := range map[string]string{
		"table: {numbr: 1}":                 "1: table has no key numbr; did you mean number?",
		"tabel: {}":                         "1: the order has no key tabel; did you mean table?",
		"table: {number: 2.5}":              `1: table.number must be a whole number, not "2.5"`,
		"table: no":                         `1: table must be keys with values, not "no"; the keys are number`,
		"seats:\n- {seat: a}\n- {seat: []}": "3: seats[1].seat must be text, not a list",
		"seats:\n- {code: a}":               "2: seats[0] has no key code; there are number, seat",
		"dish: {a: b}":                      "1: dish must be a word or a list, not keys with values",
		"dish: [a, [b]]":                    "1: dish[1] must be text, not a list",
		"hot: perhaps":                      `1: hot must be true or false, not "perhaps"`,
		"wait: soon":                        `1: wait: time: invalid duration "soon"`,
		"extra: {ice: cold}":                `1: extra.ice must be a whole number, not "cold"`,
		"extra: {ice: 1, ice: 2}":           "1: ice occurs twice, first in line 1: remove one",
	} {
		_, problems := orders.Read("a.yaml", []byte(file))
		if len(problems) != 1 || problems[0].String() != "a.yaml:"+want {
			t.Errorf("%q: %v, want %s", file, problems, want)
		}
	}
}

func TestReadIntoKeepsDefaultsOfOtherKeys(t *testing.T) {
	got := order{Wait: pause(time.Minute), Table: table{Number: 1}}
	doc, problems := orders.ReadInto(&got, "a.yaml", []byte("wait: soon\nhot: yes\ndish: soup\nseats:\n- &a {number: 7}\n- {<<: *a, seat: b}\n"))
	want := order{Wait: pause(time.Minute), Table: table{Number: 1}, Hot: true, Dish: List[string]{"soup"},
		Seats: []place{{table: table{Number: 7}}, {table: table{Number: 7}, Seat: "b"}}}
	if !reflect.DeepEqual(got, want) || len(problems) != 1 || doc.Broken {
		t.Errorf("%+v, %v", got, problems)
	}
	for path, line := range map[string]int{"hot": 2, "seats.1.seat": 6, "seats.1.taste": 6, "seats.9": 4, "table.number": 0} {
		if n := doc.Line(strings.Split(path, ".")...); n != line {
			t.Errorf("%s is in line %d, want %d", path, n, line)
		}
	}
	if doc.Value("seats", "0", "number") != "7" || doc.Value("seats") != "" || doc.Value("table") != "" {
		t.Error("wrong values")
	}
}

func TestDocumentHasTheEntriesOfTheValue(t *testing.T) {
	var got order
	doc, problems := orders.ReadInto(&got, "a.yaml", []byte("seats:\n- x\n-\n- {seat: [b]}\n- {seat: c}\n"))
	if len(got.Seats) != 2 || doc.Line("seats", "0") != 4 || doc.Line("seats", "1") != 5 || len(problems) != 3 {
		t.Errorf("%+v, %v", got, problems)
	}
}

func TestDocumentIsEmptyWithoutKeys(t *testing.T) {
	for file, want := range map[string]bool{"": true, "# nothing\n": true, "---\n": true, "[]": false, "hot: no": false} {
		var got order
		if doc, _ := orders.ReadInto(&got, "a.yaml", []byte(file)); doc.Empty() != want {
			t.Errorf("%q", file)
		}
	}
}

func TestProblemsOfSecretsQuoteNothing(t *testing.T) {
	secret := orders
	secret.Secret = true
	for _, file := range []string{"hush", "[hush]", "hush: 1", "hush: 1\nhush: 2", "extra: {hush: 1, hush: 2}", "extra: {hush: hush}", "wait: hush",
		"hot: hush", "hot: *hush", "table: {number: hush, hush: 1}", "dish: [hush", "wait: !!binary hush", "dish: !hush!hush a", "table: &hush {<<: *hush}",
		"---\nhot: no\n---\nhush"} {
		_, problems := secret.Read("a.yaml", []byte(file))
		if len(problems) == 0 || strings.Contains(fmt.Sprint(problems), "hush") {
			t.Errorf("%q: %v", file, problems)
		}
	}
}

func TestFarErrorHasTheLineOfTheParser(t *testing.T) {
	_, problems := orders.Read("a.yaml", []byte("hot: no\nwait: [\n"+strings.Repeat("}\n", 2*maxCuts)))
	if len(problems) != 1 || problems[0].Line < 1 || problems[0].Line > 4 {
		t.Errorf("%v", problems)
	}
}

func TestMergesOfMergesEnd(t *testing.T) {
	if _, problems := orders.Read("a.yaml", []byte("table: &a {<<: *a}")); len(problems) != 1 {
		t.Errorf("%v", problems)
	}
	file := "seats:\n- &a0 {seat: x}\n"
	for i := range 60 { // without a limit, each entry would double the work
		file += fmt.Sprintf("- &a%d {<<: *a%d, <<: *a%[2]d}\n", i+1, i)
	}
	if _, problems := orders.Read("a.yaml", []byte(file)); len(problems) != 60 {
		t.Errorf("%v", problems)
	}
}

func TestKeysReadsAnyFile(t *testing.T) {
	for file, want := range map[string][]string{"a: 1\nb: [x]\n---\nc: 2": {"a", "b"}, "": nil, "- a": nil, "a: [": nil, "a": nil} {
		if got := Keys([]byte(file)); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", file, got, want)
		}
	}
}

func TestPositionSplitsParserMessages(t *testing.T) {
	for message, want := range map[string]struct {
		line int
		rest string
	}{
		"yaml: line 3: bad": {3, "bad"}, "line 12: worse": {12, "worse"}, "yaml: none": {0, "none"}, "line x: y": {0, "line x: y"},
	} {
		if line, rest := position(message); line != want.line || rest != want.rest {
			t.Errorf("%q: %d, %q", message, line, rest)
		}
	}
}
