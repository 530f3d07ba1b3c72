package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"paramedic/internal/pages"
)

// foreign has the keys of YAML samples in pages that are no configuration of the bot, and what
// reads them.
var foreign = map[string]string{
	"rule_files": "Prometheus", "metric_relabel_configs": "Prometheus; e2e/pipeline runs it", "providers": "Grafana", "apiVersion": "Grafana or Kubernetes",
	"kind": "Kubernetes", "metadata": "Kubernetes", "rules": "Kubernetes",
	"receivers": "Alertmanager", "route": "Alertmanager",
	"symptoms": "rules of one's own; rules/catalog loads them", "alerts": "the same", "causes": "the same",
}

// Every YAML sample of every page is a valid configuration, a valid list of tokens, or one of
// another program.
func TestSamplesInPagesLoad(t *testing.T) {
	all, err := pages.All("../../..")
	if err != nil {
		t.Fatal(err)
	}
	ours := map[string]bool{}
	for i, c := 0, reflect.TypeFor[Config](); i < c.NumField(); i++ {
		ours[c.Field(i).Tag.Get("yaml")] = true
	}
	t.Setenv("SLACK_SIGNING_SECRET", "x")
	configs := 0
	for _, page := range all {
		for _, b := range page.Blocks {
			if b.Lang != "yaml" {
				continue
			}
			at := fmt.Sprintf("%s:%d", page.Path, b.Line)
			var top yaml.Node
			if err := yaml.Unmarshal([]byte(b.Text), &top); err != nil {
				t.Errorf("%s: %v", at, err)
				continue
			}
			if top = *top.Content[0]; top.Kind == yaml.SequenceNode {
				tokensLoad(t, at, b.Text)
				continue
			}
			isConfig := true
			for i := 0; i < len(top.Content); i += 2 {
				key := top.Content[i].Value
				isConfig = isConfig && foreign[key] == ""
				if !ours[key] && foreign[key] == "" {
					t.Errorf("%s: no program is known that reads the key %s", at, key)
				}
			}
			if isConfig {
				configs++
				loads(t, at, strings.ReplaceAll(b.Text, "/etc/paramedic/templates/*.tmpl", "../../../deploy/templates/*.tmpl"))
			}
		}
	}
	if configs < 2 {
		t.Errorf("only %d configurations were found", configs)
	}
}

// tokensLoad fails the test if a text is no file of tokens.
func tokensLoad(t *testing.T, at, text string) {
	t.Helper()
	dir := t.TempDir()
	put(t, dir, "tokens.yaml", []byte(text))
	if _, err := Parse(at, []byte("auth: {api: {tokens_file: "+dir+"/tokens.yaml}}\n")); err != nil {
		t.Error(err)
	}
}
