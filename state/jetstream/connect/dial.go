package connect

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// TLSFiles names the PEM files for TLS to an external server. Each is read again for each
// connection. If any is set, a server without TLS is refused.
type TLSFiles struct {
	CA   string // of the servers' certificates, instead of the system's authorities; empty: the system's
	Cert string // the client's certificate chain; empty: none
	Key  string // of Cert
}

// options returns the options of a connection. It reads the files once, to report what is wrong
// with them now.
func (f TLSFiles) options() ([]nats.Option, error) {
	var cert nats.TLSCertHandler
	if f.Cert != "" || f.Key != "" {
		cert = f.certificate
		if _, err := cert(); err != nil {
			return nil, err
		}
	}
	var authorities nats.RootCAsHandler
	if f.CA != "" {
		authorities = f.authorities
		if _, err := authorities(); err != nil {
			return nil, err
		}
	}
	if cert == nil && authorities == nil {
		return nil, nil
	}
	return []nats.Option{nats.ClientTLSConfig(cert, authorities)}, nil
}

func (f TLSFiles) certificate() (tls.Certificate, error) {
	if f.Cert == "" || f.Key == "" {
		return tls.Certificate{}, errors.New("state.nats needs both cert_file and key_file")
	}
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return pair, fmt.Errorf("state.nats.cert_file and key_file: %w", err)
	}
	return pair, nil
}

func (f TLSFiles) authorities() (*x509.CertPool, error) {
	raw, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, fmt.Errorf("state.nats.ca_file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("state.nats.ca_file: %s has no certificate in PEM format", f.CA)
	}
	return pool, nil
}

// A Login authenticates the bot and the servers to each other.
type Login struct {
	CredentialsFile string // a .creds file, or an NKey seed; empty: none
	TLS             TLSFiles
}

// Options returns the options of a connection with this login. It reads the files once, to report
// what is wrong with them now.
func (l Login) Options() ([]nats.Option, error) {
	opts, err := l.TLS.options()
	if err != nil || l.CredentialsFile == "" {
		return opts, err
	}
	user, err := credentials(l.CredentialsFile)
	if err != nil {
		return nil, fmt.Errorf("state.nats.credentials_file: %w", err)
	}
	return append(opts, user), nil
}

// Dial connects to an external server. It waits for one until the context ends.
func Dial(ctx context.Context, urls string, as Login, log *slog.Logger, opts ...nats.Option) (*nats.Conn, error) {
	secure, err := as.Options()
	if err != nil {
		return nil, err
	}
	opts = append(opts, secure...)
	connected, refused := make(chan struct{}, 1), &refusals{log: log}
	opts = append(opts,
		nats.RetryOnFailedConnect(true),
		nats.ConnectHandler(func(*nats.Conn) { connected <- struct{}{} }),
		// A certificate or credentials may be replaced late. The files are read again each time.
		nats.IgnoreAuthErrorAbort(),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { refused.failed(ctx, err) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused.said(ctx, err) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { log.WarnContext(ctx, "lost the NATS server", "err", err) }),
		nats.ReconnectHandler(func(nc *nats.Conn) { log.InfoContext(ctx, "reconnected to NATS", "server", nc.ConnectedServerName()) }),
	)
	nc, err := nats.Connect(urls, opts...)
	if err != nil {
		return nil, fmt.Errorf("connecting to NATS (state.nats.url): %w", WithoutURL(err))
	}
	select {
	case <-connected:
	case <-ctx.Done():
		err := errors.Join(refused.newest(), ctx.Err())
		nc.Close()
		return nil, fmt.Errorf("connecting to NATS (state.nats.url): %w", err)
	}
	return nc, nil
}

// Addresses returns the hosts and ports of URLs, without the passwords that they may have.
func Addresses(urls string) string {
	out := strings.Split(urls, ",")
	for i, u := range out {
		u = strings.TrimSpace(u)
		if _, rest, ok := strings.Cut(u, "://"); ok {
			u = rest
		}
		out[i] = u[strings.LastIndex(u, "@")+1:]
	}
	return strings.Join(out, ", ")
}

// WithoutURL returns the error, or another one in place of an error that quotes the URL, which may
// have a password.
func WithoutURL(err error) error {
	if quotes := (*url.Error)(nil); errors.As(err, &quotes) {
		return errors.New("it is not a URL such as nats://nats-0:4222")
	}
	return err
}

// refusals holds why no connection comes about. A failed attempt is logged at most once a minute.
type refusals struct {
	log    *slog.Logger
	mu     sync.Mutex
	last   error
	logged time.Time
}

// failed adds a failed attempt to connect.
func (r *refusals) failed(ctx context.Context, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = err
	if now := time.Now(); now.Sub(r.logged) >= time.Minute {
		r.logged = now
		r.log.WarnContext(ctx, "no connection to NATS, Paramedic tries again", "err", err)
	}
}

// said logs an error that the connected server reports. A server refuses a user this way.
func (r *refusals) said(ctx context.Context, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = err
	r.log.WarnContext(ctx, "nats connection", "err", err)
}

func (r *refusals) newest() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// credentials returns the option for a user's file: a JWT with its seed (.creds), or the seed of an
// NKey alone. A .creds file is read again for each connection. Another NKey needs a new start.
func credentials(path string) (nats.Option, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if bytes.Contains(raw, []byte("BEGIN NATS USER JWT")) {
		return nats.UserCredentials(path), nil
	}
	user, err := nats.NkeyOptionFromSeed(path)
	if err != nil {
		return nil, fmt.Errorf("%s holds neither a user's JWT with its seed (.creds) nor a user's NKey seed (SU…): %w", path, err)
	}
	return user, nil
}
