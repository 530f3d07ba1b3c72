package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"paramedic/state"
	"paramedic/state/jetstream"
	"paramedic/webhook/access"
	"paramedic/webhook/alertmanager"
)

func (c *cli) serveCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the bot",
		Long:  "Run the bot. Without a configuration it listens on loopback, remembers in ./paramedic-data, prints incidents on the\nconsole and only suggests first aid.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.serve(cmd.Context(), path)
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "configuration file (docs/reference/configuration.md)")
	return cmd
}

// Shutting down is bounded: requests are answered and deliveries finished within these, and what is
// left goes on at the next start.
const (
	drainTime = 4 * time.Second
	closeTime = 3 * time.Second
)

// serve runs the bot until the context ends.
func (c *cli) serve(ctx context.Context, path string) error {
	cfg, err := LoadConfig(path)
	if err != nil {
		return fmt.Errorf("the configuration is not valid:\n%w", err)
	}
	log := c.logger()
	host := newHost()
	listener, err := host.listen(cfg, log)
	if err != nil {
		return err
	}
	defer host.close(log)
	log.Info("opening the state", "where", cmp.Or(cfg.embeddedDir(), cfg.State.NATS.URL)) // until then only /healthz is answered
	store, err := jetstream.Open(ctx, jetstream.Config{Dir: cfg.embeddedDir(), URL: cfg.State.NATS.URL, CredentialsFile: cfg.State.NATS.CredentialsFile,
		Replicas: cfg.State.NATS.Replicas, Retain: cfg.State.Retain.D(), Logger: log})
	if err != nil {
		return fmt.Errorf("opening the state: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		if err := store.Close(ctx); err != nil {
			log.Warn("the state was not closed in time", "err", err)
		}
	}()
	log.Info("listening", "address", scheme(cfg)+"://"+listener.Addr().String())
	deps := Deps{Store: store, Clock: state.SystemClock{}, Logger: log, Out: c.out}
	return serveGenerations(ctx, path, cfg, deps, host)
}

// embeddedDir is the embedded store's directory; empty where an external one is configured.
func (c Config) embeddedDir() string {
	if c.State.NATS.URL != "" {
		return ""
	}
	return c.State.Dir
}

// serveGenerations runs the service, and makes a new one whenever the configuration has changed and
// is valid. The store, and with it everything that was accepted, outlives them all, and so do the
// listener and what the metrics have counted.
func serveGenerations(ctx context.Context, path string, cfg Config, deps Deps, host *host) error {
	deps.Metrics, deps.Aside, deps.Sessions = newMetrics(), &alertmanager.Aside{}, &access.Sessions{}
	service, err := newService(cfg, deps)
	if err != nil {
		return err
	}
	changes := watchConfig(ctx, path, cfg, deps)
	for {
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- service.Run(running) }()
		host.use(service)
		select {
		case err := <-ended:
			stop()
			return err
		case <-ctx.Done():
			service.closeStreams()
			host.drain(deps.Logger) // intake first: what is accepted now is in the log before the rooms close
			stop()
			return <-ended
		case next := <-changes:
			service.closeStreams() // browsers connect again
			stop()
			if err := <-ended; err != nil {
				return err
			}
			service = next
			deps.Logger.Info("configuration applied")
		}
	}
}

// watchEvery is how often the configuration file is looked at. A ConfigMap takes longer than that
// to arrive.
const watchEvery = 3 * time.Second

// watchConfig gives a service made of every valid new version of the configuration file. One that
// is not valid is refused with all of its problems, and the old one stays.
func watchConfig(ctx context.Context, path string, cfg Config, deps Deps) <-chan *service {
	out := make(chan *service)
	if path == "" {
		return out
	}
	go func() {
		last, _ := os.ReadFile(path)
		for {
			select {
			case <-ctx.Done():
				return
			case <-deps.Clock.After(watchEvery):
			}
			raw, err := os.ReadFile(path)
			if err != nil || string(raw) == string(last) {
				continue // a file that is being replaced may be away for a moment
			}
			last = raw
			next, err := reload(path, raw, cfg, deps)
			if err != nil {
				deps.Logger.Error("the changed configuration is refused, the old one stays", "err", err)
				continue
			}
			select {
			case out <- next:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// reload makes a service of a changed configuration. What the listener and the store are made of
// cannot change while they are in use, and what stays has to be valid together with what is new: an
// address that is still open to all must not lose its authentication.
func reload(path string, raw []byte, running Config, deps Deps) (*service, error) {
	cfg, err := ParseConfig(path, raw)
	if err != nil {
		return nil, err
	}
	if cfg.Listen != running.Listen || cfg.State != running.State || cfg.TLS != running.TLS {
		deps.Logger.Warn("listen, state and tls take effect at the next start")
		cfg.Listen, cfg.State, cfg.TLS = running.Listen, running.State, running.TLS
		if err := validate(path, &cfg); err != nil {
			return nil, fmt.Errorf("it is not valid with the listen, state and tls that the bot runs with until then:\n%w", err)
		}
	}
	return newService(cfg, deps)
}

// A host is the HTTP server with a handler, and a judgement of clients' certificates, that can be
// exchanged.
type host struct {
	server  *http.Server
	current atomic.Pointer[http.Handler]
	tls     atomic.Pointer[tls.Config]
	served  chan error
}

func newHost() *host {
	h := &host{served: make(chan error, 1)}
	h.server = &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	return h
}

// ServeHTTP answers with the current service; before the first is up, only that the process lives.
func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if handler := h.current.Load(); handler != nil {
		(*handler).ServeHTTP(w, r)
		return
	}
	if r.URL.Path == "/healthz" {
		fmt.Fprintln(w, "ok")
		return
	}
	w.Header().Set("Retry-After", "2")
	http.Error(w, "starting", http.StatusServiceUnavailable)
}

// use serves with a service from the next request and the next connection on.
func (h *host) use(s *service) {
	h.tls.Store(s.tls)
	h.current.Store(&s.handler)
}

// listen begins to serve, before the store is open, so that liveness is answered while a large
// state is read.
func (h *host) listen(cfg Config, log *slog.Logger) (net.Listener, error) {
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w (is another bot running there? set listen)", cfg.Listen, err)
	}
	h.server.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	if cfg.TLS.CertFile != "" {
		conf, err := serverTLS(cfg, log)
		if err != nil {
			listener.Close()
			return nil, err
		}
		h.tls.Store(conf)
		listener = tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			return h.tls.Load().GetConfigForClient(hello)
		}})
	}
	go func() { h.served <- h.server.Serve(listener) }()
	return listener, nil
}

// drain stops taking requests and waits for those in flight; streams end at once.
func (h *host) drain(log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	if err := h.server.Shutdown(ctx); err != nil {
		log.Debug("requests were cut off", "err", err)
	}
}

func (h *host) close(log *slog.Logger) {
	if err := h.server.Close(); err != nil {
		log.Debug("closing the listener", "err", err)
	}
	if err := <-h.served; err != nil && !errors.Is(err, http.ErrServerClosed) {
		log.Warn("the listener ended", "err", err)
	}
}
