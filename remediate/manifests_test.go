package remediate

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"
)

type manifest struct {
	Kind  string `yaml:"kind"`
	Rules []struct {
		APIGroups []string `yaml:"apiGroups"`
		Resources []string `yaml:"resources"`
		Verbs     []string `yaml:"verbs"`
	} `yaml:"rules"`
}

func rulesOf(t *testing.T, file, kind string) []Verb {
	t.Helper()
	b, err := os.ReadFile("../deploy/kubernetes/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var out []Verb
	dec := yaml.NewDecoder(bytes.NewReader(b))
	for {
		var m manifest
		err := dec.Decode(&m)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Rules) > 0 && m.Kind != kind {
			t.Errorf("%s has a %s with rules", file, m.Kind)
		}
		for _, r := range m.Rules {
			for _, g := range r.APIGroups {
				for _, res := range r.Resources {
					for _, v := range r.Verbs {
						out = append(out, Verb{g, res, v})
					}
				}
			}
		}
	}
	if len(out) == 0 {
		t.Fatalf("%s grants nothing", file)
	}
	return out
}

func TestFirstAidRoleMatchesDeclaredVerbs(t *testing.T) {
	granted, declared := rulesOf(t, "first-aid.yaml", "Role"), WriteVerbs()
	for _, v := range granted {
		if !slices.Contains(declared, v) {
			t.Errorf("granted and needed by no action: %v", v)
		}
	}
	for _, v := range declared {
		if !slices.Contains(granted, v) {
			t.Errorf("needed and not granted: %v", v)
		}
	}
}

func TestObserverRoleGrantsExactlyTheReads(t *testing.T) {
	granted := rulesOf(t, "observer.yaml", "ClusterRole")
	for _, v := range granted {
		if !slices.Contains([]string{"get", "list", "watch"}, v.Verb) {
			t.Errorf("observers would be granted %v", v)
		}
	}
	for _, v := range ReadVerbs() {
		if !slices.Contains(granted, v) {
			t.Errorf("read and not granted: %v", v)
		}
	}
}
