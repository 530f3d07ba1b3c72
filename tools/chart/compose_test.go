package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"sigs.k8s.io/yaml"
)

const composeDir = deployDir + "/compose"

// composition loads compose.yaml as docker compose does. An unknown key is an error.
func composition(t *testing.T) *types.Project {
	t.Helper()
	dir, err := filepath.Abs(composeDir)
	if err != nil {
		t.Fatal(err)
	}
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{WorkingDir: dir,
		ConfigFiles: types.ToConfigFiles([]string{filepath.Join(dir, "compose.yaml")}), Environment: types.Mapping{}})
	if err != nil {
		t.Fatal(err)
	}
	return project
}

func TestCompositionIsConfinedToTheMachine(t *testing.T) {
	project := composition(t)
	pinned := regexp.MustCompile(`^[a-z.]+(/[a-z.-]+)+:v?\d+\.\d+\.\d+$`)
	for name, s := range project.Services {
		if !pinned.MatchString(s.Image) {
			t.Errorf("%s: the image %s has no exact version", name, s.Image)
		}
		if !s.ReadOnly || len(s.CapDrop) != 1 || s.CapDrop[0] != "ALL" || s.Restart == "" {
			t.Errorf("%s may write to its image, has capabilities, or is not started again", name)
		}
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s is open to other machines", name, p.Published)
			}
		}
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			if _, err := os.Stat(v.Source); err != nil || !v.ReadOnly {
				t.Errorf("%s mounts %s: read-only %t, %v", name, v.Source, v.ReadOnly, err)
			}
		}
		for _, v := range s.Environment {
			if v != nil && strings.HasPrefix(*v, "/run/secrets/") && !has(s, strings.TrimPrefix(*v, "/run/secrets/")) {
				t.Errorf("%s has no secret for %s", name, *v)
			}
		}
	}
}

func has(s types.ServiceConfig, secret string) bool {
	for _, have := range s.Secrets {
		if have.Source == secret {
			return true
		}
	}
	return false
}

// The image is the chart's, and its build that of the repository.
func TestCompositionRunsTheChartsImage(t *testing.T) {
	project := composition(t)
	raw, err := os.ReadFile(chartDir + "/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var chart struct{ AppVersion string }
	if err := yaml.Unmarshal(raw, &chart); err != nil {
		t.Fatal(err)
	}
	values, err := readValues(chartDir + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	image := values["image"].(map[string]any)
	for _, name := range []string{"lab", "paramedic"} {
		s := project.Services[name]
		if want := image["repository"].(string) + ":" + chart.AppVersion; s.Image != want {
			t.Errorf("%s runs %s, the chart %s", name, s.Image, want)
		}
		if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
			t.Errorf("%s cannot be built: %v", name, err)
		}
	}
}

// Grafana's provisioning has only keys that Grafana knows, and names a service and a mounted
// folder.
func TestGrafanaReadsTheMountedDashboards(t *testing.T) {
	project := composition(t)
	var sources struct {
		APIVersion  int `json:"apiVersion"`
		Datasources []struct {
			Name, UID, Type, Access, URL string
			IsDefault                    bool
		}
	}
	var boards struct {
		APIVersion int `json:"apiVersion"`
		Providers  []struct {
			Name, Folder, Type string
			Options            struct{ Path string }
		}
	}
	for name, into := range map[string]any{"datasources": &sources, "dashboards": &boards} {
		raw, err := os.ReadFile(composeDir + "/grafana/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(raw, into); err != nil {
			t.Errorf("%s.yaml: %v", name, err)
		}
	}
	if source := sources.Datasources[0]; source.URL != "http://prometheus:9090" || source.Type != "prometheus" || !source.IsDefault {
		t.Errorf("the data source is %+v", source)
	}
	if _, ok := project.Services["prometheus"]; !ok {
		t.Error("there is no service prometheus")
	}
	targets := map[string]string{}
	for _, v := range project.Services["grafana"].Volumes {
		targets[v.Target] = v.Source
	}
	mounted := targets[boards.Providers[0].Options.Path]
	if found, err := filepath.Glob(mounted + "/*.json"); err != nil || mounted == "" || len(found) < 5 {
		t.Errorf("%s holds the dashboards %v (%v)", boards.Providers[0].Options.Path, found, err)
	}
}

// Prometheus ignores a rule file that does not exist.
func TestCompositionsRuleFilesExist(t *testing.T) {
	raw, err := os.ReadFile(composeDir + "/prometheus.yml")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		RuleFiles []string `json:"rule_files"`
	}
	if err := yaml.Unmarshal(raw, &config); err != nil || len(config.RuleFiles) == 0 {
		t.Fatalf("%d rule files: %v", len(config.RuleFiles), err)
	}
	for _, file := range config.RuleFiles {
		found := false
		for _, v := range composition(t).Services["prometheus"].Volumes {
			if rest, below := strings.CutPrefix(file, v.Target+"/"); below {
				_, err := os.Stat(filepath.Join(v.Source, rest))
				found = found || err == nil
			}
		}
		if !found {
			t.Errorf("no mounted folder has %s", file)
		}
	}
}
