package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"

	"paramedic/lab"
)

// A world is a cluster: the fleet with the fault, perhaps a healthy one, and a Prometheus that
// scrapes both by the run's convention.
type world struct {
	convention convention
	fleet      *lab.Fleet
	neighbour  *lab.Fleet // nil: none
	store      *store

	mu    sync.Mutex
	shown map[*lab.Fleet]shown
}

// A shown holds the pages of a fleet at a moment.
type shown struct {
	at    time.Time
	pages []lab.Page
}

// pages returns the pages of a fleet at its present. The bot and Prometheus read the same ones.
func (w *world) pages(f *lab.Fleet) []lab.Page {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := f.Now()
	have, ok := w.shown[f]
	if !ok || !have.at.Equal(now) {
		_, _, have.pages = f.Scrape()
		have.at = now
		w.shown[f] = have
	}
	return have.pages
}

// scrape scrapes every target at the fleets' present. Two fleets have one kube-state-metrics.
func (w *world) scrape(now time.Time) {
	type scraped struct {
		of       lab.Target
		set      map[string]string
		families []*dto.MetricFamily
	}
	present, all := map[string]bool{}, map[string]*scraped{}
	record := func(t lab.Target, families []*dto.MetricFamily) {
		set := w.targetLabels(t)
		key := fmt.Sprint(set)
		if all[key] == nil {
			present[key], all[key] = true, &scraped{of: t, set: set}
		}
		if families != nil && all[key].families == nil {
			all[key].families = []*dto.MetricFamily{} // it answers
		}
		all[key].families = append(all[key].families, families...)
	}
	w.eachFleet(func(f *lab.Fleet) {
		pages := w.pages(f)
		for _, p := range pages {
			if families, kept := w.exported(p); kept {
				record(p.Target, families)
			}
		}
		for _, t := range w.proxies(f, pages) {
			record(t.Target, t.Families)
		}
	})
	if w.convention["tenants"] == "platform" {
		for _, p := range platform(w.fleet) {
			record(p.Target, p.Families)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		x := all[key]
		w.store.scrape(now, key, x.set, x.families, func(metric string, pairs []*dto.LabelPair) map[string]string {
			return w.sampleLabels(x.of, x.set, metric, pairs)
		})
	}
	w.store.vanish(now, present)
}

func (w *world) eachFleet(do func(*lab.Fleet)) {
	do(w.fleet)
	if w.neighbour != nil {
		do(w.neighbour)
	}
}

// exported returns the families of a page that the convention exports, and whether the page is a
// target at all.
func (w *world) exported(p lab.Page) ([]*dto.MetricFamily, bool) {
	c := w.convention
	switch p.Target.Job {
	case "dcgm":
		return p.Families, c["gpu"] != "none"
	case "kube":
		return p.Families, c["kubernetes"] != "none"
	case "epp":
		return p.Families, c["gateway"] == "picker"
	case "frontend": // Dynamo's frontend is the engine's own
		return p.Families, true
	}
	return p.Families, true
}

// targetLabels returns the labels that the convention gives a target.
func (w *world) targetLabels(t lab.Target) map[string]string {
	set := maps.Clone(t.Labels)
	if !isWorker(t) {
		return set
	}
	pool := poolOf(set["pod"])
	switch w.convention["job"] {
	case "podmonitor":
		set["job"] = set["namespace"] + "/" + pool
	case "servicemonitor":
		set["job"], set["service"], set["endpoint"] = pool, pool, "http"
	case "annotated":
		set["job"] = "kubernetes-pods"
	}
	switch w.convention["target"] {
	case "pod":
		delete(set, "node")
		delete(set, "container")
	case "prefixed":
		set["kubernetes_namespace"], set["kubernetes_pod_name"], set["app"] = set["namespace"], set["pod"], pool
		for _, l := range []string{"namespace", "pod", "node", "container", "service", "endpoint"} {
			delete(set, l)
		}
	case "address":
		for _, l := range []string{"namespace", "pod", "node", "container", "service", "endpoint"} {
			delete(set, l)
		}
	}
	return set
}

func isWorker(t lab.Target) bool { return strings.HasPrefix(t.Path, "/worker/") }

// poolOf returns the Deployment of a pod of the lab: its name without two hashes.
func poolOf(pod string) string {
	parts := strings.Split(pod, "-")
	return strings.Join(parts[:max(1, len(parts)-2)], "-")
}

// sampleLabels returns the labels of a sample. The lab has already added its own target's labels,
// and moved those of the page with the same names to exported_….
func (w *world) sampleLabels(t lab.Target, set map[string]string, metric string, pairs []*dto.LabelPair) map[string]string {
	all := map[string]string{}
	for _, l := range pairs {
		all[l.GetName()] = l.GetValue()
	}
	switch {
	case isWorker(t):
		for name := range t.Labels {
			delete(all, name)
		}
		maps.Copy(all, set)
	case t.Job == "dcgm":
		w.gpuLabels(all)
	case t.Job == "kube" && w.convention["kubernetes"] == "exported" && strings.HasPrefix(metric, "container_"):
		// The kubelet's target has a namespace, but no pod.
		all["exported_namespace"], all["namespace"], all["service"] = all["namespace"], "kube-system", "kubelet"
	case t.Job == "kube" && w.convention["kubernetes"] == "exported":
		for _, name := range []string{"namespace", "pod", "node", "container", "service"} {
			if v := all[name]; v != "" {
				all["exported_"+name] = v
				delete(all, name)
			}
		}
		all["namespace"], all["pod"], all["container"] = "monitoring", "kube-state-metrics-6f8d9c7b5-qwert", "kube-state-metrics"
	}
	return all
}

func (w *world) gpuLabels(all map[string]string) {
	workload := []string{"pod", "namespace", "container"}
	switch w.convention["gpu"] {
	case "honored":
		for _, name := range workload {
			if v := all["exported_"+name]; v != "" {
				all[name] = v
				delete(all, "exported_"+name)
			} else {
				delete(all, name)
			}
		}
	case "unmapped":
		for _, name := range workload {
			delete(all, "exported_"+name)
		}
	}
}

// platform returns the targets that every cluster with kube-prometheus has: kubelets, node
// exporters and Prometheus itself.
func platform(f *lab.Fleet) []lab.Page {
	var out []lab.Page
	add := func(labels map[string]string) {
		out = append(out, lab.Page{Target: lab.Target{Job: "platform", Labels: labels}, Families: []*dto.MetricFamily{}})
	}
	for i, n := range f.Nodes() {
		host := "10.10.0." + strconv.Itoa(10+i)
		add(map[string]string{"job": "kubelet", "instance": host + ":10250", "namespace": "kube-system", "service": "kubelet",
			"node": n.Name, "metrics_path": "/metrics/cadvisor"})
		add(map[string]string{"job": "node-exporter", "instance": host + ":9100", "namespace": "monitoring",
			"pod": "node-exporter-" + strconv.Itoa(i), "node": n.Name, "service": "node-exporter"})
	}
	add(map[string]string{"job": "prometheus", "instance": "10.42.0.7:9090", "namespace": "monitoring", "pod": "prometheus-k8s-0"})
	return out
}
