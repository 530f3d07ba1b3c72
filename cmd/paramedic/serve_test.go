package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"paramedic/cmd/paramedic/config"
	"paramedic/rules/enrich"
	"paramedic/rules/enrich/traces/tracestest"
	"paramedic/state"
	"paramedic/state/jetstream"
)

// A bot whose directory another one holds says so once, and never that it listens.
func TestServeOnADirectoryInUseSaysSo(t *testing.T) {
	dir := t.TempDir()
	store, err := jetstream.Open(context.Background(), jetstream.Config{Dir: filepath.Join(dir, "data"), Retain: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	put(t, dir, "paramedic.yaml", []byte("listen: 127.0.0.1:0\nstate: {dir: "+filepath.Join(dir, "data")+"}\n"))
	var stderr bytes.Buffer
	if code := run(context.Background(), []string{"serve", "--config", filepath.Join(dir, "paramedic.yaml")}, io.Discard, &stderr); code != exitError {
		t.Errorf("exit code %d", code)
	}
	said := stderr.String()
	if strings.Count(said, "paramedic: opening the state: the state directory") != 1 || !strings.Contains(said, "in use by another Paramedic") {
		t.Errorf("it says %s", said)
	}
	if strings.Contains(said, "listening") || strings.Contains(said, "opening the state: opening") {
		t.Errorf("it reads as if it were up, or repeats itself: %s", said)
	}
}

// What the configuration says of traces is what the bot reads: the store, and a token from the
// environment.
func TestTheBotReadsTheTracesThatItIsGiven(t *testing.T) {
	t.Setenv("PARAMEDIC_TEST_TEMPO_TOKEN", "t0ken")
	store := &tracestest.Store{Token: "t0ken"}
	now := time.Now().UTC()
	for i := range 30 {
		store.Add(tracestest.VLLM(tracestest.Request{N: i, End: now.Add(-time.Duration(i) * time.Second), Prompt: 1000, Output: 100, Resource: map[string]any{"service.name": "vllm-llama"},
			Times: tracestest.Times{Queue: 6 * time.Second, Prefill: time.Second, Decode: 3 * time.Second}})...)
	}
	for key, h := range map[string]http.Handler{"tempo_url": store.Tempo(), "jaeger_url": store.Jaeger()} {
		server := httptest.NewServer(h)
		defer server.Close()
		cfg, err := config.Parse("paramedic.yaml", []byte("clusters:\n  - name: prod\n    traces: {"+key+": "+server.URL+", bearer_token_file: \"${PARAMEDIC_TEST_TEMPO_TOKEN}\"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		gather, _, err := newGatherer(cfg, gathererDeps{})
		if err != nil {
			t.Fatal(err)
		}
		ev := gather.Gather(t.Context(), enrich.Request{Cluster: "prod", Scope: state.Scope{Cluster: "prod", Namespace: "llm", Pool: "vllm-llama"}, Onset: now, Now: now})
		got := map[string]float64{}
		for _, s := range ev.Samples {
			got[s.Signal] = s.Value
		}
		if got["trace_requests"] != 30 || got["trace_queue_time"] != 6 {
			t.Errorf("%s: %v; refused: %q", key, got, store.Refused())
		}
	}
}

// A token that the configuration takes from the environment is what Prometheus gets to see.
func TestATokenFromTheEnvironmentReachesPrometheus(t *testing.T) {
	t.Setenv("PARAMEDIC_TEST_PROMETHEUS_TOKEN", "t0ken")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer t0ken" {
			http.Error(w, "unauthorised", http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[]}}`)
	}))
	defer server.Close()
	cfg, err := config.Parse("paramedic.yaml", []byte("clusters:\n  - name: prod\n    prometheus: {url: "+server.URL+", bearer_token_file: \"${PARAMEDIC_TEST_PROMETHEUS_TOKEN}\"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	gather, _, err := newGatherer(cfg, gathererDeps{})
	if err != nil {
		t.Fatal(err)
	}
	if err := gather.Ping(t.Context())["prod/prometheus"]; err != nil {
		t.Error(err)
	}
}

// While symptoms are gathered, Prometheus is asked for the past of the incident: its charts, and
// the hour, the day and the week before.
func TestThePastIsReadWhileSymptomsAreGathered(t *testing.T) {
	var mu sync.Mutex
	var charts int
	var at []time.Time
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if seconds, err := strconv.ParseFloat(r.FormValue("time"), 64); err == nil {
			at = append(at, time.UnixMilli(int64(1000*seconds)))
		} else {
			charts++
		}
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[]}}`)
	}))
	defer server.Close()
	o := newOnCallAfter(t, "1h", "clusters: [{name: default, prometheus: {url: "+server.URL+"}}]\n")
	o.alert(kvFull)
	o.await("the past is asked for", func() bool {
		rec := httptest.NewRecorder()
		o.bot.handler.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/metrics", nil))
		return strings.Contains(rec.Body.String(), `paramedic_effect_duration_seconds_count{channel="",kind="prepare",outcome="done"} 1`)
	})
	mu.Lock()
	defer mu.Unlock()
	onset := o.bot.keeper.Incidents()[0].StartedAt
	now, past := 0, map[time.Duration]int{}
	for _, m := range at {
		if ago := onset.Sub(m).Round(time.Minute); ago > 0 {
			past[ago]++
		} else {
			now++
		}
	}
	if charts == 0 || past[time.Hour] == 0 || past[24*time.Hour] == 0 || now != 1 {
		t.Errorf("%d charts, %v before the onset, %d of now, where one tells which engines there are", charts, past, now)
	}
}

