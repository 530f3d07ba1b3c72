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
// tried again, because a file that it names, such as a secret, may arrive later. A change counts
// once two looks have found the same file, because an editor may still be writing. A signal makes
// one look count.
func watchConfig(ctx context.Context, path string, read []byte, cfg config.Config, deps Deps, signals <-chan os.Signal) <-chan *Service {
	out := make(chan *Service)
	if path == "" {
		return out
	}
	go func() {
		refused, seen := "", read
		refuse := func(err error) {
			if err.Error() != refused {
				deps.Logger.ErrorContext(ctx, "the changed configuration is invalid; the bot keeps the old one", "err", err)
			}
			refused = err.Error()
		}
		for {
			asked := false
			select {
			case <-ctx.Done():
				return
			case <-signals:
				asked, refused = true, ""
			case <-deps.Clock.After(watchEvery):
			}
			raw, err := os.ReadFile(path)
			settled := asked || bytes.Equal(raw, seen)
			seen = raw
			switch {
			case !settled:
				continue
			case err != nil:
				refuse(err)
				continue
			case len(bytes.TrimSpace(raw)) == 0:
				refuse(fmt.Errorf("%s is empty", path))
				continue
			case bytes.Equal(raw, read):
				if asked {
					deps.Logger.InfoContext(ctx, "the configuration has not changed")
				}
				refused = ""
				continue
			}
			next, err := reload(path, raw, cfg, deps)
			if err != nil {
				refuse(err)
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
