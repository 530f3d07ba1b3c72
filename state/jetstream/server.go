package jetstream

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
)

// connect sets s.nc, s.appending and s.js, and for an embedded server s.lock and s.server.
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
		err = s.embed(cfg.Dir, opts)
	} else {
		s.nc, err = dial(ctx, cfg, s.log, opts)
		s.appending = s.nc
	}
	if err != nil {
		return err
	}
	s.js, err = natsjs.New(s.nc, natsjs.WithDefaultTimeout(opTimeout))
	return err
}

// embed starts the server, and connects to it twice.
func (s *Store) embed(dir string, opts []nats.Option) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the state directory: %w", err)
	}
	var err error
	if s.lock, err = lockDir(filepath.Join(dir, "LOCK")); err != nil {
		return err
	}
	s.server = &embedded{dir: dir, log: s.log}
	if err := s.server.start(); err != nil {
		return err
	}
	opts = append(opts, nats.InProcessServer(s.server), nats.ReconnectWait(100*time.Millisecond))
	if s.nc, err = nats.Connect("", opts...); err == nil {
		s.appending, err = nats.Connect("", opts...)
	}
	return err
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
