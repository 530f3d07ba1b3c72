package rules

import (
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/invopop/jsonschema"
)

var update = flag.Bool("update", false, "write what is generated instead of comparing it")

// The schemas for editors are made of what the loader decodes, so that they cannot disagree.
func TestGeneratedSchemasAreCurrent(t *testing.T) {
	for _, s := range []struct {
		file, title, about string
		of                 reflect.Type
	}{
		{"../docs/reference/rules.schema.json", "rules", "A file of causes, symptoms and alert rules in triage.rules_dir.", reflect.TypeFor[fileYAML]()},
		{"../docs/reference/case-alerts.schema.json", "alerts.json", "The alerts of a case, as Alertmanager's webhook writes them.", reflect.TypeFor[[]alertJSON]()},
	} {
		r := jsonschema.Reflector{DoNotReference: true, ExpandedStruct: true, RequiredFromJSONSchemaTags: true, FieldNameTag: "yaml",
			Mapper: func(t reflect.Type) *jsonschema.Schema {
				if t == reflect.TypeFor[textAt]() {
					return &jsonschema.Schema{Type: "string"}
				}
				return nil
			}}
		if s.of.Kind() == reflect.Slice {
			r.FieldNameTag, r.ExpandedStruct = "json", false
		}
		schema := r.ReflectFromType(s.of)
		if schema.Items != nil {
			for _, key := range unread {
				schema.Items.Properties.Set(key, &jsonschema.Schema{Description: "Alertmanager writes it. Nothing reads it here."})
			}
		}
		if xids, ok := properties(schema, "xids"); ok {
			code, _ := properties(xids.Items, "code")
			code.Type, code.OneOf = "", []*jsonschema.Schema{{Type: "integer"}, {Type: "string"}}
		}
		if causes, ok := properties(schema, "causes"); ok {
			explains, _ := properties(causes.Items, "explains")
			explains.AdditionalProperties.Minimum, explains.AdditionalProperties.Maximum = json.Number("-100"), json.Number("100")
		}
		filled(schema)
		schema.ID, schema.Title, schema.Description = "", s.title, s.about
		want, err := json.MarshalIndent(schema, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, '\n')
		if *update {
			if err := os.WriteFile(s.file, want, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if got, err := os.ReadFile(s.file); err != nil || string(got) != string(want) {
			t.Errorf("%s is not what the code says now: run `make generate` and commit it (%v)", s.file, err)
		}
	}
}

func properties(s *jsonschema.Schema, name string) (*jsonschema.Schema, bool) {
	if s == nil || s.Properties == nil {
		return nil, false
	}
	return s.Properties.Get(name)
}

// filled says of what has to be there that it may not be empty, as the loader does.
func filled(s *jsonschema.Schema) {
	one := uint64(1)
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		inner := p.Value
		switch required := slices.Contains(s.Required, p.Key); {
		case required && inner.Type == "string" && inner.Enum == nil && inner.Pattern == "":
			inner.MinLength = &one
		case required && inner.Type == "array":
			inner.MinItems = &one
		}
		if inner.Items != nil {
			filled(inner.Items)
		}
		filled(inner)
	}
}
