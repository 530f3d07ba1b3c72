package service

import (
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"paramedic/cmd/paramedic/config"
	"paramedic/rules/health"
	"paramedic/state"
	"paramedic/webhook/api"
	"paramedic/webhook/stats"
)

// The description of the API has every field of its answers, and no other.
func TestOpenAPIHasTheFieldsOfAnswers(t *testing.T) {
	s, err := New(config.Default(), Deps{Store: idleStore{}, Clock: state.SystemClock{}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.Handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/openapi.yaml", nil))
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]any `yaml:"properties"`
			} `yaml:"schemas"`
		} `yaml:"components"`
	}
	if err := yaml.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	for schema, answer := range map[string]any{
		"Incident": api.IncidentJSON{}, "Action": api.ActionJSON{}, "Entry": api.EntryJSON{}, "Stats": stats.Summary{},
		"Fleet": fleetHealth{}, "Pool": health.Pool{}, "HealthCheck": health.Check{}, "Pathology": health.SeenPathology{},
	} {
		described := slices.Sorted(maps.Keys(doc.Components.Schemas[schema].Properties))
		if fields := fieldsOf(reflect.TypeOf(answer)); !slices.Equal(described, fields) {
			t.Errorf("%s describes %q, and the answer has %q", schema, described, fields)
		}
	}
}

// fieldsOf returns the names of a struct's fields in JSON, sorted.
func fieldsOf(kind reflect.Type) []string {
	var names []string
	for f := range kind.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
