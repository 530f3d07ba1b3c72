package jetstream_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"paramedic/state/jetstream"
	"paramedic/state/jetstream/natstest"
	"paramedic/state/statetest"
)

// secured returns the options of a server whose only user is the holder of a certificate of the
// authority with a name.
func secured(t *testing.T, a *natstest.Authority, user string) server.Options {
	t.Helper()
	files := a.Issue(t.TempDir(), "server")
	conf, err := server.GenTLSConfig(&server.TLSConfigOpts{CertFile: files.Cert, KeyFile: files.Key, CaFile: files.CA, Verify: true,
		Map: true, Timeout: 10})
	if err != nil {
		t.Fatal(err)
	}
	return server.Options{ServerName: "paramedic", JetStream: true, TLS: true, TLSVerify: true, TLSMap: true, TLSTimeout: 10, TLSConfig: conf,
		Users: []*server.User{{Username: "CN=" + user}}}
}

// rotate gives a running server other options, and ends the connections of its clients.
func rotate(t *testing.T, srv *server.Server, opts server.Options, dir string) {
	t.Helper()
	opts.Host, opts.Port, opts.StoreDir, opts.NoSigs, opts.NoLog = "127.0.0.1", server.RANDOM_PORT, dir, true, true
	if err := srv.ReloadOptions(&opts); err != nil {
		t.Fatal(err)
	}
	conns, err := srv.Connz(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range conns.Conns {
		_ = srv.DisconnectClientByID(c.Cid) // one whose user is gone has no connection any more
	}
}

// logBuffer holds what is logged.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.text.String(), text)
}

// The bot shows its certificate to servers of its own authority. While it runs, its user and then
// the authority are replaced, on the servers first.
func TestTLSFilesAreReadForEachConnection(t *testing.T) {
	first := natstest.NewAuthority(t)
	srv := natstest.Serve(t, secured(t, first, "bot"))
	dir, logged := t.TempDir(), &logBuffer{}
	s := openStore(t, jetstream.Config{URL: srv.ClientURL(), TLS: first.Issue(dir, "bot"), Replicas: 1,
		Logger: slog.New(slog.NewTextHandler(logged, nil))})
	defer closeStore(t, s)
	ready := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return s.Ready(ctx) == nil
	}
	statetest.Until(t, "the store is ready", ready)
	store := srv.StoreDir()

	rotate(t, srv, secured(t, first, "next"), filepath.Dir(store))
	statetest.Until(t, "the server refuses the old user twice", func() bool { return logged.count("authorization violation") > 1 })
	first.Issue(dir, "next")
	statetest.Until(t, "the new user's certificate is used", ready)

	second := natstest.NewAuthority(t)
	rotate(t, srv, secured(t, second, "next"), filepath.Dir(store))
	statetest.Until(t, "the connection is lost", func() bool { return !ready() })
	second.Issue(dir, "next")
	statetest.Until(t, "the new authority is trusted", ready)
}

func TestServerOfAnotherAuthorityIsRefused(t *testing.T) {
	ours, theirs := natstest.NewAuthority(t), natstest.NewAuthority(t)
	for want, served := range map[string]server.Options{
		"unknown authority":        secured(t, theirs, "bot"),
		"secure connection not av": {JetStream: true},
	} {
		srv := natstest.Serve(t, served)
		logged := &logBuffer{}
		opened := make(chan error, 1)
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			s, err := jetstream.Open(ctx, jetstream.Config{URL: srv.ClientURL(), TLS: ours.Issue(t.TempDir(), "bot"), Replicas: 1,
				Logger: slog.New(slog.NewTextHandler(logged, nil))})
			if err == nil {
				closeStore(t, s)
			}
			opened <- err
		}()
		statetest.Until(t, "the log says why: "+want, func() bool { return logged.count(want) > 0 })
		stop()
		if err := <-opened; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("opened: %v, want %q", err, want)
		}
	}
}
