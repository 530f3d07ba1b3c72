package natstest

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// ServeFile runs a server with a configuration file until the process ends, for a test that kills
// it.
func ServeFile(path string) error {
	opts, err := server.ProcessConfigFile(path)
	if err != nil {
		return fmt.Errorf("reading the configuration of a NATS server: %w", err)
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("making a NATS server: %w", err)
	}
	srv.ConfigureLogger()
	srv.Start()
	if !srv.ReadyForConnections(time.Minute) {
		return errors.New("the NATS server did not start")
	}
	srv.WaitForShutdown()
	return nil
}
