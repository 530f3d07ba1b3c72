package service

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"paramedic/state"
	"paramedic/state/outbox"
)

// described returns the labels of all metrics that the bot can export, by name.
func described(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, text := range descriptions(t) {
		m := regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("the description has another form: %s", text)
		}
		out[m[1]] = strings.Split(m[2], ",")
	}
	return out
}

// histograms returns the names of the bot's histograms.
func histograms(t *testing.T) map[string]bool {
	t.Helper()
	m := newMetrics()
	m.observe("GET /", 200, 0, 0)
	m.delivered(outbox.Attempt{})
	m.confidence.WithLabelValues(string(state.Unknown)).Observe(1)
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, f := range families {
		if f.GetType() == dto.MetricType_HISTOGRAM {
			out[f.GetName()] = true
		}
	}
	return out
}

// The tests of the dashboards and packs read this list, and so cannot accept a metric that the bot
// does not have.
func TestListOfExportedMetricsIsCurrent(t *testing.T) {
	raw, err := os.ReadFile("../testdata/packs/exported.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, own, ok := strings.Cut(string(raw), "# Paramedic itself")
	if !ok {
		t.Fatal("the list has no section about Paramedic")
	}
	_, own, _ = strings.Cut(own, "\n")
	have, isHistogram, listed := described(t), histograms(t), map[string]bool{}
	for name := range strings.FieldsSeq(own) {
		base, histogram := strings.CutSuffix(name, "*")
		listed[base] = true
		if have[base] == nil || isHistogram[base] != histogram {
			t.Errorf("the list has %s, and the bot does not export it", name)
		}
	}
	for name := range have {
		if strings.HasPrefix(name, "paramedic_") && !listed[name] {
			t.Errorf("the list lacks %s", name)
		}
	}
}

// scraped are the labels that Prometheus adds to the bot's metrics, and the ends of buckets.
var scraped = []string{"namespace", "job", "instance", "exported_cluster", "le"}

// A panel by a label that its metric does not have shows one line without a name.
func TestOwnDashboardGoesByExistingLabels(t *testing.T) {
	raw, err := os.ReadFile("../../../deploy/grafana/paramedic.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(raw, &board); err != nil {
		t.Fatal(err)
	}
	have, queries := described(t), 0
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			queries++
			metric := regexp.MustCompile(`(\w+)\{`).FindStringSubmatch(target.Expr)[1]
			labels := have[metric]
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				if base, ok := strings.CutSuffix(metric, suffix); ok {
					labels = have[base]
				}
			}
			used := regexp.MustCompile(`(\w+)(?:=~|!~|!=|=)"`).FindAllStringSubmatch(target.Expr, -1)
			used = append(used, regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(target.LegendFormat, -1)...)
			for _, by := range regexp.MustCompile(`by \(([^)]*)\)`).FindAllStringSubmatch(target.Expr, -1) {
				for label := range strings.SplitSeq(by[1], ", ") {
					used = append(used, []string{"", label})
				}
			}
			for _, u := range used {
				if !slices.Contains(labels, u[1]) && !slices.Contains(scraped, u[1]) {
					t.Errorf("%s: %s has no label %s: %s", p.Title, metric, u[1], target.Expr)
				}
			}
		}
	}
	if queries < 30 {
		t.Errorf("only %d queries were found", queries)
	}
}
