package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"paramedic/cmd/paramedic/score"
	"paramedic/lab"
	"paramedic/lab/alerting"
	"paramedic/lab/clock"
	"paramedic/lab/drill"
	"paramedic/lab/engine"
	"paramedic/lab/scrape"
)

// Refused alerts do not count as accepted, and redirects are not followed.
func TestStormCountsAcceptedAlerts(t *testing.T) {
	var asked atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/hook", func(w http.ResponseWriter, r *http.Request) {
		switch asked.Add(1) {
		case 1:
			http.Error(w, "too much", http.StatusTooManyRequests)
		case 2:
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}
	})
	mux.HandleFunc("/elsewhere", func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") })
	server := httptest.NewServer(mux)
	defer server.Close()
	var out bytes.Buffer
	c := &cli{out: &out}
	err := c.storm(t.Context(), score.Storm{URL: server.URL + "/hook", Alerts: 50, PerPayload: 10, Senders: 2, Pods: 4})
	if err == nil || !strings.Contains(err.Error(), "20 alerts not accepted") {
		t.Errorf("error %v", err)
	}
	if !strings.HasPrefix(out.String(), "30 of 50 alerts accepted, in 5 payloads") {
		t.Error(out.String())
	}
}

// A fleet that is too fast for the machine falls behind its clock. It still ends when its context
// does.
func TestOverloadedLabEndsOnCancel(t *testing.T) {
	for _, webhook := range []string{"", "http://127.0.0.1:1/nobody"} {
		scenario, err := drill.New(lab.KVExhaustion, 1)
		if err != nil {
			t.Fatal(err)
		}
		fleet, err := scenario.Resize(16).Build()
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		c := &cli{out: io.Discard, err: io.Discard}
		clock := clock.New(fleet.Start(), 1e8)
		go func() { ended <- c.labRun(ctx, []*lab.Fleet{fleet}, clock, "127.0.0.1:0", webhook) }()
		for fleet.Now().Sub(fleet.Start()) < time.Minute {
			<-time.After(time.Millisecond)
		}
		stop()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("it goes on: %s behind its clock", clock.Now().Sub(fleet.Now()))
		}
	}
}

// Clients of a running fleet use the machine's clock. Its pods started just now, even with diurnal
// traffic, and its fault comes when the caller wants it.
func TestLabRunStartsAtWallClockTime(t *testing.T) {
	for _, traffic := range []string{"poisson", "diurnal"} {
		before := time.Now().Truncate(time.Second)
		scenarios, err := labBeginning(lab.KVExhaustion, 1, 25*time.Minute, score.Options{Traffic: traffic})
		if err != nil {
			t.Fatal(err)
		}
		fleet, err := scenarios[0].Build()
		if err != nil {
			t.Fatal(err)
		}
		if at := scenarios[0].Faults[0].At; at != 25*time.Minute {
			t.Errorf("%s: the fault comes after %s", traffic, at)
		}
		if begun := fleet.Start(); begun.Before(before) || begun.After(time.Now()) {
			t.Errorf("%s: it is %s, and the fleet began at %s", traffic, before, begun)
		}
	}
}

// Two faults in one pool are one fleet.
func TestFleetTakesTwoFaults(t *testing.T) {
	scenarios, err := labScenarios("engine_hang+host_memory_leak@one", 1)
	if err != nil {
		t.Fatal(err)
	}
	faults := scenarios[0].Faults
	if len(scenarios) != 1 || len(faults) != 2 || faults[0].Name != lab.EngineHang || faults[1].Name != lab.HostMemoryLeak ||
		faults[0].Worker == faults[1].Worker {
		t.Errorf("%d scenarios, faults %+v", len(scenarios), faults)
	}
	if _, err := labScenarios("engine_hang+nothing@one", 1); err == nil || !strings.Contains(err.Error(), "is not FAULT+FAULT") {
		t.Errorf("a fault that there is none of: %v", err)
	}
}

// Two faults in two pools are two fleets of one cluster. Each pool has its own pages, and one
// Alertmanager reports both.
func TestTwoPoolsRunTogether(t *testing.T) {
	for _, kind := range []engine.Kind{engine.VLLM, engine.SGLang} {
		scenarios, err := labBeginning("engine_hang+monitoring_gap", 1, healthyBefore, score.Options{Kind: kind})
		if err != nil {
			t.Fatal(err)
		}
		var fleets []*lab.Fleet
		pools := map[string]bool{}
		for _, s := range scenarios {
			f, err := s.Build()
			if err != nil {
				t.Fatal(err)
			}
			fleets = append(fleets, f)
			pools[f.Deployment().Name] = true
		}
		if len(pools) != 2 || !fleets[0].Start().Equal(fleets[1].Start()) {
			t.Fatalf("%s: pools %v, begun at %s and %s", kind, pools, fleets[0].Start(), fleets[1].Start())
		}
		get := func(path string) (int, string) {
			rec := httptest.NewRecorder()
			scrape.Pages(fleets).ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
			return rec.Code, rec.Body.String()
		}
		_, list := get("/")
		paths := strings.Fields(list)
		if slices.Sort(paths); len(slices.Compact(slices.Clone(paths))) != len(fleets[0].Targets())+len(fleets[1].Targets()) {
			t.Errorf("%s: the pages are\n%s", kind, list)
		}
		for pool := range pools {
			if _, page := get("/" + pool + "/kube/metrics"); !strings.Contains(page, `deployment="`+pool+`"`) {
				t.Errorf("%s: the page of %s is not its own", kind, pool)
			}
		}
		for _, path := range paths {
			if code, _ := get(path); code != http.StatusOK {
				t.Errorf("%s: %s answers %d", kind, path, code)
			}
		}
		told := map[string]bool{}
		hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			var w alerting.Webhook
			if err := json.NewDecoder(r.Body).Decode(&w); err != nil {
				t.Error(err)
			}
			for _, a := range w.Alerts {
				told[a.Labels["model_name"]+a.Labels["pod"]] = true
			}
		}))
		world := alerting.NewWorld(alerting.AlertmanagerConfig{URL: hook.URL, Client: hook.Client()}, fleets...)
		world.Advance(t.Context(), fleets[0].Start().Add(12*time.Minute))
		hook.Close()
		for pool := range pools {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(told)), func(about string) bool { return strings.Contains(about, pool+"-") }) {
				t.Errorf("%s: nothing was told of %s: %v", kind, pool, told)
			}
		}
	}
}
