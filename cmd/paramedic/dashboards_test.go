package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"paramedic/rules/lint"
	"paramedic/rules/promql"
)

// dashboardDir has the dashboards for Grafana, and the files that they are generated from: one for
// the engines, one for the bot itself.
const dashboardDir = "../../deploy/grafana"

var dashboardSources = []string{"dashboards.yml", "self.yml"}

// itself is the dashboard of the bot. It goes by namespace and job, the others by cluster,
// namespace and model.
const itself = "paramedic"

// dashboards is a parsed source of dashboards.
type dashboards struct {
	source  string
	Engines map[string]struct {
		Title string
		Of    string // the metric that tells which clusters, namespaces and models there are
		Model string // the label with the model; empty: no models
	}
	Rows []struct {
		Title  string
		Panels []panel
	}
}

// A panel has queries by engine.
type panel struct {
	Title, About, Unit string
	Lines              []float64
	Heatmap, Stack     bool
	By                 map[string][]panelQuery `yaml:",inline"`
}

// A panelQuery is PromQL, or one word: a histogram with percentiles to draw.
type panelQuery struct{ Expr, Legend string }

func (q *panelQuery) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		q.Expr = n.Value
		return nil
	}
	type plain panelQuery
	return n.Decode((*plain)(q))
}

func (q panelQuery) expanded(model string) []panelQuery {
	if strings.ContainsAny(q.Expr, "({") {
		return []panelQuery{q}
	}
	var out []panelQuery
	for _, p := range []string{"50", "95", "99"} {
		out = append(out, panelQuery{Expr: fmt.Sprintf("histogram_quantile(0.%s, sum by (le, %s) (rate(%s_bucket{$on}[$window])))", p, model,
			q.Expr), Legend: "{{" + model + "}} p" + p})
	}
	return out
}

func readDashboards(t *testing.T, source string) dashboards {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dashboardDir, source))
	if err != nil {
		t.Fatal(err)
	}
	d := dashboards{source: source}
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	decoder.KnownFields(true)
	if err := decoder.Decode(&d); err != nil {
		t.Fatal(err)
	}
	return d
}

// ofGPUs matches a GPU metric. Prometheus renames the labels of its workload unless it honours the
// exporter's labels.
var ofGPUs = regexp.MustCompile(`(\w+)\{\$gpus\}`)

type object map[string]any

// dashboard returns the dashboard of one engine, for Grafana's import.
func (d dashboards) dashboard(engine string) object {
	e := d.Engines[engine]
	in := `cluster=~"$cluster",namespace=~"$namespace"`
	if e.Model == "" {
		in = `namespace=~"$namespace",job=~"$job"`
	}
	fill := strings.NewReplacer("$on", in+`,`+e.Model+`=~"$model"`, "$in", in, "$slo", in+`,model_name=~"$model"`, "$window", "$__rate_interval")
	source := object{"type": "prometheus", "uid": "${datasource}"}
	var panels []object
	id, y := 0, 0
	for _, row := range d.Rows {
		var shown []panel
		for _, p := range row.Panels {
			if len(p.By[engine])+len(p.By["all"]) > 0 {
				shown = append(shown, p)
			}
		}
		if len(shown) == 0 {
			continue
		}
		id++
		panels = append(panels, object{"id": id, "type": "row", "title": row.Title, "collapsed": false, "panels": []object{},
			"gridPos": object{"h": 1, "w": 24, "x": 0, "y": y}})
		for i, p := range shown {
			var targets []object
			for _, q := range append(slices.Clone(p.By["all"]), p.By[engine]...) {
				for _, q := range q.expanded(e.Model) {
					expr := fill.Replace(ofGPUs.ReplaceAllString(q.Expr, `($1{cluster=~"$$cluster",exported_namespace=~"$$namespace"} or $1{cluster=~"$$cluster",exported_namespace="",namespace=~"$$namespace"})`))
					target := object{"refId": string(rune('A' + len(targets))), "datasource": source, "expr": expr,
						"legendFormat": q.Legend, "editorMode": "code", "range": true}
					if p.Heatmap {
						target["format"] = "heatmap"
					}
					targets = append(targets, target)
				}
			}
			id++
			panels = append(panels, p.grafana(object{"id": id, "title": p.Title, "description": p.About, "datasource": source,
				"targets": targets,
				"gridPos": object{"h": 8, "w": 8, "x": i % 3 * 8, "y": y + 1 + i/3*8}}))
		}
		y += 1 + (len(shown)+2)/3*8
	}
	return object{
		"uid": "paramedic-" + engine, "title": "Paramedic / " +
			e.Title, "tags": []string{"paramedic", "llm"}, "schemaVersion": 39, "editable": true,
		"description": "Made from deploy/grafana/" + d.source + " by make generate.", "refresh": "30s", "timezone": "utc", "graphTooltip": 1,
		"time": object{"from": "now-3h", "to": "now"},
		"links": []object{{"type": "dashboards", "title": "Paramedic", "tags": []string{"paramedic"}, "asDropdown": true,
			"keepTime": true, "includeVars": true}},
		"panels":     panels,
		"templating": object{"list": variables(source, e.Of, e.Model)},
	}
}

