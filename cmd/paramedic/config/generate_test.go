package config

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/invopop/jsonschema"

	"paramedic/state"
)

var update = flag.Bool("update", false, "write what is generated instead of comparing it")

// fullExample is the configuration with every key. It is part of the reference.
const fullExample = "testdata/full.yaml"

func TestGeneratedSchemaIsCurrent(t *testing.T) {
	raw, err := json.MarshalIndent(configSchema(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	current(t, "../../../docs/reference/paramedic.schema.json", append(raw, '\n'))
}

func TestGeneratedReferenceIsCurrent(t *testing.T) {
	example, err := os.ReadFile(fullExample)
	if err != nil {
		t.Fatal(err)
	}
	current(t, "../../../docs/reference/configuration.md", []byte(reference(string(example))))
}

// current compares a generated file, or writes it with -update.
func current(t *testing.T, path string, want []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != string(want) {
		t.Errorf("%s is not what the code says now: run `make generate` and commit it (%v)", path, err)
	}
}

// Every key has a description, and the full example has every key.
func TestConfigKeysAreDocumentedAndInTheExample(t *testing.T) {
	keys := configKeys(reflect.TypeFor[Config](), reflect.ValueOf(Default()), "")
	shown := keysOf(t, fullExample)
	for _, k := range keys {
		if k.meaning == "" {
			t.Errorf("%s has no jsonschema_description", k.name)
		}
		if !shown[k.name] {
			t.Errorf("%s does not show %s", fullExample, k.name)
		}
	}
	if required := requiredKeys(configSchema(), ""); !slices.Equal(required,
		[]string{"clusters[].name", "notify.routes[].channels", "remediate.policies[].freeze[].from", "remediate.policies[].freeze[].to"}) {
		t.Errorf("the schema requires %v", required)
	}
	if len(keys) < 70 {
		t.Errorf("only %d keys were found", len(keys))
	}
}

// requiredKeys returns the dotted names of the keys that the schema requires.
func requiredKeys(s *jsonschema.Schema, prefix string) []string {
	var out []string
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		name, inner := prefix+p.Key, p.Value
		if slices.Contains(s.Required, p.Key) {
			out = append(out, name)
		}
		if inner.Items != nil {
			name, inner = name+"[]", inner.Items
		}
		if inner.Properties != nil {
			out = append(out, requiredKeys(inner, name+".")...)
		}
	}
	return out
}

func configSchema() *jsonschema.Schema {
	words := func(w ...any) *jsonschema.Schema { return &jsonschema.Schema{Type: "string", Enum: w} }
	r := jsonschema.Reflector{DoNotReference: true, ExpandedStruct: true,
		Mapper: func(t reflect.Type) *jsonschema.Schema {
			if t == reflect.TypeFor[Duration]() {
				return &jsonschema.Schema{Type: "string", Pattern: `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$|^0$`, Examples: []any{"10s", "2m", "720h"}}
			}
			if strings.HasPrefix(t.Name(), "List[") { // one word or a list
				word := words(vocabulary(t.Elem())...)
				return &jsonschema.Schema{OneOf: []*jsonschema.Schema{word, {Type: "array", Items: word}}}
			}
			return nil
		}}
	s := r.ReflectFromType(reflect.TypeFor[Config]())
	s.ID, s.Title = "", "paramedic.yaml"
	s.Description = "The configuration of paramedic serve."
	return s
}

// vocabulary returns the valid words of a type, or nil if any word is valid.
func vocabulary(t reflect.Type) []any {
	switch t {
	case reflect.TypeFor[state.Severity]():
		return []any{state.Critical, state.Warning, state.Info}
	case reflect.TypeFor[state.Channel]():
		return []any{state.ChannelConsole, state.ChannelSlack, state.ChannelPagerDuty}
	}
	return nil
}

// A configKey is a leaf of the configuration: its dotted name, with [] for the items of a list.
type configKey struct{ name, kind, otherwise, meaning string }

func configKeys(t reflect.Type, defaults reflect.Value, prefix string) []configKey {
	var out []configKey
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous { // inline
			out = append(out, configKeys(f.Type, reflect.Value{}, prefix)...)
			continue
		}
		name := prefix + f.Tag.Get("yaml")
		if json, _, _ := strings.Cut(f.Tag.Get("json"), ","); json != f.Tag.Get("yaml") {
			panic(name + " is called " + json + " in its json tag") // editors would complete what the bot refuses
		}
		value := reflect.Value{}
		if defaults.IsValid() {
			value = defaults.Field(i)
		}
		inner, suffix := f.Type, "."
		switch {
		case inner.Kind() == reflect.Pointer:
			inner, value = inner.Elem(), reflect.Value{}
		case inner.Kind() == reflect.Slice && inner.Elem().Kind() == reflect.Struct:
			inner, value, suffix = inner.Elem(), reflect.Value{}, "[]."
		}
		if inner.Kind() == reflect.Struct {
			if meaning := f.Tag.Get("jsonschema_description"); meaning != "" {
				out = append(out, configKey{name: strings.TrimSuffix(name+suffix, "."), kind: kindName(f), otherwise: "—",
					meaning: meaning})
			}
			out = append(out, configKeys(inner, value, name+suffix)...)
			continue
		}
		out = append(out, configKey{name: name, kind: kindName(f), otherwise: defaultText(value),
			meaning: f.Tag.Get("jsonschema_description")})
	}
	return out
}

