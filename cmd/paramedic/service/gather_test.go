package service

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"paramedic/cmd/paramedic/config"
	"paramedic/rules/enrich"
	"paramedic/rules/enrich/traces/tracestest"
	"paramedic/state"
)

// The bot reads traces from the configured store, with a token from the environment.
func TestBotReadsConfiguredTraces(t *testing.T) {
	t.Setenv("PARAMEDIC_TEST_TEMPO_TOKEN", "t0ken")
	store := &tracestest.Store{Token: "t0ken"}
	now := time.Now().UTC()
	for i := range 30 {
		store.Add(tracestest.VLLM(tracestest.Request{N: i, End: now.Add(-time.Duration(i) * time.Second), Prompt: 1000, Output: 100,
			Resource: map[string]any{"service.name": "vllm-llama"},
			Times:    tracestest.Times{Queue: 6 * time.Second, Prefill: time.Second, Decode: 3 * time.Second}})...)
	}
	for key, h := range map[string]http.Handler{"tempo_url": store.Tempo(), "jaeger_url": store.Jaeger()} {
		server := httptest.NewServer(h)
		defer server.Close()
		cfg, err := config.Parse("paramedic.yaml", []byte("clusters:\n  - name: prod\n    traces: {"+key+": "+server.URL+
			", bearer_token_file: \"${PARAMEDIC_TEST_TEMPO_TOKEN}\"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		gather, _, err := NewGatherer(cfg, GathererDeps{})
		if err != nil {
			t.Fatal(err)
		}
		ev := gather.Gather(t.Context(), enrich.Request{Cluster: "prod",
			Scope: state.Scope{Cluster: "prod", Namespace: "llm", Pool: "vllm-llama"}, Onset: now, Now: now})
		got := map[string]float64{}
		for _, s := range ev.Samples {
			got[s.Signal] = s.Value
		}
		if got["trace_requests"] != 30 || got["trace_queue_time"] != 6 {
			t.Errorf("%s: %v; refused: %q", key, got, store.Refused())
		}
	}
}

// Prometheus receives a token that the configuration takes from the environment.
func TestTokenFromTheEnvironmentReachesPrometheus(t *testing.T) {
	t.Setenv("PARAMEDIC_TEST_PROMETHEUS_TOKEN", "t0ken")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer t0ken" {
			http.Error(w, "unauthorised", http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[]}}`)
	}))
	defer server.Close()
	cfg, err := config.Parse("paramedic.yaml", []byte("clusters:\n  - name: prod\n    prometheus: {url: "+server.URL+
		", bearer_token_file: \"${PARAMEDIC_TEST_PROMETHEUS_TOKEN}\"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	gather, _, err := NewGatherer(cfg, GathererDeps{})
	if err != nil {
		t.Fatal(err)
	}
	if err := gather.Ping(t.Context())["prod/prometheus"]; err != nil {
		t.Error(err)
	}
}
