package pipeline

import (
	"bytes"
	"encoding/csv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"paramedic/lab"
)

const scrapeDir = "../../deploy/prometheus/scrape/"

// A place is a target as Kubernetes describes it.
type place struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// placeOf returns what the discovery by Kubernetes would report of a page of the lab. Its instance
// and job are those of the lab's past, which Prometheus has already.
func placeOf(target lab.Target, address string) place {
	const meta = "__meta_kubernetes_pod_"
	labels := map[string]string{"__metrics_path__": target.Path, "job": target.Labels["job"], "instance": target.Labels["instance"],
		"__meta_kubernetes_namespace": target.Labels["namespace"], meta + "name": target.Labels["pod"],
		meta + "container_name": target.Labels["container"], meta + "node_name": target.Labels["node"]}
	known := map[string]string{}
	switch target.Job {
	case "vllm", "sglang", "trtllm":
		known = map[string]string{"label_paramedic_dev_engine": target.Job, "container_port_name": "http"}
	case "dynamo-worker":
		known = map[string]string{"label_nvidia_com_metrics_enabled": "true", "label_nvidia_com_dynamo_component_type": "worker",
			"container_port_name": "system"}
	case "frontend":
		known = map[string]string{"label_nvidia_com_metrics_enabled": "true", "label_nvidia_com_dynamo_component_type": "frontend",
			"container_port_name": "http"}
	case "epp":
		known = map[string]string{"container_port_number": "9090"}
	case "dcgm":
		known = map[string]string{"label_app_kubernetes_io_name": "dcgm-exporter", "container_port_name": "metrics"}
	case "kube":
		known = map[string]string{"label_app_kubernetes_io_name": "kube-state-metrics", "container_port_name": "http"}
	}
	for name, value := range known {
		labels[meta+name] = value
	}
	return place{[]string{address}, labels}
}

// scrapeConfigs returns the jobs of deploy/prometheus/scrape. The files sd/pod.json and
// sd/node.json stand in for the discovery by Kubernetes, and the allowlists of the exporters drop
// what the exporters would not export.
func scrapeConfigs(t *testing.T, dir string) []map[string]any {
	t.Helper()
	raw, err := os.ReadFile(scrapeDir + "prometheus.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Jobs []map[string]any `yaml:"scrape_configs"`
	}
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("service-account"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, job := range file.Jobs {
		job["file_sd_configs"] = []map[string]any{{"files": []string{"sd/" + role(t, job) + ".json"}, "refresh_interval": "1s"}}
		delete(job, "kubernetes_sd_configs")
		delete(job, "scheme")
		delete(job, "tls_config")
		if job["authorization"] != nil {
			job["authorization"] = map[string]any{"credentials_file": token}
		}
		if list := exportedBy(t, job["job_name"]); len(list) > 0 {
			job["metric_relabel_configs"] = []map[string]any{{"source_labels": []string{"__name__"}, "regex": strings.Join(list, "|"), "action": "keep"}}
		}
	}
	return file.Jobs
}

// role returns the role of a job's discovery by Kubernetes, which Debian's Prometheus does not
// have. It fails the test for another setting of that discovery.
func role(t *testing.T, job map[string]any) string {
	t.Helper()
	raw, err := yaml.Marshal(job["kubernetes_sd_configs"])
	if err != nil {
		t.Fatal(err)
	}
	var configs []struct{ Role string }
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	decoder.KnownFields(true)
	if err := decoder.Decode(&configs); err != nil || len(configs) != 1 || configs[0].Role != "pod" && configs[0].Role != "node" {
		t.Fatalf("%v is found by %s: %v", job["job_name"], raw, err)
	}
	return configs[0].Role
}

// exportedBy returns the metrics that the settings of an exporter let it export; nil for all.
func exportedBy(t *testing.T, job any) (names []string) {
	t.Helper()
	switch job {
	case "kube-state-metrics":
		raw, err := os.ReadFile(scrapeDir + "kube-state-metrics.yaml")
		if err != nil {
			t.Fatal(err)
		}
		var values struct {
			MetricAllowlist []string `yaml:"metricAllowlist"`
		}
		if err := yaml.Unmarshal(raw, &values); err != nil {
			t.Fatal(err)
		}
		return values.MetricAllowlist
	case "dcgm-exporter":
		raw, err := os.ReadFile(scrapeDir + "dcgm-counters.csv")
		if err != nil {
			t.Fatal(err)
		}
		reader := csv.NewReader(bytes.NewReader(raw))
		reader.Comment = '#'
		records, err := reader.ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			names = append(names, r[0])
		}
	}
	return names
}