// An idleStore is for a service that is made and not run.
type idleStore struct{ state.Store }

func (idleStore) Partitions() int { return 1 }

// A tickedClock is the machine's, but the configuration file is looked at when the test says so.
type tickedClock struct {
	state.SystemClock
	look chan time.Time
}

func (c tickedClock) After(d time.Duration) <-chan time.Time {
	if d == watchEvery {
		return c.look
	}
	return c.SystemClock.After(d)
}

// What the metrics have counted goes on when the configuration changes: a counter that falls to
// zero reads as a restart.
func TestMetricsGoOnWhenTheConfigurationChanges(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "paramedic.yaml")
	text := "listen: 127.0.0.1:0\nstate: {dir: " + filepath.Join(dir, "data") + "}\n"
	put(t, dir, "paramedic.yaml", []byte(text))
	cfg, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	logged, log := io.Pipe()
	applied := make(chan string, 1)
	go func() {
		all := make([]byte, 0, 4096)
		for buf := make([]byte, 4096); ; {
			n, err := logged.Read(buf)
			if all = append(all, buf[:n]...); strings.Contains(string(all), "configuration applied") || err != nil {
				applied <- string(all)
				_, _ = io.Copy(io.Discard, logged)
				return
			}
		}
	}()
	logger := slog.New(slog.NewTextHandler(log, nil))
	store, err := jetstream.Open(context.Background(), jetstream.Config{Dir: cfg.State.Dir, Retain: time.Hour, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	clock := tickedClock{look: make(chan time.Time)}
	host := newHost()
	ended := make(chan error, 1)
	go func() {
		ended <- serveGenerations(ctx, path, cfg, Deps{Store: store, Clock: clock, Logger: logger, Out: io.Discard}, host)
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
		log.Close()
	}()
	clock.look <- time.Now() // the first generation is up when somebody looks
	for host.current.Load() == nil {
		<-time.After(time.Millisecond)
	}
	ask := func(path string) string {
		rec := httptest.NewRecorder()
		host.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil))
		return rec.Body.String()
	}
	ask("/healthz")
	ask("/healthz")
	if err := os.WriteFile(path, []byte(text+"triage: {settle: 5s}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	clock.look <- time.Now()
	if said := <-applied; !strings.Contains(said, "configuration applied") {
		t.Fatalf("it was not applied: %s", said)
	}
	ask("/healthz")
	const want = `paramedic_http_request_duration_seconds_count{code="200",route="GET /healthz"} 3`
	if got := ask("/metrics"); !strings.Contains(got, want) {
		t.Errorf("the counters began anew: want %s in\n%s", want, got)
	}
}

// The listener stays as it is until the next start, and with it what it demands: an address that
// others reach keeps its logins, and client certificates are not counted on where there is no TLS.
func TestAReloadIsRefusedThatDoesNotFitTheRunningListener(t *testing.T) {
	ca := newAuthority(t, "ca")
	dir := t.TempDir()
	cert, key := ca.issue(1, x509.ExtKeyUsageServerAuth)
	put(t, dir, "server.pem", cert)
	put(t, dir, "server.key", key)
	put(t, dir, "ca.pem", ca.pem())
	put(t, dir, "bearer", []byte("s3cret"))
	put(t, dir, "tokens.yaml", []byte("- {name: alice, token: 0123456789abcdef0123456789abcdef, role: admin}\n"))
	file := func(name string) string { return filepath.Join(dir, name) }
	rest := "state: {dir: " + file("data") + "}\n"
	tokens := "api: {tokens_file: " + file("tokens.yaml") + "}"
	running, err := config.Parse("paramedic.yaml", []byte("listen: 0.0.0.0:8080\n"+rest+"auth: {alertmanager: {bearer_token_file: "+file("bearer")+"}, "+tokens+"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	deps := Deps{Clock: state.SystemClock{}, Logger: slog.New(slog.DiscardHandler)}
	for want, changed := range map[string]string{
		"set auth.api.tokens_file": "listen: 127.0.0.1:8080\n",
		"client certificates need tls.cert_file": "listen: 0.0.0.0:8080\ntls: {cert_file: " + file("server.pem") + ", key_file: " + file("server.key") +
			"}\nauth: {alertmanager: {client_ca_file: " + file("ca.pem") + "}, " + tokens + "}\n",
	} {
		if _, err := config.Parse("paramedic.yaml", []byte(changed+rest)); err != nil {
			t.Fatalf("by itself it has to be valid: %v", err)
		}
		if _, err := reload("paramedic.yaml", []byte(changed+rest), running, deps); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
