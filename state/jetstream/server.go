package jetstream

import (
	"context"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"paramedic/state/jetstream/connect"
)

// connect sets s.nc, s.appending and s.js, and for an embedded server s.server.
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
		s.nc, err = connect.Dial(ctx, cfg.URL, cfg.Login(), s.log, opts...)
		s.appending = s.nc
	}
	if err != nil {
		return err
	}
	if have := s.nc.MaxPayload(); have < MaxValue {
		s.log.WarnContext(ctx, "the NATS server's max_payload is small: it refuses a larger webhook payload",
			"max_payload", have, "advised", MaxValue)
	}
	s.js, err = natsjs.New(s.nc, natsjs.WithDefaultTimeout(opTimeout))
	return err
}

// mostPayload returns the most bytes of a message. The connection knows it, too, but asking waits
// for its writes to the embedded server.
func (s *Store) mostPayload() int64 {
	if s.server != nil {
		return maxPayload
	}
	return s.nc.MaxPayload()
}

// Login returns what authenticates the bot at an external server.
func (c *Config) Login() connect.Login {
	return connect.Login{CredentialsFile: c.CredentialsFile, TLS: c.TLS}
}

// embed starts the server, and connects to it twice.
func (s *Store) embed(dir string, opts []nats.Option) error {
	var err error
	s.server, err = connect.Start(connect.Files{Dir: dir, MaxPayload: maxPayload, Expiring: stateStream, Logger: s.log})
	if err != nil {
		return err
	}
	if s.nc, err = s.server.Connect(opts...); err == nil {
		s.appending, err = s.server.Connect(opts...)
	}
	return err
}
