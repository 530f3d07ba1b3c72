package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
)

// serverTLS reads the certificate and the clients' CA anew for every connection, so that both may
// be rotated while the bot runs. While they cannot be read, as in the middle of a rotation, those
// that were read last stay.
func serverTLS(cfg Config, log *slog.Logger) (*tls.Config, error) {
	first, err := loadTLS(cfg)
	if err != nil {
		return nil, err
	}
	var last atomic.Pointer[tls.Config]
	last.Store(first)
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now, err := loadTLS(cfg)
		if err != nil {
			log.Warn("the changed certificates cannot be used, the old ones stay", "err", err)
			return last.Load(), nil
		}
		last.Store(now)
		return now, nil
	}}, nil
}

// loadTLS reads the files as they are now.
func loadTLS(cfg Config) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(cfg.TLS.CertFile, cfg.TLS.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	// A resumed session would let in whom an older CA had let in.
	conf := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, SessionTicketsDisabled: true}
	ca := cfg.Auth.Alertmanager.ClientCAFile
	if ca == "" {
		return conf, nil
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("auth.alertmanager.client_ca_file: %w", err)
	}
	conf.ClientCAs, conf.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
	if !conf.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("auth.alertmanager.client_ca_file: %s holds no certificate", ca)
	}
	return conf, nil
}
