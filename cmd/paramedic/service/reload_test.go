package service

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"paramedic/cmd/paramedic/config"
	"paramedic/state"
	"paramedic/state/jetstream"
	"paramedic/state/statetest"
)

// An idleStore is for a service that is created and does not run.
type idleStore struct{ state.Store }

func (idleStore) Partitions() int { return 1 }

// A tickedClock is the system's clock, but the test decides when the configuration file is read.
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

// written writes a small configuration file to a folder, and loads it.
func written(t *testing.T, dir string) (path, text string, cfg config.Config) {
	t.Helper()
	path = filepath.Join(dir, "paramedic.yaml")
	text = "listen: 127.0.0.1:0\nstate: {dir: " + filepath.Join(dir, "data") + "}\n"
	put(t, dir, "paramedic.yaml", []byte(text))
	cfg, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, text, cfg
}

// Counters continue after a reload. A counter that falls to zero would read as a restart.
func TestMetricsSurviveAReload(t *testing.T) {
	dir := t.TempDir()
	path, text, cfg := written(t, dir)
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
	host := NewHost()
	ended := make(chan error, 1)
	go func() {
		ended <- serveGenerations(ctx, path, []byte(text), cfg, Deps{Store: store, Clock: clock, Logger: logger, Out: io.Discard}, host)
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
	clock.look <- time.Now() // the first generation is up when the clock is read
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
	clock.look <- time.Now() // the file is as the look before found it
	if said := <-applied; !strings.Contains(said, "configuration applied") {
		t.Fatalf("it was not applied: %s", said)
	}
	ask("/healthz")
	const want = `paramedic_http_request_duration_seconds_count{code="200",route="GET /healthz"} 3`
	if got := ask("/metrics"); !strings.Contains(got, want) {
		t.Errorf("the counters began anew: want %s in\n%s", want, got)
	}
}

// A change may name a secret that arrives later. It may also come while the bot still starts.
func TestChangeIsAppliedOnceItIsValid(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	path, text, cfg := written(t, dir)
	put(t, dir, "paramedic.yaml", []byte(text+"notify: {pagerduty: {routing_key_file: "+key+"}}\n"))
	log := &lockedBuffer{}
	clock := tickedClock{look: make(chan time.Time)}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	store := &memoryStore{inputs: make(chan state.Input, 1000)}
	go func() {
		ended <- serveGenerations(ctx, path, []byte(text), cfg, Deps{Store: store, Clock: clock, Logger: slog.New(slog.NewTextHandler(log, nil)), Out: io.Discard,
			loadKnowledge: loadAhead(cfg)}, NewHost())
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	for range 4 {
		clock.look <- time.Now()
	}
	if n := strings.Count(log.String(), "the changed configuration is invalid"); n != 1 {
		t.Errorf("the refusal was logged %d times", n)
	}
	put(t, dir, "key", []byte("0123456789abcdef0123456789abcdef"))
	clock.look <- time.Now()
	statetest.Until(t, "the valid configuration is applied", func() bool { return strings.Contains(log.String(), "configuration applied") })
}

// A lookClock also tells when the next look is awaited.
type lookClock struct {
	tickedClock
	waits chan struct{}
}

func (c lookClock) After(d time.Duration) <-chan time.Time {
	if d == watchEvery {
		c.waits <- struct{}{}
	}
	return c.tickedClock.After(d)
}

// A file that is being written, empty or away changes nothing. A signal applies what is there.
func TestUnfinishedConfigurationIsNotApplied(t *testing.T) {
	dir := t.TempDir()
	path, text, cfg := written(t, dir)
	log := &lockedBuffer{}
	clock, signals := lookClock{tickedClock{look: make(chan time.Time)}, make(chan struct{}, 1)}, make(chan os.Signal)
	deps := Deps{Store: &memoryStore{inputs: make(chan state.Input, 1000)}, Clock: clock, Logger: slog.New(slog.NewTextHandler(log, nil)), Out: io.Discard}
	deps.metrics = newMetrics()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	changes := watchConfig(ctx, path, []byte(text), cfg, deps, signals)
	<-clock.waits
	look := func(times int) { // and wait until it is over
		t.Helper()
		for range times {
			clock.look <- time.Now()
			select {
			case <-clock.waits:
			case <-changes:
				t.Fatal("the change is applied")
			}
		}
	}
	put(t, dir, "paramedic.yaml", nil)
	look(4)
	if n := strings.Count(log.String(), "is empty"); n != 1 {
		t.Errorf("the empty file is reported %d times:\n%s", n, log)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	look(4)
	if n := strings.Count(log.String(), "no such file"); n != 1 {
		t.Errorf("the missing file is reported %d times:\n%s", n, log)
	}
	for i := range 3 { // each look finds another one
		put(t, dir, "paramedic.yaml", fmt.Appendf(nil, "%striage: {settle: %ds}\n", text, 11+i))
		look(1)
	}
	signals <- syscall.SIGHUP
	if next := <-changes; next.cfg.Triage.Settle.D() != 13*time.Second {
		t.Errorf("settle is %s", next.cfg.Triage.Settle.D())
	}
}

// The listener stays until the next start, and so do its requirements. An address that others reach
// keeps its authentication, and client certificates need TLS.
func TestReloadMustFitTheRunningListener(t *testing.T) {
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
	running, err := config.Parse("paramedic.yaml", []byte("listen: 0.0.0.0:8080\n"+rest+"auth: {alertmanager: {bearer_token_file: "+
		file("bearer")+"}, "+tokens+"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	deps := Deps{Clock: state.SystemClock{}, Logger: slog.New(slog.DiscardHandler)}
	for want, changed := range map[string]string{
		"set auth.api.tokens_file": "listen: 127.0.0.1:8080\n",
		"has no use without TLS: set tls.cert_file": "listen: 0.0.0.0:8080\ntls: {cert_file: " + file("server.pem") + ", key_file: " +
			file("server.key") +
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
