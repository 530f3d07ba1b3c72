package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
)

// connect sets s.nc and s.js, and for an embedded server s.lock and s.server.
func (s *Store) connect(ctx context.Context, cfg Config) error {
	opts := []nats.Option{
		nats.Name("paramedic"),
		nats.MaxReconnects(-1),
		// A write without a connection fails now. It must not wait in memory and count as durable.
		nats.ReconnectBufSize(-1),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			s.log.WarnContext(ctx, "nats connection", "err", err)
		}),
	}
	var err error
	if cfg.Dir != "" {
		if err := cfg.checkFiles(); err != nil {
			return err
		}
		s.nc, err = s.embed(cfg.Dir, opts)
	} else {
		s.nc, err = dial(ctx, cfg, s.log, opts)
	}
	if err != nil {
		return err
	}
	s.js, err = natsjs.New(s.nc, natsjs.WithDefaultTimeout(opTimeout))
	return err
}

func (s *Store) embed(dir string, opts []nats.Option) (*nats.Conn, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the state directory: %w", err)
	}
	var err error
	if s.lock, err = lockDir(filepath.Join(dir, "LOCK")); err != nil {
		return nil, err
	}
	s.server = &embedded{dir: dir, log: s.log}
	if err := s.server.start(); err != nil {
		return nil, err
	}
	return nats.Connect("", append(opts, nats.InProcessServer(s.server), nats.ReconnectWait(100*time.Millisecond))...)
}

// dial waits for the external server until the context ends.
func dial(ctx context.Context, cfg Config, log *slog.Logger, opts []nats.Option) (*nats.Conn, error) {
	if cfg.CredentialsFile != "" {
		user, err := credentials(cfg.CredentialsFile)
		if err != nil {
			return nil, fmt.Errorf("state.nats.credentials_file: %w", err)
		}
		opts = append(opts, user)
	}
	connected := make(chan struct{}, 1)
	opts = append(opts,
		nats.RetryOnFailedConnect(true),
		nats.ConnectHandler(func(*nats.Conn) { connected <- struct{}{} }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { log.WarnContext(ctx, "lost the NATS server", "err", err) }),
		nats.ReconnectHandler(func(nc *nats.Conn) { log.InfoContext(ctx, "reconnected to NATS", "server", nc.ConnectedServerName()) }),
	)
	nc, err := nats.Connect(cfg.URL, opts...)
	if err != nil {
		return nil, fmt.Errorf("connecting to NATS (state.nats.url): %w", err)
	}
	select {
	case <-connected:
	case <-ctx.Done():
		err := errors.Join(nc.LastError(), ctx.Err())
		nc.Close()
		return nil, fmt.Errorf("connecting to NATS (state.nats.url): %w", err)
	}
	if have := nc.MaxPayload(); have < MaxValue {
		log.WarnContext(ctx, "the NATS server's max_payload is small: it refuses a larger webhook payload",
			"max_payload", have, "advised", MaxValue)
	}
	return nc, nil
}

// credentials returns the option for a user's file: a JWT with its seed (.creds), or the seed of an
// NKey alone. The file is read again for each connection.
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

// serverLog sends the embedded server's log to slog. The server's notices do not concern an
// operator of Paramedic.
type serverLog struct{ log *slog.Logger }

func (l serverLog) Noticef(f string, v ...any) { l.say(slog.LevelDebug, f, v) }
func (l serverLog) Warnf(f string, v ...any)   { l.say(slog.LevelWarn, f, v) }
func (l serverLog) Fatalf(f string, v ...any)  { l.say(slog.LevelError, f, v) }
func (l serverLog) Errorf(f string, v ...any)  { l.say(slog.LevelError, f, v) }
func (l serverLog) Debugf(string, ...any)      {}
func (l serverLog) Tracef(string, ...any)      {}

func (l serverLog) say(level slog.Level, f string, v []any) {
	l.log.Log(context.Background(), level, "nats-server", "said", strings.TrimSpace(fmt.Sprintf(f, v...)))
}
