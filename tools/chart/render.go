package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

// chartDir is the chart's folder.
const chartDir = deployDir + "/helm/paramedic"

// Manifests are rendered for this release, as with: helm template -n paramedic paramedic.
const release = "paramedic"

// rungs lists the modes of first aid, from the least trust to the most.
var rungs = []string{"observe", "suggest", "approve", "auto"}

// valuesOf returns the path of a rung's values.
func valuesOf(rung string) string { return filepath.Join(chartDir, "values-"+rung+".yaml") }

// templates lists the chart's templates in the order of their objects: rights first, the bot last.
var templates = []string{"accounts", "observer", "first-aid", "config", "service", "bot", "guards", "monitoring"}

// A document is one rendered object.
type document struct {
	template string
	text     string // YAML, with its comments
}

// readValues merges values files. Later files win.
func readValues(files ...string) (map[string]any, error) {
	values := map[string]any{}
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		next := map[string]any{}
		if err := yaml.UnmarshalStrict(raw, &next); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		values = loader.MergeMaps(values, next)
	}
	return values, nil
}

// render renders the chart and returns its objects in order. It returns an error if the values do
// not fit the chart's schema.
func render(values map[string]any) ([]document, error) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil))) // Helm logs replaced values there
	chart, err := loader.Load(chartDir)
	if err != nil {
		return nil, fmt.Errorf("loading the chart: %w", err)
	}
	all, err := util.ToRenderValues(chart, values,
		common.ReleaseOptions{Name: release, Namespace: release, Revision: 1, IsInstall: true}, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Render(chart, all)
	if err != nil {
		return nil, err
	}
	var out []document
	for name, text := range rendered {
		base := strings.TrimSuffix(filepath.Base(name), ".yaml")
		if filepath.Ext(name) != ".yaml" {
			continue // notes and helpers
		}
		if !slices.Contains(templates, base) {
			return nil, fmt.Errorf("add %s to the list templates, which orders the manifests", base)
		}
		for doc := range strings.SplitSeq("\n"+text, "\n---\n") {
			if doc = strings.TrimSpace(doc); doc != "" {
				out = append(out, document{base, doc})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b document) int {
		return slices.Index(templates, a.template) - slices.Index(templates, b.template)
	})
	return out, nil
}

// lintRungs checks the chart with the values of each rung, as helm lint does, and returns every
// finding above an information.
func lintRungs() error {
	var found []error
	for _, rung := range rungs {
		values, err := readValues(valuesOf(rung))
		if err != nil {
			return err
		}
		for _, m := range lint.RunAll(chartDir, values, release).Messages {
			if m.Severity > support.InfoSev {
				found = append(found, fmt.Errorf("values-%s.yaml: %w", rung, m))
			}
		}
	}
	return errors.Join(found...)
}
