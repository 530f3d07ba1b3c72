package traces

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"paramedic/rules/enrich"
	"paramedic/rules/enrich/traces/tracestest"
	"paramedic/rules/signals"
	"paramedic/state"
)

var now = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

const s = time.Second

// serve serves a handler until the test ends.
func serve(t testing.TB, h http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

// stores returns clients for one store, by Tempo's and by Jaeger's API.
func stores(t testing.TB, store *tracestest.Store) map[string]*Client {
	t.Helper()
	out := map[string]*Client{}
	for name, c := range map[string]Config{"tempo": {TempoURL: serve(t, store.Tempo())}, "jaeger": {JaegerURL: serve(t, store.Jaeger())}} {
		if store.Token != "" {
			c.Token = func() (string, error) { return store.Token, nil }
		}
		client, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = client
	}
	return out
}

func query(t *testing.T, scope state.Scope) enrich.Query {
	t.Helper()
	builtin, err := signals.LoadSignals()
	if err != nil {
		t.Fatal(err)
	}
	return enrich.Query{Cluster: "prod", Scope: scope, Onset: now, Now: now, Signals: builtin}
}

// values returns a reading's samples by signal. It expects one entity.
func values(t *testing.T, r enrich.Reading) map[string]state.Sample {
	t.Helper()
	out := map[string]state.Sample{}
	for _, s := range r.Samples {
		if have, ok := out[s.Signal]; ok {
			t.Fatalf("two samples of %s: %+v and %+v", s.Signal, have, s)
		}
		out[s.Signal] = s
	}
	return out
}

func wantValues(t *testing.T, r enrich.Reading, want map[string]float64) map[string]state.Sample {
	t.Helper()
	got := values(t, r)
	for id, v := range want {
		s, ok := got[id]
		if !ok || math.Abs(s.Value-v) > 1e-6 {
			t.Errorf("%s is %v (there: %v), want %v; failed: %v", id, s.Value, ok, v, r.Failed[id])
		}
	}
	return got
}

// requests returns n requests of an engine, spread over ten minutes.
func requests(n int, times tracestest.Times, resource map[string]any) []tracestest.Request {
	var out []tracestest.Request
	for i := range n {
		out = append(out, tracestest.Request{N: i + 1, End: now.Add(-time.Duration(i) * 10 * s), Times: times, Prompt: 1000, Output: 101,
			Resource: resource})
	}
	return out
}

var llama = state.Scope{Cluster: "prod", Namespace: "llm", Pool: "vllm-llama", Model: "llama-70b"}

func TestTracedRequestsGiveTimesPerPhase(t *testing.T) {
	store := &tracestest.Store{Token: "t0ken"}
	for _, r := range requests(40, tracestest.Times{Queue: 4 * s, Prefill: s, Decode: 5 * s},
		map[string]any{"service.name": "vllm-llama"}) {
		store.Add(tracestest.VLLM(r)...)
	}
	slow := tracestest.Request{N: 999, End: now.Add(-s), Times: tracestest.Times{Queue: 45 * s, Prefill: 42 * s, Decode: 5 * s},
		Prompt: 31200, Output: 101,
		Resource: map[string]any{"service.name": "vllm-llama"}}
	store.Add(tracestest.VLLM(slow)...)
	for name, c := range stores(t, store) {
		got := wantValues(t, c.Read(t.Context(), query(t, llama)), map[string]float64{"trace_requests": 41, "trace_queue_time": 5,
			"trace_prefill_time": 2,
			"trace_decode_time":  5, "trace_itl_p50": 0.05, "trace_itl_p95": 0.05, "trace_slowest": 92})
		if want := "31200 prompt tokens, queue 45.0 s, prefill 42.0 s, decode 5.0 s, trace 4bf92f3577b34da6a3ce9000000003e7"; got["trace_slowest"].Text != want {
			t.Errorf("%s: the slowest is %q", name, got["trace_slowest"].Text)
		}
		if e := got["trace_queue_time"].Entity; e != (state.Entity{Cluster: "prod", Namespace: "llm", Pool: "vllm-llama"}) {
			t.Errorf("%s: they are of %+v", name, e)
		}
		if at := got["trace_queue_time"].At; !at.Equal(now) {
			t.Errorf("%s: measured at %s, want the newest request's end", name, at)
		}
	}
	if r := store.Refused(); len(r) > 0 {
		t.Error("refused:", r)
	}
}

// Engines use the same names differently: SGLang's prefill attribute includes the queue, and V0 has
// no prefill attribute.
func TestAttributesAreReadPerEngine(t *testing.T) {
	times := tracestest.Times{Queue: 3 * s, Prefill: 2 * s, Decode: 10 * s}
	want := map[string]float64{"trace_requests": 30, "trace_queue_time": 3, "trace_prefill_time": 2, "trace_decode_time": 10,
		"trace_itl_p50": 0.1}
	spans := map[string]func(tracestest.Request) []tracestest.Span{
		"vllm":    tracestest.VLLM,
		"vllm v0": func(r tracestest.Request) []tracestest.Span { return tracestest.VLLMV0(r, "/models/llama") },
		"sglang":  func(r tracestest.Request) []tracestest.Span { return tracestest.SGLang(r, "Llama-70B", 250, 4) },
	}
	for engine, of := range spans {
		store := &tracestest.Store{}
		for _, r := range requests(30, times, map[string]any{"service.name": "sglang", "k8s.namespace.name": "llm",
			"k8s.pod.name": "vllm-llama-7d9f8b6c5d-x2k4q"}) {
			store.Add(of(r)...)
			store.Add(tracestest.Routed(r, s/2))
		}
		want["trace_route_time"] = 0.5
		for kind, c := range stores(t, store) {
			got := wantValues(t, c.Read(t.Context(), query(t, llama)), want)
			if hit, ok := got["trace_prefix_hit_ratio"]; ok != (engine == "sglang") || ok && hit.Value != 0.25 {
				t.Errorf("%s in %s: prefix hits %v, %v", engine, kind, hit.Value, ok)
			}
		}
		if r := store.Refused(); len(r) > 0 {
			t.Error("refused:", r)
		}
	}
}

func TestRequestsOfOtherPoolsAreNotCounted(t *testing.T) {
	mine, other := tracestest.Times{Queue: s, Prefill: s, Decode: s}, tracestest.Times{Queue: 60 * s, Prefill: s, Decode: s}
	for name, place := range map[string][2]map[string]any{
		"by service": {{"service.name": "vllm-llama"}, {"service.name": "vllm-qwen"}},
		"by pod": {{"service.name": "sglang", "k8s.pod.name": "vllm-llama-7d9f8b6c5d-x2k4q"}, {"service.name": "sglang",
			"k8s.pod.name": "vllm-llama-big-7d9f8b6c5d-x2k4q"}},
		"by deployment": {{"service.name": "sglang", "k8s.deployment.name": "vllm-llama"}, {"service.name": "sglang",
			"k8s.deployment.name": "vllm-llama-big"}},
		"by namespace": {{"service.name": "vllm-llama", "k8s.namespace.name": "llm"},
			{"service.name": "vllm-llama", "k8s.namespace.name": "staging"}},
	} {
		store := &tracestest.Store{}
		for i, r := range append(requests(25, mine, place[0]), requests(25, other, place[1])...) {
			r.N = i + 1
			store.Add(tracestest.VLLM(r)...)
		}
		for kind, c := range stores(t, store) {
			t.Run(name+" in "+kind, func(t *testing.T) {
				wantValues(t, c.Read(t.Context(), query(t, llama)), map[string]float64{"trace_requests": 25, "trace_queue_time": 1})
				if name == "by pod" {
					got := c.Read(t.Context(), query(t, state.Scope{Namespace: "llm", Pool: "vllm-mistral"}))
					if len(got.Samples) > 0 || !strings.HasSuffix(got.Failed["trace_requests"],
						" has 50 traced requests, none of this pool") {
						t.Errorf("another pool: %+v, %v", got.Samples, got.Failed["trace_requests"])
					}
				}
			})
		}
	}
}

// A pool never gets the times of requests that may belong to another. The reason is reported.
func TestRequestsWithoutPoolAreDropped(t *testing.T) {
	store := &tracestest.Store{}
	for _, r := range requests(30, tracestest.Times{Queue: s, Prefill: s, Decode: s}, map[string]any{"service.name": "vllm-server"}) {
		store.Add(tracestest.VLLM(r)...)
	}
	for kind, c := range stores(t, store) {
		got := c.Read(t.Context(), query(t, llama))
		if len(got.Samples) > 0 || !strings.Contains(got.Failed["trace_queue_time"],
			"30 traced requests that do not name a pool: set OTEL_SERVICE_NAME to the pool's name") {
			t.Errorf("%s: %+v, %v", kind, got.Samples, got.Failed)
		}
		// If no pool is known and there is only one service, all requests count.
		wantValues(t, c.Read(t.Context(), query(t, state.Scope{Cluster: "prod", Model: "llama-70b"})),
			map[string]float64{"trace_requests": 30, "trace_queue_time": 1})
	}
	for i, r := range requests(30, tracestest.Times{Queue: 9 * s, Prefill: s, Decode: s}, map[string]any{"service.name": "another"}) {
		r.N = 100 + i
		store.Add(tracestest.VLLM(r)...)
	}
	if got := stores(t, store)["tempo"].Read(t.Context(), query(t, state.Scope{Cluster: "prod"})); len(got.Samples) > 0 {
		t.Errorf("two services were taken for one: %+v", got.Samples)
	}
}

func TestTooFewTracesGiveNoTimes(t *testing.T) {
	store := &tracestest.Store{}
	for _, r := range requests(MinRequests-1, tracestest.Times{Queue: s, Prefill: s, Decode: s},
		map[string]any{"service.name": "vllm-llama"}) {
		store.Add(tracestest.VLLM(r)...)
	}
	for kind, c := range stores(t, store) {
		got := c.Read(t.Context(), query(t, llama))
		wantValues(t, got, map[string]float64{"trace_requests": 19, "trace_slowest": 3})
		if len(got.Samples) != 2 || got.Failed["trace_queue_time"] != "only 19 traced requests in 10 minutes, 20 are needed" {
			t.Errorf("%s: %+v, %v", kind, got.Samples, got.Failed)
		}
	}
}

// Other engines write the same names in nanoseconds. Requests without a first token have invalid
// times.
func TestInconsistentTimesAreDropped(t *testing.T) {
	store := &tracestest.Store{}
	for i, r := range requests(80, tracestest.Times{Queue: s, Prefill: s, Decode: s}, map[string]any{"service.name": "vllm-llama"}) {
		r.End = now.Add(-time.Duration(i) * s)
		spans := tracestest.VLLM(r)
		switch a := spans[0].Attributes; i % 4 {
		case 3:
			a["gen_ai.latency.time_in_model_prefill"] = -0.5
		case 1:
			a["gen_ai.latency.time_in_model_prefill"] = int64(2_000_000_000)
		case 2:
			a["gen_ai.latency.time_in_model_prefill"] = -1763694000.5
		}
		store.Add(spans...)
	}
	for _, c := range stores(t, store) {
		wantValues(t, c.Read(t.Context(), query(t, llama)), map[string]float64{"trace_requests": 20, "trace_prefill_time": 1})
	}
}

func TestGatheringSendsAtMostTwoBoundedRequests(t *testing.T) {
	store := &tracestest.Store{}
	for kind, c := range stores(t, store) {
		before := len(store.Asked())
		got := c.Read(t.Context(), query(t, llama))
		if n := len(store.Asked()) - before; n > 2 {
			t.Errorf("%s was asked %d times: %q", kind, n, store.Asked())
		}
		if len(got.Failed) == 0 {
			t.Errorf("%s: nothing was found, without a reason", kind)
		}
		// One search is enough if it finds the engine's spans and no router stands before the
		// engine.
		own := state.Scope{Pool: "own"}
		for _, r := range requests(20, tracestest.Times{Queue: s, Prefill: s, Decode: s}, map[string]any{"service.name": "own"}) {
			store.Add(tracestest.VLLM(r)...)
		}
		before = len(store.Asked())
		wantValues(t, c.Read(t.Context(), query(t, own)), map[string]float64{"trace_queue_time": 1})
		if n := len(store.Asked()) - before; kind == "tempo" && n != 1 {
			t.Errorf("%s was asked %d times: %q", kind, n, store.Asked())
		}
		before = len(store.Asked())
		q := query(t, llama)
		q.Signals = q.Signals[:5] // none of traces
		if got := c.Read(t.Context(), q); len(store.Asked()) > before || len(got.Samples)+len(got.Failed) > 0 {
			t.Errorf("%s was asked for signals that it does not have: %+v", kind, got)
		}
	}
	if r := store.Refused(); len(r) > 0 {
		t.Error("refused:", r)
	}
}

// A pool's name comes from outside. It must stay inside its string in the query.
func TestNamesAreQuotedInTraceQL(t *testing.T) {
	store := &tracestest.Store{}
	hostile := "a\" } || { true } | select(span.secret) //\\`\n"
	for _, r := range requests(20, tracestest.Times{Queue: s, Prefill: s, Decode: s}, map[string]any{"service.name": hostile}) {
		store.Add(tracestest.VLLM(r)...)
	}
	for _, r := range requests(20, tracestest.Times{Queue: s, Prefill: s, Decode: s}, map[string]any{"service.name": "other"}) {
		r.N += 100
		store.Add(tracestest.VLLM(r)...)
	}
	for kind, c := range stores(t, store) {
		got := c.Read(t.Context(), query(t, state.Scope{Pool: hostile}))
		if v := values(t, got)["trace_requests"].Value; v != 20 {
			t.Errorf("%s: %v requests; %v", kind, v, got.Failed)
		}
	}
	if r := store.Refused(); len(r) > 0 {
		t.Error("refused:", r)
	}
}

func TestFailingStoreIsMissingEvidenceWithReason(t *testing.T) {
	const secret = "s3cret"
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	for name, tc := range map[string]struct {
		h    http.HandlerFunc
		says string
	}{
		"refuses": {func(w http.ResponseWriter, r *http.Request) { http.Error(w, secret, http.StatusUnauthorized) },
			" answers 401 to api/"},
		"is busy": {func(w http.ResponseWriter, r *http.Request) { http.Error(w, secret, http.StatusTooManyRequests) },
			" answers 429 to api/"},
		"redirects": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/elsewhere" {
				http.Redirect(w, r, "/elsewhere", http.StatusFound)
			}
		}, ": it redirects to another address; the bot follows no redirects"},
		"a page":  {func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "<html>"+secret) }, "with something that is not traces"},
		"garbage": {func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `{"traces":"`+secret+`","services":7}`) }, "with something that is not traces"},
		"cut off": {func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `{"traces":[{"traceID":"`) }, "with something that is not traces"},
		"oversize": {func(w http.ResponseWriter, r *http.Request) { _, _ = io.CopyN(w, zeros{}, maxAnswer+2) },
			"answer is larger than 16 MiB"},
		"slow": {func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		}, ": no answer in time"},
		"empty": {func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "{}") },
			"Tempo has no traces of requests in the last 10 minutes|Jaeger has no service named vllm-llama or sglang"},
	} {
		url := strings.Replace(serve(t, tc.h), "//", "//user:"+secret+"@", 1)
		for kind, c := range map[string]Config{"Tempo": {TempoURL: url}, "Jaeger": {JaegerURL: url}} {
			c.Token = func() (string, error) { return secret, nil }
			c.Timeout = 10 * time.Second
			if name == "slow" {
				c.Timeout = 50 * time.Millisecond
			}
			client, err := New(c)
			if err != nil {
				t.Fatal(err)
			}
			got := client.Read(t.Context(), query(t, llama)).Failed
			for _, id := range []string{"trace_requests", "trace_queue_time", "trace_slowest"} {
				ok := false
				for _, says := range strings.Split(tc.says, "|") {
					ok = ok || strings.Contains(got[id], says)
				}
				if !ok || !strings.HasPrefix(got[id], kind) || strings.Contains(got[id], secret) {
					t.Errorf("%s %s: %s: %q", kind, name, id, got[id])
				}
			}
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// A trace store that hangs does not delay the other sources or lose their evidence.
func TestHangingStoreDoesNotDelayGathering(t *testing.T) {
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}))
	client, err := New(Config{TempoURL: url, Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	q := query(t, llama)
	gather := enrich.New(enrich.Config{Clusters: map[string]enrich.Cluster{"prod": {Prometheus: one{}, Traces: client}}, Signals: q.Signals,
		Deadline: 50 * time.Millisecond})
	ev := gather.Gather(t.Context(), enrich.Request{Cluster: "prod", Scope: llama, Onset: now, Now: now})
	if len(ev.Samples) != 1 || ev.Samples[0].Signal != "kv_usage" {
		t.Errorf("samples: %+v", ev.Samples)
	}
	reasons := map[string]string{}
	for _, m := range ev.Missing {
		reasons[m.Signal] = m.Reason
	}
	if reasons["trace_queue_time"] != "Tempo: no answer in time" {
		t.Errorf("missing: %q", reasons["trace_queue_time"])
	}
}

// one is a source with one sample.
type one struct{}

func (one) Read(context.Context, enrich.Query) enrich.Reading {
	return enrich.Reading{Samples: []state.Sample{{Signal: "kv_usage", Entity: state.Entity{Cluster: "prod", Namespace: "llm",
		Pod: "vllm-llama-7d9f8b6c5d-x2k4q", Model: "llama-70b"}, Value: 0.5, At: now}}}
}

func (one) Ping(context.Context) error { return nil }

// A cluster without a trace store does not report the nine signals of traces as missing.
func TestTraceSignalsNeedATraceStore(t *testing.T) {
	q := query(t, llama)
	gather := enrich.New(enrich.Config{Clusters: map[string]enrich.Cluster{"prod": {Prometheus: one{}}}, Signals: q.Signals})
	for _, m := range gather.Gather(t.Context(), enrich.Request{Cluster: "prod", Scope: llama, Onset: now, Now: now}).Missing {
		if strings.HasPrefix(m.Signal, "trace_") {
			t.Errorf("missing: %+v", m)
		}
	}
}

func TestPingSendsTheGatheringsRequest(t *testing.T) {
	store := &tracestest.Store{Token: "t0ken"}
	for kind, c := range stores(t, store) {
		if err := c.Ping(t.Context()); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if r := store.Refused(); len(r) > 0 {
		t.Error("refused:", r)
	}
	for kind, c := range map[string]Config{"Tempo": {TempoURL: serve(t, store.Tempo())}, "Jaeger": {JaegerURL: serve(t, store.Jaeger())}} {
		c.Token = func() (string, error) { return "", errors.New("/secrets/tempo is gone") }
		client, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := client.Ping(t.Context()); err == nil || err.Error() != kind+"'s bearer token cannot be read" {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