// grafana completes a panel of its kind.
func (p panel) grafana(out object) object {
	if p.Heatmap {
		out["type"] = "heatmap"
		out["options"] = object{"calculate": false, "yAxis": object{"unit": p.Unit},
			"color": object{"mode": "scheme", "scheme": "Oranges", "steps": 64}, "cellGap": 1}
		return out
	}
	steps, custom := []object{{"color": "green", "value": nil}}, object{"lineWidth": 1, "fillOpacity": 8, "showPoints": "never"}
	for i, line := range p.Lines {
		steps = append(steps, object{"color": []string{"orange", "red"}[i], "value": line})
		custom["thresholdsStyle"] = object{"mode": "dashed"}
	}
	if p.Stack {
		custom["stacking"], custom["fillOpacity"] = object{"mode": "normal", "group": "A"}, 40
	}
	out["type"] = "timeseries"
	out["fieldConfig"] = object{"defaults": object{"unit": p.Unit, "min": 0, "custom": custom,
		"thresholds": object{"mode": "absolute", "steps": steps}}, "overrides": []object{}}
	if strings.Contains(p.Title, "budget left") {
		delete(out["fieldConfig"].(object)["defaults"].(object), "min") // it goes below nothing
	}
	out["options"] = object{"legend": object{"displayMode": "list", "placement": "bottom"},
		"tooltip": object{"mode": "multi", "sort": "desc"}}
	return out
}

// variables returns the selectors at the top of a dashboard. The choice All also matches series
// without the label: a single cluster has no label cluster.
func variables(source object, of, model string) []object {
	choice := func(name, metric, label string) object {
		q := fmt.Sprintf("label_values(%s, %s)", metric, label)
		return object{"name": name, "type": "query", "datasource": source, "definition": q, "query": object{"query": q, "refId": "A"},
			"refresh": 2, "sort": 1,
			"multi": true, "includeAll": true, "allValue": ".*", "current": object{"text": []string{"All"}, "value": []string{"$__all"}}}
	}
	prometheus := object{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus", "current": object{}}
	if model == "" {
		return []object{prometheus, choice("namespace", of, "namespace"), choice("job", of+`{namespace=~"$namespace"}`, "job")}
	}
	return []object{
		prometheus,
		choice("cluster", of, "cluster"),
		choice("namespace", of+`{cluster=~"$cluster"}`, "namespace"),
		choice("model", of+`{cluster=~"$cluster",namespace=~"$namespace"}`, model),
	}
}

func TestGeneratedDashboardsAreCurrent(t *testing.T) {
	made := map[string]bool{}
	for _, source := range dashboardSources {
		d := readDashboards(t, source)
		for engine := range d.Engines {
			var out bytes.Buffer
			encoder := json.NewEncoder(&out)
			encoder.SetEscapeHTML(false)
			encoder.SetIndent("", "  ")
			if err := encoder.Encode(d.dashboard(engine)); err != nil {
				t.Fatal(err)
			}
			made[engine+".json"] = true
			current(t, filepath.Join(dashboardDir, engine+".json"), out.Bytes())
		}
	}
	files, err := filepath.Glob(filepath.Join(dashboardDir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !made[filepath.Base(file)] {
			t.Errorf("%s is made of nothing", file)
		}
	}
}

// A grafanaDashboard has the fields of a dashboard that the tests check.
type grafanaDashboard struct {
	UID    string
	Panels []struct {
		ID          int
		Type, Title string
		Targets     []struct{ RefID, Expr string }
		GridPos     struct{ H, W, X, Y int }
	}
	Templating struct {
		List []struct{ Name, Definition string }
	}
}

func loadDashboards(t *testing.T) map[string]grafanaDashboard {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dashboardDir, "*.json"))
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	out := map[string]grafanaDashboard{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d grafanaDashboard
		if err := json.Unmarshal(raw, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out[strings.TrimSuffix(filepath.Base(file), ".json")] = d
	}
	return out
}

// selector matches the metric name of a selector.
var selector = regexp.MustCompile(`([a-zA-Z_][\w:]*)\{`)

// Every query is PromQL over metrics that current versions export or the packs record. The linter
// finds nothing in them: no removed names, no quantiles without le, no queues counted twice.
func TestDashboardsQueryExportedMetrics(t *testing.T) {
	have := exported(t)
	for _, r := range packRules(t) {
		if r.Record != "" {
			have.Metrics[r.Record] = true
		}
	}
	for name, d := range loadDashboards(t) {
		chosen := []string{`cluster=~"$cluster"`, `namespace=~"$namespace"`}
		if name == itself {
			chosen = []string{`job=~"$job"`, `namespace=~"$namespace"`}
		}
		queries := 0
		check := func(panel, raw string) {
			queries++
			expr := strings.ReplaceAll(raw, "$__rate_interval", "5m")
			if err := promql.ParsePromQL(expr); err != nil {
				t.Errorf("%s: %s: %v", name, panel, err)
			}
			metrics := selector.FindAllStringSubmatch(expr, -1)
			if len(metrics) == 0 {
				t.Errorf("%s: %s selects nothing: %s", name, panel, expr)
			}
			for _, m := range metrics {
				if !have.Metrics[m[1]] {
					t.Errorf("%s: %s asks for %s, which nobody exports or records", name, panel, m[1])
				}
			}
			for _, f := range lintQueries([]lint.AlertingRule{{Name: panel, Expr: expr}}, have) {
				t.Errorf("%s: %s: %s (%s)", name, panel, f.Text, f.Fix)
			}
		}
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				check(p.Title, target.Expr)
				for _, choice := range chosen {
					if strings.Count(target.Expr, choice) != strings.Count(target.Expr, "{") {
						t.Errorf("%s: %s does not go by what was chosen: %s", name, p.Title, target.Expr)
					}
				}
				if strings.Contains(strings.ReplaceAll(target.Expr, "$__rate_interval", ""), "[5m]") {
					t.Errorf("%s: %s: a rate over a fixed window misses scrapes that are far apart", name, p.Title)
				}
			}
		}
		for _, v := range d.Templating.List {
			if of, ok := strings.CutPrefix(v.Definition, "label_values("); ok {
				if metric := regexp.MustCompile(`^[\w:]+`).FindString(of); !have.Metrics[metric] {
					t.Errorf("%s: the choice of %s is of %s, which nobody exports", name, v.Name, metric)
				}
			}
		}
		if queries < 20 {
			t.Errorf("%s has %d queries", name, queries)
		}
	}
}

