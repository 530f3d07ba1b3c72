package service

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"paramedic/cmd/paramedic/config"
	"paramedic/state"
)

// An authority is a CA that issues certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t, key: newKey(t)}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true,
		BasicConstraintsValid: true,
		NotBefore:             time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(raw); err != nil {
		t.Fatal(err)
	}
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// issue returns a certificate and its key in PEM.
func (a *authority) issue(serial int64, usage x509.ExtKeyUsage) (cert, key []byte) {
	a.t.Helper()
	k := newKey(a.t)
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "leaf"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{usage}}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.cert, k.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	rawKey, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY",
		Bytes: rawKey})
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// client returns a client that trusts the server's CA and always shows a certificate of this one.
func (a *authority) client(server *authority) *http.Client {
	a.t.Helper()
	cert, err := tls.X509KeyPair(a.issue(9, x509.ExtKeyUsageClientAuth))
	if err != nil {
		a.t.Fatal(err)
	}
	return clientWith(server, func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil })
}

// clientWith returns a client that opens a new connection for every request.
func clientWith(server *authority, show func(*tls.CertificateRequestInfo) (*tls.Certificate, error)) *http.Client {
	pool := x509.NewCertPool()
	pool.AddCert(server.cert)
	return &http.Client{Timeout: 10 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, GetClientCertificate: show}}}
}

// tlsBot runs the bot with TLS until the test ends, and returns its address and the folder of its
// certificates.
func tlsBot(t *testing.T, ca *authority) (address, dir string) {
	t.Helper()
	dir = t.TempDir()
	cert, key := ca.issue(100, x509.ExtKeyUsageServerAuth)
	put(t, dir, "server.pem", cert)
	put(t, dir, "server.key", key)
	put(t, dir, "ca.pem", ca.pem())
	file := func(name string) string { return filepath.Join(dir, name) }
	put(t, dir, "paramedic.yaml", fmt.Appendf(nil,
		"listen: 127.0.0.1:0\nstate: {dir: %s}\ntls: {cert_file: %s, key_file: %s}\nauth: {alertmanager: {client_ca_file: %s}}\n",
		file("data"), file("server.pem"), file("server.key"), file("ca.pem")))
	ctx, stop := context.WithCancel(context.Background())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, file("paramedic.yaml"), slog.New(slog.NewTextHandler(in, nil)), io.Discard)
		in.Close()
	}()
	found := make(chan string, 1)
	read := make(chan struct{})
	go func() {
		defer close(read)
		listening := regexp.MustCompile(`msg=listening address=(https://\S+)`)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if m := listening.FindStringSubmatch(lines.Text()); m != nil {
				found <- m[1]
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serve ended: %v", err)
		}
		<-read
	})
	select {
	case address = <-found:
	case err := <-ended:
		ended <- nil
		t.Fatalf("serve did not start: %v", err)
	}
	return address, dir
}

