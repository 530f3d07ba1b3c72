package service

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"paramedic/cmd/paramedic/config"
	"paramedic/state"
	"paramedic/state/jetstream"
	"paramedic/state/jetstream/connect"
	"paramedic/webhook/access"
	"paramedic/webhook/alertmanager"
)

// Shutdown is bounded: the handover to another replica gets handOverTime, requests get drainTime,
// and the store gets closeTime. What is left continues at the next start.
const (
	handOverTime = 4 * time.Second
	drainTime    = 4 * time.Second
	closeTime    = 3 * time.Second
)

// Serve runs the bot until the context ends. If the path is empty, it uses the default
// configuration.
func Serve(ctx context.Context, path string, log *slog.Logger, out io.Writer) error {
	read, _ := os.ReadFile(path) // before the load: a change after it is a change
	cfg, err := config.Load(path)
	if err != nil {
		return fmt.Errorf("the configuration is not valid:\n%w", err)
	}
	host := NewHost()
	listener, err := host.Listen(cfg, log)
	if err != nil {
		return err
	}
	defer host.Close(log)
	knowledge := loadAhead(cfg)
	// Until the store is open, only /healthz is answered.
	log.InfoContext(ctx, "opening the state", "where", cmp.Or(cfg.EmbeddedDir(), connect.Addresses(cfg.State.NATS.URL)))
	store, err := jetstream.Open(ctx, StoreConfig(cfg, log))
	if err != nil {
		return fmt.Errorf("opening the state: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		if err := store.Close(ctx); err != nil {
			log.WarnContext(ctx, "the state was not closed in time", "err", err)
		}
	}()
	log.InfoContext(ctx, "listening", "address", config.Scheme(cfg)+"://"+listener.Addr().String())
	limitMemory(ctx, log)
	deps := Deps{Store: store, Clock: state.SystemClock{}, Logger: log, Out: out, loadKnowledge: knowledge}
	return serveGenerations(ctx, path, read, cfg, deps, host)
}

// StoreConfig returns the settings of the store of a configuration.
func StoreConfig(cfg config.Config, log *slog.Logger) jetstream.Config {
	return jetstream.Config{Dir: cfg.EmbeddedDir(), URL: cfg.State.NATS.URL, CredentialsFile: cfg.State.NATS.CredentialsFile,
		TLS:      connect.TLSFiles{CA: cfg.State.NATS.CAFile, Cert: cfg.State.NATS.CertFile, Key: cfg.State.NATS.KeyFile},
		Replicas: cfg.State.NATS.Replicas, Retain: cfg.State.Retain.D(), Version: Version, Logger: log}
}

// serveGenerations runs the service, and replaces it after every valid change of the configuration.
// The store, the listener and the metrics outlive the services.
func serveGenerations(ctx context.Context, path string, read []byte, cfg config.Config, deps Deps, host *Host) error {
	deps.metrics, deps.aside, deps.sessions = newMetrics(), &alertmanager.Aside{}, &access.Sessions{}
	service, err := New(cfg, deps)
	if err != nil {
		return err
	}
	deps.loadKnowledge = nil // it was for this configuration
	watching, stop := context.WithCancel(ctx)
	defer stop()
	keepMemory(watching)
	reloads := make(chan os.Signal, 1)
	signal.Notify(reloads, syscall.SIGHUP)
	defer signal.Stop(reloads)
	changes := watchConfig(ctx, path, read, cfg, deps, reloads)
	for {
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- service.Run(running) }()
		host.Use(service)
		select {
		case err := <-ended:
			stop()
			return err
		case <-ctx.Done():
			service.CloseStreams()
			service.HandOver(handOverTime)
			host.Drain(deps.Logger) // intake first: what is accepted now is in the log before the rooms close
			stop()
			return <-ended
		case next := <-changes:
			service.CloseStreams() // browsers connect again
			stop()
			if err := <-ended; err != nil { // its deliveries are tried again by the next one
				deps.Logger.WarnContext(ctx, "the service of the old configuration did not end cleanly", "err", err)
			}
			service = next
			deps.Logger.InfoContext(ctx, "configuration applied")
		}
	}
}