// Each dashboard covers the questions of an incident: latency and errors, queues, memory, and
// changed load.
func TestDashboardsCoverIncidentSignals(t *testing.T) {
	everywhere := []string{"Time to first token", "Time between tokens", "Whole request", "How long requests take", "Errors", "Requests",
		"Running and waiting", "KV cache in use", "Prefix cache hits",
		"Prompt length", "GPU busy", "GPU memory used", "SM clock", "Power and temperature", "New Xids in 15 minutes",
		"Error budget left of 30 days"}
	workers := []string{"Tokens", "Time in the queue", "Waiting, by worker", "Running, by worker", "KV cache, by worker", "Answer length"}
	want := map[string][]string{"vllm": slices.Concat(everywhere, workers,
		[]string{"Preemptions", "Time per token of a request", "Waiting because", "Where the time of a request goes"}),
		"sglang": slices.Concat(everywhere, workers, []string{"Preemptions"}), "trtllm": slices.Concat(everywhere, workers,
			[]string{"Paused requests"}),
		"dynamo": append(everywhere, "Tokens", "Answer length"), "llm-d": append(slices.Clone(everywhere), "Endpoints",
			"Waiting, by worker"),
		itself: {"Alerts accepted", "Answers to Alertmanager", "Oldest waiting input", "From the first alert to the first verdict",
			"Messages by channel and outcome", "Runs that need a person", "Guards that hold or deny", "First aid halted", "Damage in a day"}}
	loaded := loadDashboards(t)
	if got := slices.Sorted(maps.Keys(loaded)); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
		t.Errorf("there are dashboards for %v", got)
	}
	uids := map[string]bool{}
	for name, d := range loaded {
		if uids[d.UID] || d.UID == "" {
			t.Errorf("%s: the uid %q is taken", name, d.UID)
		}
		uids[d.UID] = true
		titles, ids, cells := map[string]bool{}, map[int]bool{}, map[[2]int]string{}
		for _, p := range d.Panels {
			if ids[p.ID] {
				t.Errorf("%s: two panels are %d", name, p.ID)
			}
			titles[p.Title], ids[p.ID] = true, true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := cells[[2]int{x, y}]; other != "" || x >= 24 {
						t.Fatalf("%s: %s lies on %q, or beside the grid", name, p.Title, other)
					}
					cells[[2]int{x, y}] = p.Title
				}
			}
		}
		for _, title := range want[name] {
			if !titles[title] {
				t.Errorf("%s has no panel %q", name, title)
			}
		}
	}
}