func kindName(f reflect.StructField) string {
	if words := strings.Split(f.Tag.Get("jsonschema"), ","); strings.HasPrefix(words[0], "enum=") {
		for i, w := range words {
			words[i] = "`" + strings.TrimPrefix(w, "enum=") + "`"
		}
		return strings.Join(words, ", ")
	}
	t := f.Type
	switch {
	case t == reflect.TypeFor[Duration]():
		return "duration"
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return "list of sections"
	case strings.HasPrefix(t.Name(), "List["):
		return "string, or list of strings"
	case t.Kind() == reflect.Slice:
		return "list of strings"
	case t.Kind() == reflect.Struct || t.Kind() == reflect.Pointer:
		return "section"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Int:
		return "whole number"
	case t.Kind() == reflect.Float64:
		return "number"
	}
	return "string"
}

func defaultText(v reflect.Value) string {
	if !v.IsValid() || v.IsZero() {
		return "—"
	}
	if d, ok := v.Interface().(Duration); ok {
		return "`" + state.FormatDuration(d.D()) + "`"
	}
	return fmt.Sprintf("`%v`", v.Interface())
}

// reference returns docs/reference/configuration.md.
func reference(example string) string {
	var b strings.Builder
	b.WriteString(`# Configuration

<!-- Made from cmd/paramedic/config/types.go by make generate. -->

` + "`paramedic serve --config paramedic.yaml`" + ` reads one YAML file. Without a file the bot listens on
loopback, stores its data in ` + "`./paramedic-data`" + `, prints incidents on the console and only suggests
first aid.

- The file is read strictly. The bot refuses an unknown key, a bad duration, a missing file, a route
  to a channel without configuration, and a policy for an unknown cause. It reports all problems at
  once, each with its line.
- ` + "`paramedic check --config paramedic.yaml`" + ` reports the same problems without starting anything. Its
  exit code is 2 if there are any. With ` + "`--online`" + ` it also asks every configured service whether it
  answers.
- A secret is the path of a file, or ` + "`${NAME}`" + ` for an environment variable. It is never in this
  file. The bot reads it again when it changes.
- The bot applies a changed file while it runs. If the file has problems, the bot keeps the old
  configuration. ` + "`listen`" + `, ` + "`state`" + ` and ` + "`tls`" + ` take effect at the next start.
- ` + "`remediate.limits`" + ` sets a limit for all pools, within its bounds. ` + "`remediate.policies`" + ` tightens it
  for some. A limit beyond its bounds is refused. So is a policy's limit or mode that is looser than
  the general one, because it would have no effect.
- Without ` + "`auth.alertmanager`" + ` and ` + "`auth.api`" + ` the bot listens on loopback only.
- Editors that support JSON Schema complete and check the file with
  ` + "`docs/reference/paramedic.schema.json`" + `.

Durations are written as ` + "`10s`" + `, ` + "`2m`" + ` or ` + "`720h`" + `. A dash means that the key is empty by default.
`)
	section := ""
	for _, k := range configKeys(reflect.TypeFor[Config](), reflect.ValueOf(Default()), "") {
		top, _, nested := strings.Cut(strings.ReplaceAll(k.name, "[]", ""), ".")
		if !nested && k.kind != "list of sections" {
			top = "the server"
		}
		if top != section {
			section = top
			title := "`" + top + "`"
			if top == "the server" {
				title = "The server"
			}
			fmt.Fprintf(&b, "\n## %s\n\n| key | type | default | meaning |\n| --- | --- | --- | --- |\n", title)
		}
		if meaning, otherwise, ok := strings.Cut(strings.TrimSuffix(k.meaning, "."), " Default: "); ok && k.otherwise == "—" {
			k.meaning, k.otherwise = meaning, otherwise // a default that is not a value of DefaultConfig
		}
		if strings.HasPrefix(k.name, "remediate.policies[].limits.") {
			k.otherwise = "`remediate.limits`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.name, k.kind, k.otherwise, strings.ReplaceAll(k.meaning, "|", "\\|"))
	}
	fmt.Fprintf(&b, "\n## Every key at once\n\n```yaml\n%s```\n", example)
	b.WriteString("\nThe file of `auth.api.tokens_file` is a list:\n\n```yaml\n" + tokensExample + "```\n")
	return b.String()
}

// tokensExample is the tokens file in the reference.
const tokensExample = `- {token: "a-long-random-string", name: ada, role: responder, slack_user: U0123ABCD}
- {token: "another-long-random-string", name: dashboard, role: viewer}
`

// The reference prints defaults in a form that the file accepts.
func TestReferenceDefaultsCanBeWrittenBack(t *testing.T) {
	for want, d := range map[string]time.Duration{"`10s`": 10 * time.Second, "`2m`": 2 * time.Minute, "`720h`": 720 * time.Hour,
		"`1m30s`": 90 * time.Second, "`1h30m`": 90 * time.Minute} {
		if got := defaultText(reflect.ValueOf(Duration(d))); got != want {
			t.Errorf("%s is shown as %s, want %s", d, got, want)
		}
	}
}
