package jetstream_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"paramedic/state"
	"paramedic/state/jetstream"
	"paramedic/state/jetstream/connect"
	"paramedic/state/jetstream/natstest"
	"paramedic/state/statetest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimEnv); dir != "" {
		victim(dir)
	}
	// A NATS server that is stopped while its cluster still places a stream leaves that stream's
	// two goroutines behind. Every other goroutine of a server that was not shut down is found.
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"))
}

// embedded is a backend with a directory of its own.
type embedded string

func (embedded) Shared() bool { return false }

func (dir embedded) Open(t *testing.T) statetest.Store {
	return openStore(t, jetstream.Config{Dir: string(dir)})
}

// external is a real server that listens on TCP.
type external string

func (external) Shared() bool { return true }

func (url external) Open(t *testing.T) statetest.Store {
	return openStore(t, jetstream.Config{URL: string(url), Replicas: 1})
}

func openStore(t testing.TB, cfg jetstream.Config) *jetstream.Store {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := jetstream.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeStore(t testing.TB, s *jetstream.Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
}

func TestEmbeddedConforms(t *testing.T) {
	statetest.Run(t, func(t *testing.T) statetest.Backend { return embedded(t.TempDir()) })
}

func TestExternalConforms(t *testing.T) {
	statetest.Run(t, func(t *testing.T) statetest.Backend {
		return external(natstest.Start(t))
	})
}

func TestSecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	first := openStore(t, jetstream.Config{Dir: dir})
	_, err := jetstream.Open(t.Context(), jetstream.Config{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "in use by another Paramedic") {
		t.Errorf("a second opening: %v", err)
	}
	closeStore(t, first)
	closeStore(t, openStore(t, jetstream.Config{Dir: dir}))
}

func TestConfigIsChecked(t *testing.T) {
	for want, cfg := range map[string]jetstream.Config{
		"needs a directory":                 {},
		"not both":                          {Dir: "d", URL: "u"},
		"needs state.nats.url":              {Dir: "d", CredentialsFile: "c"},
		"must be from 1 to 5":               {URL: "u", Replicas: 9},
		"must be positive":                  {Dir: "d", Retain: -1},
		"connecting to NATS":                {URL: "nats://127.0.0.1:1"},
		"cert_file and key_file need state": {Dir: "d", TLS: connect.TLSFiles{CA: "c"}},
		"needs both cert_file and key_file": {URL: "nats://127.0.0.1:1", TLS: connect.TLSFiles{Key: "doc.go"}},
		"no certificate in PEM format":      {URL: "nats://127.0.0.1:1", TLS: connect.TLSFiles{CA: "doc.go"}},
		"state.nats.cert_file and key_file": {URL: "nats://127.0.0.1:1", TLS: connect.TLSFiles{Cert: "doc.go", Key: "doc.go"}},
		"nor a user's NKey":                 {URL: "nats://127.0.0.1:1", CredentialsFile: "doc.go"},
		"making the state dire":             {Dir: filepath.Join(os.Args[0], "d")},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		s, err := jetstream.Open(ctx, cfg)
		cancel()
		if err == nil {
			closeStore(t, s)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", cfg, err, want)
		}
	}
}

func TestServerWithoutJetStreamIsRefused(t *testing.T) {
	srv := natstest.Serve(t, server.Options{})
	if s, err := jetstream.Open(t.Context(), jetstream.Config{URL: srv.ClientURL()}); err == nil {
		closeStore(t, s)
		t.Error("opened a server that keeps nothing")
	}
}

func TestMissingServerIsUnavailable(t *testing.T) {
	srv := natstest.Serve(t, server.Options{JetStream: true})
	s := openStore(t, jetstream.Config{URL: srv.ClientURL(), Replicas: 1})
	defer closeStore(t, s)
	srv.Shutdown()
	srv.WaitForShutdown()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := s.Append(ctx, state.Input{Cluster: "prod"}); !isUnavailable(err) {
		t.Errorf("append: %v", err)
	}
	if err := s.Ready(ctx); !isUnavailable(err) {
		t.Errorf("ready: %v", err)
	}
}

// The error for a corrupt record names it.
func TestCorruptInputAndPositionAreNamed(t *testing.T) {
	srv := natstest.Serve(t, server.Options{JetStream: true})
	s := openStore(t, jetstream.Config{URL: srv.ClientURL(), Replicas: 1})
	defer closeStore(t, s)
	nc, err := nats.Connect(srv.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for _, subject := range []string{"paramedic.in.3", "paramedic.pos.3"} {
		if _, err := nc.Request(subject, []byte("{not JSON"), 10*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := s.Load(t.Context(), 3, statetest.Raw); err == nil || !strings.Contains(err.Error(), "paramedic.pos.3") {
		t.Errorf("load: %v, want an error that names the record", err)
	}
	r, err := s.Inputs(t.Context(), 3, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Next(t.Context()); err == nil || !strings.Contains(err.Error(), "input 1 ") {
		t.Errorf("next: %v, want an error that names the input", err)
	}
	if _, err := s.Inputs(t.Context(), 3, 9); err == nil || !strings.Contains(err.Error(), "ends at 1") {
		t.Errorf("inputs after a position that the log never reached: %v", err)
	}
}
