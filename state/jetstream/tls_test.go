package jetstream_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"paramedic/state/jetstream"
	"paramedic/state/jetstream/connect"
	"paramedic/state/jetstream/natstest"
	"paramedic/state/statetest"
)

// An authority issues certificates for 127.0.0.1.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	a.cert, a.key = a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign})
	return a
}

// sign completes and signs a certificate. The first one is the authority's own.
func (a *authority) sign(cert *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	parent, signer := cert, key
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	cert.SerialNumber, cert.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(time.Hour)
	raw, err := x509.CreateCertificate(rand.Reader, cert, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	if cert, err = x509.ParseCertificate(raw); err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// issue writes the files of a certificate and of the authority to a folder.
func (a *authority) issue(dir, name string) connect.TLSFiles {
	a.t.Helper()
	cert, key := a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}})
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	files := connect.TLSFiles{CA: filepath.Join(dir, "ca.crt"), Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}
	for file, block := range map[string]*pem.Block{files.CA: {Type: "CERTIFICATE", Bytes: a.cert.Raw},
		files.Cert: {Type: "CERTIFICATE", Bytes: cert.Raw}, files.Key: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return files
}

// secured returns the options of a server whose only user is the holder of a certificate of the
// authority with a name.
func secured(a *authority, user string) server.Options {
	a.t.Helper()
	files := a.issue(a.t.TempDir(), "server")
	conf, err := server.GenTLSConfig(&server.TLSConfigOpts{CertFile: files.Cert, KeyFile: files.Key, CaFile: files.CA, Verify: true,
		Map: true, Timeout: 10})
	if err != nil {
		a.t.Fatal(err)
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
	first := newAuthority(t)
	srv := natstest.Serve(t, secured(first, "bot"))
	dir, logged := t.TempDir(), &logBuffer{}
	s := openStore(t, jetstream.Config{URL: srv.ClientURL(), TLS: first.issue(dir, "bot"), Replicas: 1,
		Logger: slog.New(slog.NewTextHandler(logged, nil))})
	defer closeStore(t, s)
	ready := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return s.Ready(ctx) == nil
	}
	statetest.Until(t, "the store is ready", ready)
	store := srv.StoreDir()

	rotate(t, srv, secured(first, "next"), filepath.Dir(store))
	statetest.Until(t, "the server refuses the old user twice", func() bool { return logged.count("authorization violation") > 1 })
	first.issue(dir, "next")
	statetest.Until(t, "the new user's certificate is used", ready)

	second := newAuthority(t)
	rotate(t, srv, secured(second, "next"), filepath.Dir(store))
	statetest.Until(t, "the connection is lost", func() bool { return !ready() })
	second.issue(dir, "next")
	statetest.Until(t, "the new authority is trusted", ready)
}

func TestServerOfAnotherAuthorityIsRefused(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	for want, served := range map[string]server.Options{
		"unknown authority":        secured(theirs, "bot"),
		"secure connection not av": {JetStream: true},
	} {
		srv := natstest.Serve(t, served)
		logged := &logBuffer{}
		opened := make(chan error, 1)
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			s, err := jetstream.Open(ctx, jetstream.Config{URL: srv.ClientURL(), TLS: ours.issue(t.TempDir(), "bot"), Replicas: 1,
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
