package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"

	"paramedic/internal/pages"
)

// The commands of helm and kubectl in docs/install.md name files that exist. The page shows what
// they print: the chart's notes, and each object of the manifest.
func TestInstallPageShowsTheObjects(t *testing.T) {
	page, err := pages.Read("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"kubectl create namespace ", "helm -n paramedic install ", "kubectl apply --server-side "} {
		found := false
		for _, b := range page.Blocks {
			if b.Lang != "sh" || !strings.HasPrefix(b.Text, tool) || b.Output == nil {
				continue
			}
			found = true
			var values, manifests []string
			words := strings.Fields(strings.TrimPrefix(b.Text, tool))
			for i, word := range words {
				if strings.HasPrefix(word, "deploy/") {
					if _, err := os.Stat("../../" + word); err != nil {
						t.Errorf("line %d: %v", b.Line, err)
					}
				}
				if i > 0 && words[i-1] == "-f" {
					values, manifests = append(values, "../../"+word), append(manifests, "../../"+word)
				}
			}
			want := applied(t, manifests)
			switch tool {
			case "kubectl create namespace ":
				want = "namespace/" + release + " created\nsecret/" + secretName(t) + " created\n"
			case "helm -n paramedic install ":
				want = fmt.Sprintf("NAME: %s\nLAST DEPLOYED: …\nNAMESPACE: %[1]s\nSTATUS: deployed\nREVISION: 1\nNOTES:\n%s", release, notes(t, values))
			}
			if !b.Output.Matches(want) {
				t.Errorf("line %d shows\n%s\nand the command prints\n%s", b.Line, b.Output.Text, want)
			}
		}
		if !found {
			t.Errorf("the page shows no output of %s", tool)
		}
	}
}

// secretName returns the name of the Secret that the chart mounts.
func secretName(t *testing.T) string {
	t.Helper()
	values, err := readValues(filepath.Join(chartDir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(values["secretName"])
}

// notes returns the chart's notes with values files.
func notes(t *testing.T, files []string) string {
	t.Helper()
	values, err := readValues(files...)
	if err != nil {
		t.Fatal(err)
	}
	chart, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	all, err := util.ToRenderValues(chart, values, common.ReleaseOptions{Name: release, Namespace: release, Revision: 1, IsInstall: true},
		common.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := engine.Render(chart, all)
	if err != nil {
		t.Fatal(err)
	}
	return rendered[filepath.Join(chart.Name(), "templates", "NOTES.txt")]
}

// applied returns what kubectl prints for the objects of manifests.
func applied(t *testing.T, files []string) string {
	t.Helper()
	var out strings.Builder
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for doc := range strings.SplitSeq(string(raw), "\n---\n") {
			var o struct {
				APIVersion string
				Kind       string
				Metadata   struct{ Name string }
			}
			if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
				t.Fatal(err)
			}
			kind := strings.ToLower(o.Kind)
			if group, _, ok := strings.Cut(o.APIVersion, "/"); ok {
				kind += "." + group
			}
			fmt.Fprintf(&out, "%s/%s serverside-applied\n", kind, o.Metadata.Name)
		}
	}
	return out.String()
}
