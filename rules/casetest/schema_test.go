package casetest

import (
	"flag"
	"reflect"
	"testing"

	"github.com/invopop/jsonschema"

	"paramedic/internal/schematest"
)

var update = flag.Bool("update", false, "write what is generated instead of comparing it")

func TestGeneratedAlertsSchemaIsCurrent(t *testing.T) {
	r := jsonschema.Reflector{DoNotReference: true, RequiredFromJSONSchemaTags: true, FieldNameTag: "json"}
	schema := r.ReflectFromType(reflect.TypeFor[[]alertJSON]())
	for _, key := range unread {
		schema.Items.Properties.Set(key, &jsonschema.Schema{Description: "Alertmanager writes it. Nothing reads it here."})
	}
	schematest.Check(t, *update, schematest.Schema{File: "../../docs/reference/case-alerts.schema.json", Title: "alerts.json",
		Description: "The alerts of a case, as Alertmanager's webhook writes them."}, schema)
}
