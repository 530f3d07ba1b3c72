package playbooks

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

// The schema for editors is generated from the type that the loader decodes, so that they agree.
func TestGeneratedSchemaIsCurrent(t *testing.T) {
	const file = "../docs/playbook.schema.json"
	r := jsonschema.Reflector{DoNotReference: true, ExpandedStruct: true, RequiredFromJSONSchemaTags: true, FieldNameTag: "yaml"}
	schema := r.ReflectFromType(reflect.TypeFor[frontMatter]())
	schema.ID, schema.Title, schema.Description = "", "playbook", "The front matter of a playbook in playbooks.dir."
	aid, ok := schema.Properties.Get("first_aid")
	if !ok {
		t.Fatal("the schema has no first_aid")
	}
	action, ok := aid.Items.Properties.Get("action")
	if !ok {
		t.Fatal("the schema has no action")
	}
	for _, a := range Actions() {
		action.Enum = append(action.Enum, a)
	}
	filled(schema)
	want, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != string(want) {
		t.Errorf("%s is not what the code says now: run `make generate` and commit it (%v)", file, err)
	}
}

// filled marks required values as not empty, as the loader does.
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
