package playbooks

import (
	"flag"
	"reflect"
	"testing"

	"github.com/invopop/jsonschema"

	"paramedic/internal/schematest"
)

var update = flag.Bool("update", false, "write what is generated instead of comparing it")

// The schema for editors is generated from the type that the loader decodes, so that they agree.
func TestGeneratedSchemaIsCurrent(t *testing.T) {
	const file = "../docs/reference/playbook.schema.json"
	r := jsonschema.Reflector{DoNotReference: true, ExpandedStruct: true, RequiredFromJSONSchemaTags: true, FieldNameTag: "yaml"}
	schema := r.ReflectFromType(reflect.TypeFor[frontMatter]())
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
	schematest.Check(t, *update, schematest.Schema{File: file, Title: "playbook",
		Description: "The front matter of a playbook in playbooks.dir."}, schema)
}
