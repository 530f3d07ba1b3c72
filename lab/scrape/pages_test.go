package scrape

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

	"paramedic/lab"
	"paramedic/lab/drill"
)

// Prometheus gets the address, path and labels of every page of both pools.
func TestPrometheusDiscoversEveryPage(t *testing.T) {
	d, err := drill.ParseDouble("engine_hang+monitoring_gap")
	if err != nil {
		t.Fatal(err)
	}
	scenarios, err := drill.NewDouble(d, 1)
	if err != nil {
		t.Fatal(err)
	}
	var fleets []*lab.Fleet
	want := map[string]lab.Target{}
	for _, s := range scenarios {
		f, err := s.Build()
		if err != nil {
			t.Fatal(err)
		}
		fleets = append(fleets, f)
		for _, target := range f.Targets() {
			want["/"+f.Deployment().Name+target.Path] = target
		}
	}
	server := httptest.NewServer(Pages(fleets))
	defer server.Close()
	resp, err := http.Get(server.URL + "/targets")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var groups []struct {
		Targets []string
		Labels  map[string]string
	}
	if err := json.NewDecoder(resp.Body).Decode(&groups); err != nil || resp.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("Prometheus refuses %v: %v", resp.Header, err)
	}
	for _, g := range groups {
		path := g.Labels["__metrics_path__"]
		delete(g.Labels, "__metrics_path__")
		if len(g.Targets) != 1 || !maps.Equal(g.Labels, want[path].Labels) {
			t.Errorf("%s at %v has %v, want %v", path, g.Targets, g.Labels, want[path].Labels)
			continue
		}
		page, err := http.Get("http://" + g.Targets[0] + path)
		if err != nil {
			t.Fatal(err)
		}
		page.Body.Close()
		if page.StatusCode != http.StatusOK {
			t.Errorf("%s answers %s", path, page.Status)
		}
		delete(want, path)
	}
	if len(want) > 0 {
		t.Errorf("not listed: %v", want)
	}
}
