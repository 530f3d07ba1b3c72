package prometheus

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"paramedic/rules/enrich"
	"paramedic/rules/enrich/engine"
	"paramedic/state"
)

// BenchmarkGather measures one gathering over 64 workers. The answers of Prometheus are prepared,
// so that it measures only the bot's work. It also reports the size of the evidence, which is
// stored.
func BenchmarkGather(b *testing.B) {
	s := &store{}
	for i := range 64 {
		for n := range 40 {
			at := now.Add(time.Duration(n-39) * 15 * time.Second)
			ingestB(b, s, workerPage(i, n), map[string]string{"instance": fmt.Sprintf("10.0.0.%d:8000", i), "namespace": "llm",
				"pod": fmt.Sprintf("vllm-llama-7d9f8b6c5-aa%03d", i)}, at)
		}
	}
	srv := httptest.NewServer(remember(&fakeAPI{t: b, store: s}))
	defer srv.Close()
	client, err := New(Config{URL: srv.URL})
	if err != nil {
		b.Fatal(err)
	}
	g := enrich.New(enrich.Config{Clusters: map[string]enrich.Cluster{"default": {Prometheus: client}}, Signals: builtIn(b),
		Deadline: time.Hour})
	gather(b, g)
}

// BenchmarkNative measures the same on pages that were scraped directly, with the 40 points of a
// chart.
func BenchmarkNative(b *testing.B) {
	n := 0
	clock := &tickClock{}
	var targets []engine.Target
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var i int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d/metrics", &i)
		fmt.Fprint(w, workerPage(i, n))
	}))
	defer srv.Close()
	for i := range 64 {
		targets = append(targets, engine.Target{URL: fmt.Sprintf("%s/%d/metrics", srv.URL, i),
			Labels: map[string]string{"instance": fmt.Sprintf("10.0.0.%d:8000", i), "namespace": "llm",
				"pod": fmt.Sprintf("vllm-llama-7d9f8b6c5-aa%03d", i)}})
	}
	c := engine.New(engine.Config{Targets: targets, Signals: builtIn(b), Clock: clock})
	for n = range 40 {
		clock.set(now.Add(time.Duration(n-39) * 15 * time.Second))
		c.Scrape(b.Context())
	}
	gather(b, enrich.New(enrich.Config{Clusters: map[string]enrich.Cluster{"default": {Engines: c}}, Signals: builtIn(b),
		Deadline: time.Hour}))
}

func gather(b *testing.B, g *enrich.Gatherer) {
	var ev state.Evidence
	request := enrich.Request{Cluster: "default", Scope: state.Scope{Namespace: "llm", Pool: "vllm-llama"}, Now: now,
		Onset: now.Add(-10 * time.Minute)}
	g.Gather(b.Context(), request)
	for b.Loop() {
		ev = g.Gather(b.Context(), request)
	}
	body, err := json.Marshal(ev)
	if err != nil || len(ev.Workers) != 64 {
		b.Fatalf("%d workers, %v, missing %v", len(ev.Workers), err, ev.Missing)
	}
	b.ReportMetric(float64(len(body)), "evidence-B")
	b.ReportMetric(float64(len(ev.Samples)), "samples")
}

// remember repeats the first answer to each request.
func remember(next http.Handler) http.Handler {
	answers := map[string][]byte{}
	var mu = make(chan struct{}, 1)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		key := r.URL.Path + r.Form.Encode()
		mu <- struct{}{}
		body, ok := answers[key]
		if !ok {
			rec := httptest.NewRecorder()
			next.ServeHTTP(rec, r)
			body = rec.Body.Bytes()
			answers[key] = body
		}
		<-mu
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	})
}

func ingestB(b *testing.B, s *store, page string, target map[string]string, at time.Time) {
	b.Helper()
	if err := ingestPage(s, page, target, at); err != nil {
		b.Fatal(strings.TrimSpace(err.Error()))
	}
}
