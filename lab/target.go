package lab

import (
	"fmt"
	"time"

	dto "github.com/prometheus/client_model/go"

	"paramedic/lab/engine"
)

// workerPath is the start of the path of a worker's page.
const workerPath = "/worker/"

// A Target is one page to scrape, as service discovery lists it.
type Target struct {
	Job    string            // vllm (sglang, dynamo-worker, trtllm), dcgm, epp (frontend), client, kube
	Path   string            // of its page, on lab/scrape and for Fleet.Page
	Labels map[string]string // added by relabelling: job, instance, namespace, pod, node, container
	Honor  bool              // honor_labels of the job
}

// Targets returns the pages. A worker that loads its model is a target too; its scrapes fail.
func (f *Fleet) Targets() []Target {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.targets()
}

func (f *Fleet) targets() []Target {
	var out []Target
	t := f.cfg.Kind.Defaults()
	for _, w := range f.workers {
		if w.phase == podPending {
			continue
		}
		out = append(out, Target{Job: t.Job, Path: workerPath + w.name + "/metrics", Labels: map[string]string{
			"job": t.Job, "instance": fmt.Sprintf("%s:%d", w.ip, t.Port), "namespace": f.cfg.Namespace, "pod": w.name, "node": w.node.Name,
			"container": t.Container,
		}})
	}
	for i, n := range f.nodes {
		out = append(out, Target{Job: "dcgm", Path: "/dcgm/" + n.Name + "/metrics", Labels: map[string]string{
			"job": "dcgm-exporter", "instance": n.Name + ":9400", "namespace": "gpu-operator",
			"pod": "dcgm-exporter-" + podLetters[i%20:i%20+5], "node": n.Name, "container": "exporter",
		}})
	}
	out = append(out, f.gatewayTarget(), f.clientTarget())
	return append(out, Target{Job: "kube", Path: "/kube/metrics", Honor: true,
		Labels: map[string]string{"job": "kube-state-metrics", "instance": "kube-state-metrics:8080"}})
}

// A Page is one scraped target; its Families are nil if the scrape failed.
type Page struct {
	Target   Target
	Families []*dto.MetricFamily
}

// Scrape returns every target's page at the fleet's present, with the labels of relabelling; and
// that moment, also in seconds since the fleet's start.
func (f *Fleet) Scrape() (at time.Time, since float64, pages []Page) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.targets() {
		pages = append(pages, Page{Target: t, Families: f.page(t, true)})
	}
	return f.at(f.now), f.now, pages
}

// gatewayTarget returns the picker as service discovery lists it.
func (f *Fleet) gatewayTarget() Target {
	if f.cfg.Kind == engine.Dynamo {
		return f.frontendTarget()
	}
	return Target{Job: "epp", Path: "/gateway/metrics", Labels: map[string]string{
		"job": "epp", "instance": fmt.Sprintf("10.42.9.%d:9090", 10+len(f.cfg.Pool)), "namespace": f.cfg.Namespace, "pod": f.gateway.Pod,
		"container": "epp",
	}}
}

// frontendTarget returns the frontend as service discovery lists it.
func (f *Fleet) frontendTarget() Target {
	return Target{Job: "frontend", Path: "/gateway/metrics", Labels: map[string]string{
		"job": "dynamo-frontend", "instance": fmt.Sprintf("10.42.9.%d:8000", 10+len(f.cfg.Pool)), "namespace": f.cfg.Namespace,
		"pod": f.gateway.Pod, "container": "main",
	}}
}

// clientTarget returns the chat service as service discovery lists it.
func (f *Fleet) clientTarget() Target {
	return Target{Job: "client", Path: "/client/metrics", Labels: map[string]string{
		"job": "chat", "instance": fmt.Sprintf("10.%d.8.7:9102", 42+f.cfg.Index), "namespace": f.cfg.Namespace, "container": "chat",
	}}
}
