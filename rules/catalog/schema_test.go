package catalog

import (
	"encoding/json"
	"flag"
	"reflect"
	"testing"

	"github.com/invopop/jsonschema"

	"paramedic/internal/schematest"
	"paramedic/internal/strictyaml"
)

var update = flag.Bool("update", false, "write what is generated instead of comparing it")

func TestGeneratedRulesSchemaIsCurrent(t *testing.T) {
	r := jsonschema.Reflector{DoNotReference: true, ExpandedStruct: true, RequiredFromJSONSchemaTags: true, FieldNameTag: "yaml",
		Mapper: func(t reflect.Type) *jsonschema.Schema {
			if t == reflect.TypeFor[strictyaml.Text]() {
				return &jsonschema.Schema{Type: "string"}
			}
			return nil
		}}
	schema := r.ReflectFromType(reflect.TypeFor[fileYAML]())
	if xids, ok := schematest.Property(schema, "xids"); ok {
		code, _ := schematest.Property(xids.Items, "code")
		code.Type, code.OneOf = "", []*jsonschema.Schema{{Type: "integer"}, {Type: "string"}}
	}
	if causes, ok := schematest.Property(schema, "causes"); ok {
		explains, _ := schematest.Property(causes.Items, "explains")
		explains.AdditionalProperties.Minimum, explains.AdditionalProperties.Maximum = json.Number("-100"), json.Number("100")
	}
	schematest.Check(t, *update, schematest.Schema{File: "../../docs/reference/rules.schema.json", Title: "rules",
		Description: "A file of causes, symptoms and alert rules in triage.rules_dir."}, schema)
}
