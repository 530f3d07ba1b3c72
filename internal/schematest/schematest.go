// Package schematest compares a JSON schema that is made from Go types with the file that is
// committed, so that the two cannot disagree.
package schematest

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/invopop/jsonschema"
)

// A Schema is a file to compare.
type Schema struct {
	File        string
	Title       string
	Description string
}

// Check compares the schema with the file, or writes the file if update is set. It makes the
// schema refuse empty values of required properties, as the loaders do.
func Check(t *testing.T, update bool, to Schema, schema *jsonschema.Schema) {
	t.Helper()
	refuseEmpty(schema)
	schema.ID, schema.Title, schema.Description = "", to.Title, to.Description
	want, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if update {
		if err := os.WriteFile(to.File, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(to.File); err != nil || string(got) != string(want) {
		t.Errorf("%s differs from the code: run `make generate` and commit it (%v)", to.File, err)
	}
}

// Property returns the property of a schema, or false if it has none of that name.
func Property(s *jsonschema.Schema, name string) (*jsonschema.Schema, bool) {
	if s == nil || s.Properties == nil {
		return nil, false
	}
	return s.Properties.Get(name)
}

func refuseEmpty(s *jsonschema.Schema) {
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
			refuseEmpty(inner.Items)
		}
		refuseEmpty(inner)
	}
}
