package prometheus

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"paramedic/rules/enrich"
	"paramedic/rules/signals"
	"paramedic/state"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"))
}

var loadOnce = sync.OnceValues(signals.LoadSignals)

func builtIn(t testing.TB) []signals.Signal {
	builtin, err := loadOnce()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(builtin)
}

// queryAll returns a query for all signals of a scope.
func queryAll(t testing.TB, scope state.Scope, onset, at time.Time) enrich.Query {
	declared := builtIn(t)
	i := slices.IndexFunc(declared, func(s signals.Signal) bool { return s.ID == "requests_running" })
	return enrich.Query{Cluster: "default", Scope: scope, Signals: declared, Running: declared[i], Now: at, Onset: onset}
}

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestGatheringIsAtMostTwelveQueries(t *testing.T) {
	g := &gathering{query: enrich.Query{Signals: builtIn(t), Now: now, Onset: now.Add(-10 * time.Minute)}, samples: map[sampleKey]*sample{}}
	jobs := g.queries()
	if len(jobs) > queriesUncached-1 {
		t.Errorf("%d queries, want %d at most: with prefetches and the discovery, %d are allowed", len(jobs), queriesUncached-1,
			MaxQueries)
	}
	for _, j := range jobs {
		if j.span == nil {
			continue
		}
		if n := int(j.span.End.Sub(j.span.Start) / j.span.Step); n > 120 {
			t.Errorf("a range of %d points", n)
		}
	}
}

// fleet returns a store with two workers' gauges for two hours.
func fleet() *store {
	s := &store{}
	addFleet(s)
	return s
}

func addFleet(s *store) {
	for at := now.Add(-2 * time.Hour); !at.After(now); at = at.Add(30 * time.Second) {
		for i := range 2 {
			l := func(name string, more ...string) map[string]string {
				m := map[string]string{"__name__": name, "pod": fmt.Sprintf("vllm-llama-7d9f8b6c5-aaaa%d", i), "namespace": "llm",
					"instance": fmt.Sprintf("10.0.0.%d:8000", i), "job": "vllm", "model_name": "llama-70b"}
				for j := 0; j+1 < len(more); j += 2 {
					m[more[j]] = more[j+1]
				}
				return m
			}
			kv := 0.5
			if i == 1 && at.After(now.Add(-10*time.Minute)) {
				kv = 0.99
			}
			s.add(l("vllm:kv_cache_usage_perc", "engine", "0"), at, kv)
			s.add(l("vllm:num_requests_running", "engine", "0"), at, 10)
			s.add(l("vllm:num_requests_running", "engine", "1"), at, 5)
			s.add(l("vllm:num_requests_running", "server", "http://10.0.0.9"), at, 999)
			s.add(l("vllm:time_to_first_token_seconds_bucket", "le", "1"), at, math.NaN())
		}
	}
}

func read(t *testing.T, f *fakeAPI, scope state.Scope, c Config) enrich.Reading {
	t.Helper()
	c.URL = f.serve().URL
	if c.Timeout == 0 {
		c.Timeout = time.Minute // the tests check the answer, not the speed of a busy machine
	}
	client, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return client.Read(t.Context(), queryAll(t, scope, now.Add(-10*time.Minute), now))
}

func find(r enrich.Reading, signal, pod string) *state.Sample {
	for i, s := range r.Samples {
		if s.Signal == signal && s.Entity.Pod == pod {
			return &r.Samples[i]
		}
	}
	return nil
}

func TestReadGivesValueBaselineAndZ(t *testing.T) {
	for _, pool := range []string{"", "vllm-llama"} {
		t.Run("pool "+pool, func(t *testing.T) { valueBaselineAndZ(t, state.Scope{Namespace: "llm", Pool: pool}) })
	}
}

