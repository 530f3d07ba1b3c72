package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"paramedic/rules/promql"
	"paramedic/rules/signals"
)

// scrapeDir has the examples that scrape what the bot, the packs and the dashboards read.
const scrapeDir = packDir + "/scrape"

// readMetrics returns every series that a signal, a pack or a dashboard reads.
func readMetrics(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	all, err := signals.LoadSignals()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		for _, src := range s.Sources {
			for _, metric := range src.Metrics() {
				out[metric] = true
			}
		}
	}
	for _, r := range packRules(t) {
		for _, use := range promql.UsesOf(r.Expr) {
			out[use.Metric] = true
		}
	}
	for _, d := range loadDashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				for _, m := range selector.FindAllStringSubmatch(target.Expr, -1) {
					out[m[1]] = true
				}
			}
		}
	}
	return out
}

// scrapeJobs returns the names of metrics that each job of a file keeps, by job; nil if it keeps
// all. A document of the operator is a job with its name.
func scrapeJobs(t *testing.T, path string) map[string][]string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	type relabel struct{ Regex, Action string }
	type endpoint struct {
		Keep []relabel `yaml:"metricRelabelings"`
	}
	out := map[string][]string{}
	keep := func(job string, rules []relabel) {
		out[job] = nil
		for _, r := range rules {
			if r.Action == "keep" {
				out[job] = strings.Split(r.Regex, "|")
			}
		}
	}
	for decoder := yaml.NewDecoder(bytes.NewReader(raw)); ; {
		var doc struct {
			ScrapeConfigs []struct {
				Job  string    `yaml:"job_name"`
				Keep []relabel `yaml:"metric_relabel_configs"`
			} `yaml:"scrape_configs"`
			Metadata struct{ Name string }
			Spec     struct {
				Endpoints []endpoint
				Pods      []endpoint `yaml:"podMetricsEndpoints"`
			}
		}
		if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, c := range doc.ScrapeConfigs {
			keep(c.Job, c.Keep)
		}
		for _, e := range append(doc.Spec.Endpoints, doc.Spec.Pods...) {
			keep(doc.Metadata.Name, e.Keep)
		}
	}
}

// counters reads the counters of dcgm-exporter as the exporter does.
func counters(t *testing.T) (names []string) {
	t.Helper()
	file, err := os.Open(scrapeDir + "/dcgm-counters.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reader := csv.NewReader(file)
	reader.Comment = '#'
	records, err := reader.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if kind := strings.TrimSpace(r[1]); len(r) != 3 || kind != "gauge" && kind != "counter" {
			t.Errorf("dcgm-exporter would not start: %q", r)
		}
		names = append(names, r[0])
	}
	return names
}

// The allowlists of the examples let through what is read, and nothing else. So a new signal fails
// until the examples have its metric.
func TestScrapeExamplesYieldWhatIsRead(t *testing.T) {
	raw, err := os.ReadFile(scrapeDir + "/kube-state-metrics.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		MetricAllowlist []string `yaml:"metricAllowlist"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	decoder.KnownFields(true)
	if err := decoder.Decode(&values); err != nil {
		t.Fatal(err)
	}
	plain := scrapeJobs(t, scrapeDir+"/prometheus.yml")
	operator := scrapeJobs(t, scrapeDir+"/operator/gateways.yaml")
	maps.Copy(operator, scrapeJobs(t, scrapeDir+"/operator/exporters.yaml"))
	read := slices.Sorted(maps.Keys(readMetrics(t)))
	for where, list := range map[string][]string{
		"kube_ kube-state-metrics.yaml":                 values.MetricAllowlist,
		"container_ prometheus.yml":                     plain["cadvisor"],
		"container_ operator/exporters.yaml":            operator["cadvisor"],
		"envoy_ istio_ prometheus.yml":                  plain["envoy"],
		"envoy_ istio_ operator/gateways.yaml":          operator["envoy"],
		"nginx_ingress_ prometheus.yml":                 plain["ingress-nginx"],
		"nginx_ingress_ operator/gateways.yaml":         operator["ingress-nginx"],
		"DCGM_ dcgm-counters.csv (beside its defaults)": counters(t),
	} {
		prefixes := strings.Fields(where)
		want := slices.DeleteFunc(slices.Clone(read), func(m string) bool {
			return !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasSuffix(p, "_") && strings.HasPrefix(m, p) })
		})
		if len(want) == 0 {
			t.Errorf("%s: nothing is read", where)
		}
		for _, m := range want {
			if !slices.Contains(list, m) {
				t.Errorf("%s lacks %s, which a signal, a pack or a dashboard reads", where, m)
			}
		}
		for _, m := range list {
			if !slices.Contains(want, m) && prefixes[0] != "DCGM_" {
				t.Errorf("%s has %s, which nothing reads", where, m)
			}
		}
	}
}

// Every engine and exporter of the signals has a job, for Prometheus and for its operator.
func TestEverySourceOfSignalsHasAScrapeExample(t *testing.T) {
	plain, operator := scrapeJobs(t, scrapeDir+"/prometheus.yml"), map[string][]string{}
	files, err := filepath.Glob(scrapeDir + "/operator/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		maps.Copy(operator, scrapeJobs(t, file))
	}
	jobs := map[string]string{"vllm": "vllm", "sglang": "sglang", "trtllm": "trtllm", "dynamo": "dynamo-frontend dynamo-worker",
		"epp": "llm-d-epp", "ingress": "envoy ingress-nginx", "dcgm": "dcgm-exporter", "kube_state": "kube-state-metrics",
		"cadvisor": "cadvisor", "process": "vllm", "target": "vllm",
		"slo": "", "client": ""} // recorded by a pack; counted by users' own programs
	all, err := signals.LoadSignals()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		for _, src := range s.Sources {
			names, ok := jobs[src.Engine]
			if !ok {
				t.Errorf("%s has the source %s, for which there is no scrape example", s.ID, src.Engine)
			}
			for name := range strings.FieldsSeq(names) {
				_, here := plain[name]
				if _, there := operator[name]; !here || !there {
					t.Errorf("the job %s is missing: in prometheus.yml %t, for the operator %t", name, here, there)
				}
			}
		}
	}
}
