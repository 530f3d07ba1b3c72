package service

import (
	"crypto/tls"
	"log/slog"
	"sync/atomic"

	"paramedic/cmd/paramedic/config"
)

// serverTLS reads the certificate and the clients' CA anew for every connection, so that both may
// be rotated while the bot runs. While they cannot be read, as in the middle of a rotation, those
// that were read last stay.
func serverTLS(cfg config.Config, log *slog.Logger) (*tls.Config, error) {
	first, err := config.LoadTLS(cfg)
	if err != nil {
		return nil, err
	}
	var last atomic.Pointer[tls.Config]
	last.Store(first)
	return &tls.Config{MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			now, err := config.LoadTLS(cfg)
			if err != nil {
				log.Warn("the changed certificates cannot be used, the old ones stay", "err", err)
				return last.Load(), nil
			}
			last.Store(now)
			return now, nil
		}}, nil
}