func valueBaselineAndZ(t *testing.T, scope state.Scope) {
	t.Helper()
	r := read(t, &fakeAPI{t: t, store: fleet()}, scope, Config{})
	hot := find(r, "kv_usage", "vllm-llama-7d9f8b6c5-aaaa1")
	if hot == nil {
		t.Fatalf("no kv_usage: %+v", r)
	}
	if hot.Value != 0.99 || hot.Baseline == nil || *hot.Baseline != 0.5 || hot.DayAgo != nil || hot.Z == nil || *hot.Z < 10 ||
		len(hot.Series) < 25 {
		t.Errorf("got %+v", hot)
	}
	if calm := find(r, "kv_usage", "vllm-llama-7d9f8b6c5-aaaa0"); calm == nil || calm.Z == nil || math.Abs(*calm.Z) > 0.1 {
		t.Errorf("the calm worker: %+v", calm)
	}
	if run := find(r, "requests_running", "vllm-llama-7d9f8b6c5-aaaa0"); run == nil || run.Value != 15 {
		t.Errorf("ranks are summed and the router's series left out: %+v", run)
	}
	if q := find(r, "ttft_p95", "vllm-llama-7d9f8b6c5-aaaa0"); q != nil {
		t.Errorf("NaN became a value: %+v", q)
	}
	if len(r.Failed) > 0 || len(r.Notes) > 0 {
		t.Errorf("failed %v, notes %v", r.Failed, r.Notes)
	}
	if got := r.Engines["llm/vllm-llama-7d9f8b6c5-aaaa0"]; got != "vllm" {
		t.Errorf("the worker's engine is %q by its metrics", got)
	}
}

// The recording rules of deploy/prometheus/slo.yml are read for the model. The text names the worst
// objective, and each layer has its own budget.
func TestErrorBudgetIsReadWithItsSLO(t *testing.T) {
	s := fleet()
	for engine, left := range map[string]map[string]float64{"vllm": {"ttft": 0.8, "errors": -0.4}, "dynamo": {"ttft": 0.6}} {
		for sli, v := range left {
			s.add(map[string]string{"__name__": "llm_slo:budget_left:30d", "namespace": "llm", "model_name": "llama-70b", "engine": engine,
				"sli": sli}, now, v)
		}
	}
	r := read(t, &fakeAPI{t: t, store: s}, state.Scope{Namespace: "llm", Pool: "vllm-llama"}, Config{})
	got := map[string]float64{}
	for _, x := range r.Samples {
		if x.Signal == "slo_budget_left" {
			got[x.Text+" of "+x.Entity.Model] = x.Value
		}
	}
	if len(got) == 0 {
		t.Fatal("nothing was read")
	}
	least, of := 1.0, ""
	for text, v := range got {
		if v < least {
			least, of = v, text
		}
	}
	if least != -0.4 || of != "errors of llama-70b" {
		t.Errorf("the budgets are %v", got)
	}
}

// The chart must be the same quantity as the value. Otherwise, a flat line looks like a fall.
func TestChartCountsDuplicateScrapesOnce(t *testing.T) {
	const pod = "vllm-llama-7d9f8b6c5-aaaa0"
	for name, c := range map[string]struct {
		second [2]string // instance and job
		want   float64
	}{
		"two jobs at one address": {[2]string{"10.0.0.0:8000", "pods"}, 10},
		"two addresses":           {[2]string{"10.0.0.0:9000", "vllm"}, 20},
	} {
		t.Run(name, func(t *testing.T) {
			s := &store{}
			for at := now.Add(-2 * time.Hour); !at.After(now); at = at.Add(30 * time.Second) {
				for _, from := range [][2]string{{"10.0.0.0:8000", "vllm"}, c.second} {
					s.add(map[string]string{"__name__": "vllm:num_requests_running", "pod": pod, "namespace": "llm",
						"model_name": "llama-70b", "instance": from[0], "job": from[1]}, at, 10)
				}
			}
			run := find(read(t, &fakeAPI{t: t, store: s}, state.Scope{Namespace: "llm", Pool: "vllm-llama"}, Config{}),
				"requests_running", pod)
			if run == nil || run.Value != c.want || run.Z == nil || *run.Z != 0 || len(run.Series) < 25 {
				t.Fatalf("got %+v", run)
			}
			for i, p := range run.Series {
				if p.Value != c.want || i > 0 && !p.At.After(run.Series[i-1].At) {
					t.Errorf("point %d is %v at %s", i, p.Value, p.At)
				}
			}
		})
	}
}

