package scrape

import (
	"encoding/json"
	"fmt"
	"net/http"

	"paramedic/lab"
)

// Paths returns the paths of the fleets' present pages on [Pages].
func Paths(fleets []*lab.Fleet) []string {
	var out []string
	for _, f := range fleets {
		for _, t := range f.Targets() {
			out = append(out, below(f, fleets)+t.Path)
		}
	}
	return out
}

// Pages serves the fleets to a real Prometheus: their pages with the labels of relabelling, a list
// of the pages at /, and at /targets the same list for Prometheus's http_sd_configs. The job that
// reads it needs honor_labels. The pages of several fleets are below their pools' names.
func Pages(fleets []*lab.Fleet) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		for _, path := range Paths(fleets) {
			fmt.Fprintln(w, path)
		}
	})
	mux.HandleFunc("GET /targets", func(w http.ResponseWriter, r *http.Request) { discover(w, r.Host, fleets) })
	for _, f := range fleets {
		prefix := below(f, fleets)
		mux.Handle(prefix+"/", http.StripPrefix(prefix, Handler(f, Config{TargetLabels: true})))
	}
	return mux
}

// below returns the prefix of a fleet's paths beside others.
func below(f *lab.Fleet, of []*lab.Fleet) string {
	if len(of) == 1 {
		return ""
	}
	return "/" + f.Deployment().Name
}

// discover answers as the service discovery of Prometheus expects. Every page is at the host that
// the request names.
func discover(w http.ResponseWriter, host string, fleets []*lab.Fleet) {
	type group struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	groups := []group{}
	for _, f := range fleets {
		for _, t := range f.Targets() {
			t.Labels["__metrics_path__"] = below(f, fleets) + t.Path
			groups = append(groups, group{[]string{host}, t.Labels})
		}
	}
	body, err := json.Marshal(groups)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(body)
}
