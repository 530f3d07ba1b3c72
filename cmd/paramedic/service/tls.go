package service

import (
	"crypto/tls"
	"log/slog"
	"sync/atomic"

	"paramedic/cmd/paramedic/config"
)

// serverTLS returns settings that read the certificate and the clients' CA for every connection, so
// that both can be rotated while the bot runs. If they cannot be read, as during a rotation, the
// last valid ones stay.
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
				log.Warn("the changed certificates are invalid; the bot keeps the old ones", "err", err)
				return last.Load(), nil
			}
			last.Store(now)
			return now, nil
		}}, nil
}
