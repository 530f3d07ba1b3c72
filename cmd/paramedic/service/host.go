package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"paramedic/cmd/paramedic/config"
)

// A Host is the bot's HTTP server. A reload replaces its handler and its TLS settings.
type Host struct {
	server  *http.Server
	current atomic.Pointer[http.Handler]
	tls     atomic.Pointer[tls.Config]
	served  chan error
}

// NewHost creates a host without a service.
func NewHost() *Host {
	h := &Host{served: make(chan error, 1)}
	h.server = &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	return h
}

// ServeHTTP passes requests to the current service. Before the first service runs, it answers only
// /healthz.
func (h *Host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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

// Use switches to a service, from the next request and the next connection on.
func (h *Host) Use(s *Service) {
	h.tls.Store(s.tls)
	h.current.Store(&s.Handler)
}

// Listen starts the server. It runs before the store is open, so that the liveness probe is
// answered while the bot reads a large state.
func (h *Host) Listen(cfg config.Config, log *slog.Logger) (net.Listener, error) {
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w. If another program uses this address, set listen", cfg.Listen, err)
	}
	h.server.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	if cfg.TLS.CertFile != "" {
		conf, err := serverTLS(cfg, log)
		if err != nil {
			listener.Close()
			return nil, err
		}
		h.tls.Store(conf)
		listener = tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS12,
			GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
				return h.tls.Load().GetConfigForClient(hello)
			}})
	}
	go func() { h.served <- h.server.Serve(listener) }()
	return listener, nil
}

// Drain stops accepting requests and waits for those in flight.
func (h *Host) Drain(log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	if err := h.server.Shutdown(ctx); err != nil {
		log.DebugContext(ctx, "requests were cut off", "err", err)
	}
}

// Close ends the listener and all connections.
func (h *Host) Close(log *slog.Logger) {
	if err := h.server.Close(); err != nil {
		log.Debug("closing the listener", "err", err)
	}
	if err := <-h.served; err != nil && !errors.Is(err, http.ErrServerClosed) {
		log.Warn("the listener ended", "err", err)
	}
}
