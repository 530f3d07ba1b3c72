package service

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	"paramedic/cmd/paramedic/config"
)

// watchEvery is the interval at which the configuration file is read. A changed ConfigMap takes
// longer than that to arrive.
const watchEvery = 3 * time.Second

// watchConfig sends a new service for every valid change of the configuration file since it was
// read. It logs all problems of an invalid change, and the running service stays. The change is
// tried again, because a file that it names, such as a secret, may arrive later.
func watchConfig(ctx context.Context, path string, read []byte, cfg config.Config, deps Deps) <-chan *Service {
	out := make(chan *Service)
	if path == "" {
		return out
	}
	go func() {
		refused := ""
		for {
			select {
			case <-ctx.Done():
				return
			case <-deps.Clock.After(watchEvery):
			}
			raw, err := os.ReadFile(path)
			if err != nil || bytes.Equal(raw, read) {
				continue // a file that is being replaced may be away for a moment
			}
			next, err := reload(path, raw, cfg, deps)
			if err != nil {
				if err.Error() != refused {
					deps.Logger.ErrorContext(ctx, "the changed configuration is invalid; the bot keeps the old one", "err", err)
				}
				refused = err.Error()
				continue
			}
			read, refused = raw, ""
			select {
			case out <- next:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// reload creates a service for a changed configuration. The listener and the store are in use, so
// listen, tls and state keep their running values. The result is validated again: an address that
// others can reach must not lose its authentication.
func reload(path string, raw []byte, running config.Config, deps Deps) (*Service, error) {
	cfg, err := config.Parse(path, raw)
	if err != nil {
		return nil, err
	}
	later := cfg.Listen != running.Listen || cfg.State != running.State || cfg.TLS != running.TLS
	if later {
		cfg.Listen, cfg.State, cfg.TLS = running.Listen, running.State, running.TLS
		if err := config.Validate(path, &cfg); err != nil {
			return nil, fmt.Errorf("it is invalid together with the present listen, state and tls, which stay until "+
				"the next start:\n%w", err)
		}
	}
	next, err := New(cfg, deps)
	if later && err == nil { // a change that is refused is tried again, and must not fill the log
		deps.Logger.Warn("listen, state and tls take effect at the next start")
	}
	return next, err
}
