package lab

import (
	"fmt"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// A Target is one page to scrape, as service discovery lists it.
type Target struct {
	Job    string            // vllm (sglang, dynamo-worker, trtllm), dcgm, epp (frontend), client, kube
	Path   string            // on Fleet.Handler
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
	t := f.cfg.Kind.defaults()
	for _, w := range f.workers {
		if w.phase == podPending {
			continue
		}
		out = append(out, Target{Job: t.job, Path: "/worker/" + w.name + "/metrics", Labels: map[string]string{
			"job": t.job, "instance": fmt.Sprintf("%s:%d", w.ip, t.port), "namespace": f.cfg.Namespace, "pod": w.name, "node": w.node.name,
			"container": t.container,
		}})
	}
	for i, n := range f.nodes {
		out = append(out, Target{Job: "dcgm", Path: "/dcgm/" + n.name + "/metrics", Labels: map[string]string{
			"job": "dcgm-exporter", "instance": n.name + ":9400", "namespace": "gpu-operator",
			"pod": "dcgm-exporter-" + podLetters[i%20:i%20+5], "node": n.name, "container": "exporter",
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

// page returns a target's families, or nil if its scrape fails.
func (f *Fleet) page(t Target, relabelled bool) []*dto.MetricFamily {
	var p *page
	switch t.Job {
	case f.cfg.Kind.Job():
		for _, w := range f.workers {
			if w.name == t.Labels["pod"] && !f.unseen && !w.Unseen {
				p = f.enginePage(w)
			}
		}
	case "dcgm":
		for _, n := range f.nodes {
			if n.name == t.Labels["node"] && !n.down {
				p = f.dcgmPage(n)
			}
		}
	case "client":
		p = f.clientPage()
	case "epp", "frontend":
		switch {
		case f.gateway.Unseen:
		case t.Job == "epp":
			p = f.gatewayPage()
		default:
			p = f.frontendPage()
		}
	default:
		p = f.kubePage()
	}
	if p == nil {
		return nil
	}
	if relabelled {
		relabel(p.families, t.Labels, t.Honor)
	}
	return f.disturb(t, p.families)
}

// A HandlerConfig sets how pages are served.
type HandlerConfig struct {
	// TargetLabels adds Target.Labels to every sample, for a reader without relabelling.
	TargetLabels bool
}

// Handler serves every page of the fleet: /worker/<pod>/metrics, /worker/<pod>/health,
// /dcgm/<node>/metrics, /gateway/metrics, /client/metrics and /kube/metrics. It lists the present
// paths at /. A target that does not listen answers 503, and one whose metrics fail 500.
func (f *Fleet) Handler(c HandlerConfig) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /worker/{pod}/metrics", func(w http.ResponseWriter, r *http.Request) {
		f.serve(w, f.cfg.Kind.Job(), "pod", r.PathValue("pod"), c.TargetLabels)
	})
	mux.HandleFunc("GET /worker/{pod}/health",
		func(w http.ResponseWriter, r *http.Request) { f.health(w, r.PathValue("pod")) })
	mux.HandleFunc("GET /dcgm/{node}/metrics", func(w http.ResponseWriter, r *http.Request) {
		f.serve(w, "dcgm", "node", r.PathValue("node"), c.TargetLabels)
	})
	mux.HandleFunc("GET /gateway/metrics", func(w http.ResponseWriter, _ *http.Request) {
		t := f.gatewayTarget()
		f.serve(w, t.Job, "job", t.Labels["job"], c.TargetLabels)
	})
	mux.HandleFunc("GET /client/metrics",
		func(w http.ResponseWriter, _ *http.Request) { f.serve(w, "client", "job", "chat", c.TargetLabels) })
	mux.HandleFunc("GET /kube/metrics", func(w http.ResponseWriter, _ *http.Request) {
		f.serve(w, "kube", "job", "kube-state-metrics", c.TargetLabels)
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		for _, t := range f.Targets() {
			fmt.Fprintln(w, t.Path)
		}
	})
	return mux
}

// WorkerHandler serves one worker as its own port would: /metrics and /health.
func (f *Fleet) WorkerHandler(pod string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics",
		func(w http.ResponseWriter, _ *http.Request) { f.serve(w, f.cfg.Kind.Job(), "pod", pod, false) })
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { f.health(w, pod) })
	return mux
}

func (f *Fleet) serve(w http.ResponseWriter, job, label, value string, relabelled bool) {
	f.mu.Lock()
	broken := f.unseen && job == f.cfg.Kind.Job()
	var families []*dto.MetricFamily
	for _, t := range f.targets() {
		if t.Job == job && t.Labels[label] == value {
			families = f.page(t, relabelled)
		}
	}
	f.mu.Unlock()
	if families == nil && broken {
		http.Error(w, "the processes' metrics could not be collected", http.StatusInternalServerError)
		return
	}
	if families == nil {
		http.Error(w, "nothing listens there now", http.StatusServiceUnavailable)
		return
	}
	body, err := encode(families)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Write(body)
}

// health answers as vLLM does: 200 while the API server runs, also during a hang, and 503 after the
// engine died.
func (f *Fleet) health(w http.ResponseWriter, pod string) {
	f.mu.Lock()
	ok := false
	for _, c := range f.workers {
		ok = ok || c.name == pod && c.phase == podReady
	}
	f.mu.Unlock()
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}