func TestFailedQueryIsMissingEvidence(t *testing.T) {
	const pod = "vllm-llama-7d9f8b6c5-aaaa1"
	r := read(t, &fakeAPI{t: t, store: fleet(), refuse: "DCGM_FI_DEV_POWER_USAGE"}, state.Scope{}, Config{})
	if why := r.Failed["gpu_power"]; !strings.Contains(why, "too many samples") {
		t.Errorf("gpu_power failed with %q", why)
	}
	others := []string{"kv_usage", "requests_running", "preemption_rate", "finish_rate"} // some may be in the same union
	if !slices.ContainsFunc(others, func(id string) bool { return find(r, id, pod) != nil }) {
		t.Error("a bad union took another's signals with it")
	}
	r = read(t, &fakeAPI{t: t, store: fleet(), refuse: "vllm:kv_cache_usage_perc{"}, state.Scope{Namespace: "llm", Pool: "vllm-llama"},
		Config{})
	if why := r.Failed["kv_usage"]; !strings.Contains(why, "too many samples") ||
		!slices.ContainsFunc(r.Notes, func(m state.Missing) bool { return m.Signal == "series" }) {
		t.Errorf("a chart that is also the present: %q, %v", why, r.Notes)
	}
}

// The charts of a pool's young incident also give the current values and the baselines. For an old
// incident, or for more than a pool, these are queried separately, because the charts may fail.
// Both ways give the same.
func TestValuesDoNotWaitForLargeCharts(t *testing.T) {
	const pod = "vllm-llama-7d9f8b6c5-aaaa1"
	pool, namespace := state.Scope{Namespace: "llm", Pool: "vllm-llama"}, state.Scope{Namespace: "llm"}
	for _, c := range []struct {
		name    string
		scope   state.Scope
		lasted  time.Duration
		refuse  bool
		series  bool
		present bool
	}{
		{"a pool", pool, 10 * time.Minute, false, true, true}, {"a pool, without charts", pool, 10 * time.Minute, true, false, false},
		{"old", pool, 5 * time.Hour, false, true, true}, {"old, without charts", pool, 5 * time.Hour, true, false, true},
		{"many pools", namespace, 10 * time.Minute, false, true, true}, {"many pools, without charts", namespace, 10 * time.Minute, true,
			false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &store{}
			for at := now.Add(-7 * time.Hour); at.Before(now.Add(-2 * time.Hour)); at = at.Add(30 * time.Second) {
				s.add(map[string]string{"__name__": "vllm:kv_cache_usage_perc", "pod": pod, "namespace": "llm", "instance": "10.0.0.1:8000",
					"job":        "vllm",
					"model_name": "llama-70b", "engine": "0"}, at, 0.25)
			}
			addFleet(s)
			f := &fakeAPI{t: t, store: s, noRange: c.refuse}
			client, err := New(Config{URL: f.serve().URL, Timeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			r := client.Read(t.Context(), queryAll(t, c.scope, now.Add(-c.lasted), now))
			x := find(r, "kv_usage", pod)
			if (x != nil) != c.present {
				t.Fatalf("%+v", x)
			}
			if x == nil {
				return
			}
			want := map[bool]float64{true: 0.5, false: 0.25}[c.lasted < time.Hour]
			if x.Value != 0.99 || x.Baseline == nil || *x.Baseline != want || (len(x.Series) > 20) != c.series {
				t.Errorf("%+v", x)
			}
		})
	}
}

// A series that ended before now has no current value, although the chart has its last points.
func TestEndedChartGivesNoCurrentValue(t *testing.T) {
	s := fleet()
	gone := map[string]string{"__name__": "vllm:kv_cache_usage_perc", "pod": "vllm-llama-7d9f8b6c5-gone9", "namespace": "llm",
		"model_name": "llama-70b"}
	for at := now.Add(-2 * time.Hour); at.Before(now.Add(-8 * time.Minute)); at = at.Add(30 * time.Second) {
		s.add(gone, at, 0.7)
	}
	if x := find(read(t, &fakeAPI{t: t, store: s}, state.Scope{Namespace: "llm", Pool: "vllm-llama"}, Config{}), "kv_usage",
		gone["pod"]); x != nil {
		t.Errorf("a former pod has a value: %+v", x)
	}
}

func TestOldValuesAreMissing(t *testing.T) {
	s := &store{}
	l := map[string]string{"__name__": "vllm:kv_cache_usage_perc", "pod": "p", "model_name": "m"}
	s.add(l, now.Add(-6*time.Minute), 0.9)
	if r := read(t, &fakeAPI{t: t, store: s}, state.Scope{}, Config{}); len(r.Samples) != 0 {
		t.Errorf("got %+v", r.Samples)
	}
}

func TestDeadlineIsReported(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	r := read(t, &fakeAPI{t: t, store: fleet(), delay: never}, state.Scope{}, Config{Timeout: time.Millisecond})
	if why := r.Failed["kv_usage"]; why != "Prometheus: no answer in time" {
		t.Errorf("got %q", why)
	}
}

func TestTokenIsReadPerCallAndNeverShown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	f := &fakeAPI{t: t, store: fleet(), token: "new-token"}
	client, err := New(Config{URL: f.serve().URL, Token: func() (string, error) {
		b, err := os.ReadFile(file)
		return strings.TrimSpace(string(b)), err
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		token string
		ok    bool
	}{{"", false}, {"old-token", false}, {"new-token\n", true}} {
		if c.token != "" {
			if err := os.WriteFile(file, []byte(c.token), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := client.Ping(context.Background())
		if (err == nil) != c.ok {
			t.Errorf("token %q: %v", c.token, err)
		}
		if err != nil && c.token != "" && strings.Contains(err.Error(), c.token) {
			t.Errorf("the token is in the error: %v", err)
		}
	}
}

// Mimir asks for a tenant, and some stores for basic authentication.
func TestHeadersAreReadPerCallAndNeverShown(t *testing.T) {
	f := &fakeAPI{t: t, store: fleet()}
	var tenants []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tenants = append(tenants, r.Header.Get("X-Scope-OrgID"))
		f.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	headers, failure := http.Header{"X-Scope-Orgid": {"sre"}}, error(nil)
	client, err := New(Config{URL: server.URL, Headers: func() (http.Header, error) { return headers, failure }})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Ping(t.Context()); err != nil || !slices.Equal(tenants, []string{"sre"}) {
		t.Errorf("tenants %q, %v", tenants, err)
	}
	if failure = errors.New("s3cret"); client.Ping(t.Context()) == nil || strings.Contains(client.Ping(t.Context()).Error(), "s3cret") {
		t.Errorf("unreadable headers: %v", client.Ping(t.Context()))
	}
}

func TestTokenIsNotSentToARedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another server was sent %s with %q", r.URL.Path, r.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	srv := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer srv.Close()
	client, err := New(Config{URL: srv.URL, Token: func() (string, error) { return "s3cret", nil }})
	if err != nil {
		t.Fatal(err)
	}
	const want = "Prometheus: it redirects to another address; the bot follows no redirects"
	if err := client.Ping(t.Context()); err == nil || err.Error() != want {
		t.Errorf("ping: %v", err)
	}
	r := client.Read(t.Context(), queryAll(t, state.Scope{}, now, now))
	if why := r.Failed["kv_usage"]; why != want {
		t.Errorf("kv_usage failed with %q", why)
	}
}
