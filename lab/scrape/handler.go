package scrape

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"paramedic/lab"
	"paramedic/lab/metrics"
)

// A Config sets how pages are served.
type Config struct {
	// TargetLabels adds [lab.Target.Labels] to every sample, for a reader without relabelling.
	TargetLabels bool
}

// Handler serves every page of the fleet: /worker/<pod>/metrics, /worker/<pod>/health,
// /dcgm/<node>/metrics, /gateway/metrics, /client/metrics and /kube/metrics. It lists the present
// paths at /. A target that does not listen answers 503, and one whose metrics fail 500.
func Handler(f *lab.Fleet, c Config) http.Handler {
	mux := http.NewServeMux()
	for _, pattern := range []string{"/worker/{pod}/metrics", "/dcgm/{node}/metrics", "/gateway/metrics", "/client/metrics",
		"/kube/metrics"} {
		mux.HandleFunc("GET "+pattern, func(w http.ResponseWriter, r *http.Request) { serve(w, f, r.URL.Path, c.TargetLabels) })
	}
	mux.HandleFunc("GET /worker/{pod}/health", func(w http.ResponseWriter, r *http.Request) { health(w, f, r.PathValue("pod")) })
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		for _, t := range f.Targets() {
			fmt.Fprintln(w, t.Path)
		}
	})
	return mux
}

// Worker serves one worker as its own port would: /metrics and /health.
func Worker(f *lab.Fleet, pod string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) { serve(w, f, "/worker/"+pod+"/metrics", false) })
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { health(w, f, pod) })
	return mux
}

// serve answers with the page at a path of the fleet.
func serve(w http.ResponseWriter, f *lab.Fleet, path string, relabelled bool) {
	families, err := f.Page(path, relabelled)
	if errors.Is(err, lab.ErrBroken) {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	body, err := metrics.Encode(families)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Write(body)
}

// health answers as vLLM does: 200 while the API server runs, also during a hang, and 503 after the
// engine died.
func health(w http.ResponseWriter, f *lab.Fleet, pod string) {
	if !slices.ContainsFunc(f.Pods(), func(p lab.Pod) bool { return p.Name == pod && p.Ready }) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}
