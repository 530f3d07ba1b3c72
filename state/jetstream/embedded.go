package jetstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const startTimeout = 30 * time.Second

// An embedded is the NATS server in this process. It can be stopped and started again under its clients: they connect again, as they
// would to any server that was away.
type embedded struct {
	dir string
	log *slog.Logger

	mu      sync.Mutex
	srv     *server.Server // nil: it does not run
	closed  bool
	scanned bool // its files were read anew since the process began
}

// start starts the server; the caller holds the lock, or is the only one that knows of it.
func (e *embedded) start() error {
	srv, err := server.NewServer(&server.Options{
		ServerName: "paramedic",
		DontListen: true,
		JetStream:  true,
		StoreDir:   e.dir,
		SyncAlways: true,
		NoSigs:     true,
		MaxPayload: maxPayload,
		MaxPending: 256 << 20,
		// The default is a share of the memory and the disk that were there at the start; a full disk refuses writes by itself.
		JetStreamMaxMemory: 64 << 20,
		JetStreamMaxStore:  1 << 50,
	})
	if err != nil {
		return fmt.Errorf("configuring the embedded NATS server: %w", err)
	}
	srv.SetLogger(serverLog{e.log}, false, false)
	srv.Start()
	if !srv.ReadyForConnections(startTimeout) {
		srv.Shutdown()
		return fmt.Errorf("the embedded NATS server in %s did not start within %s; its log says why", e.dir, startTimeout)
	}
	e.srv = srv
	return nil
}

// InProcessConn connects a client, and waits while the server is being opened again.
func (e *embedded) InProcessConn() (net.Conn, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.srv == nil {
		return nil, errors.New("the embedded NATS server does not run")
	}
	return e.srv.InProcessConn()
}

// reopen stops the server, does what can only be done to its files while it is stopped, and starts it.
func (e *embedded) reopen(meanwhile func() error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return errClosed
	}
	if e.srv != nil {
		e.srv.Shutdown()
		e.srv.WaitForShutdown()
		e.srv = nil
	}
	return errors.Join(meanwhile(), e.start())
}

// rescan makes the server read the stream's files anew, once in a process. It then drops what is damaged; with its index at hand it
// would keep to it, and stop to write once it comes across the damage.
func (e *embedded) rescan(stream string) (done bool, err error) {
	e.mu.Lock()
	scanned := e.scanned
	e.scanned = true
	e.mu.Unlock()
	if scanned {
		return false, nil
	}
	e.log.Warn("opening the embedded store again, to read its files anew", "stream", stream)
	return true, e.reopen(func() error { return e.forgetIndex(stream) })
}

// forgetIndex removes the stream's index, so that the next start reads its files.
func (e *embedded) forgetIndex(stream string) error {
	files, err := filepath.Glob(filepath.Join(e.dir, "jetstream", "*", "streams", stream, "msgs", "index.db"))
	if err != nil {
		return fmt.Errorf("looking for the index of stream %s: %w", stream, err)
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			return fmt.Errorf("removing the index of stream %s: %w", stream, err)
		}
	}
	return nil
}

// close stops the server for good.
func (e *embedded) close(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	if e.srv == nil {
		return nil
	}
	e.srv.Shutdown()
	done := make(chan struct{})
	go func() { e.srv.WaitForShutdown(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stopping the embedded NATS server: %w", ctx.Err())
	}
}