func put(t *testing.T, dir, name string, raw []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

const oneAlert = `{"version":"4","status":"firing","receiver":"paramedic","groupKey":"g","groupLabels":{},"commonLabels":{},"commonAnnotations":{},"externalURL":"http://am",
"alerts":[{"status":"firing","labels":{"alertname":"HighTTFT","severity":"warning"},"annotations":{},"startsAt":"2026-11-21T12:00:00Z","endsAt":"0001-01-01T00:00:00Z","generatorURL":"","fingerprint":"00000000000000aa"}]}`

// post sends an alert and retries while the bot starts. It returns the status and the serial number
// of the server's certificate.
func post(t *testing.T, c *http.Client, address string) (status int, serial int64, err error) {
	t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		resp, err := c.Post(address+"/webhook/alertmanager", "application/json", strings.NewReader(oneAlert))
		if err != nil {
			return 0, 0, err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable {
			return resp.StatusCode, resp.TLS.PeerCertificates[0].SerialNumber.Int64(), nil
		}
		select {
		case <-again.C:
		case <-t.Context().Done():
			return 0, 0, t.Context().Err()
		}
	}
}

func TestAlertmanagerAuthenticatesByCertificate(t *testing.T) {
	ours, theirs := newAuthority(t, "ours"), newAuthority(t, "theirs")
	address, dir := tlsBot(t, ours)
	nobody := clientWith(ours, nil)

	if status, serial, err := post(t, ours.client(ours), address); status != http.StatusOK || serial != 100 {
		t.Errorf("with our certificate: %d, %v (server %d)", status, err, serial)
	}
	if status, _, err := post(t, nobody, address); status != http.StatusUnauthorized {
		t.Errorf("without a certificate: %d, %v", status, err)
	}
	if status, _, err := post(t, theirs.client(ours), address); err == nil {
		t.Errorf("with another CA's certificate: %d, and no failed handshake", status)
	}
	// A server certificate is not accepted as a client certificate.
	wrong, err := tls.X509KeyPair(ours.issue(9, x509.ExtKeyUsageServerAuth))
	if err != nil {
		t.Fatal(err)
	}
	if status, _, err := post(t, clientWith(ours, func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &wrong, nil }),
		address); err == nil {
		t.Errorf("with a server's certificate: %d, and no failed handshake", status)
	}

	// After half of a rotation nothing changes. After all of it, the next connection uses the new
	// files.
	cert, key := ours.issue(200, x509.ExtKeyUsageServerAuth)
	put(t, dir, "server.pem", cert)
	if status, serial, err := post(t, ours.client(ours), address); status != http.StatusOK || serial != 100 {
		t.Errorf("in the middle of a rotation: %d, %v (server %d)", status, err, serial)
	}
	put(t, dir, "server.key", key)
	if status, serial, err := post(t, ours.client(ours), address); status != http.StatusOK || serial != 200 {
		t.Errorf("after the rotation: %d, %v (server %d)", status, err, serial)
	}
	put(t, dir, "ca.pem", theirs.pem())
	if status, _, err := post(t, theirs.client(ours), address); status != http.StatusOK {
		t.Errorf("with the new CA's certificate: %d, %v", status, err)
	}
	if status, _, err := post(t, ours.client(ours), address); err == nil {
		t.Errorf("with the old CA's certificate: %d, and no failed handshake", status)
	}
}

// A new CA in the configuration applies from the next connection on, and clients of the old CA are
// refused.
func TestReloadReplacesTheClientCA(t *testing.T) {
	old, next := newAuthority(t, "old"), newAuthority(t, "next")
	dir := t.TempDir()
	cert, key := old.issue(100, x509.ExtKeyUsageServerAuth)
	put(t, dir, "server.pem", cert)
	put(t, dir, "server.key", key)
	put(t, dir, "old.pem", old.pem())
	put(t, dir, "next.pem", next.pem())
	file := func(name string) string { return filepath.Join(dir, name) }
	text := func(ca string) []byte {
		return fmt.Appendf(nil, "listen: 127.0.0.1:0\nstate: {dir: %s}\ntls: {cert_file: %s, key_file: %s}\nauth: {alertmanager: "+
			"{client_ca_file: %s}}\n",
			file("data"), file("server.pem"), file("server.key"), file(ca))
	}
	running, err := config.Parse("paramedic.yaml", text("old.pem"))
	if err != nil {
		t.Fatal(err)
	}
	deps := Deps{Store: idleStore{}, Clock: state.SystemClock{}, Logger: slog.New(slog.DiscardHandler)}
	host := NewHost()
	listener, err := host.Listen(running, deps.Logger)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close(deps.Logger)
	enters := func(a *authority) error {
		resp, err := a.client(old).Get("https://" + listener.Addr().String() + "/healthz")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err
	}
	if err := enters(old); err != nil {
		t.Fatal(err)
	}
	service, err := reload("paramedic.yaml", text("next.pem"), running, deps)
	if err != nil {
		t.Fatal(err)
	}
	host.Use(service)
	if err := enters(next); err != nil {
		t.Errorf("with the new CA's certificate: %v", err)
	}
	if err := enters(old); err == nil {
		t.Error("the old CA's certificate is still accepted")
	}
}
