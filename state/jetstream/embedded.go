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
	"github.com/nats-io/nats-server/v2/server/thw"
)

const startTimeout = 30 * time.Second

// An embedded is the NATS server in this process. It can be restarted under its clients, which
// reconnect as to any server.
type embedded struct {
	dir string
	log *slog.Logger

	mu      sync.Mutex
	srv     *server.Server // nil: not running
	closed  bool
	scanned bool // its files were read anew since the process began
}

// start starts the server. The caller holds the lock, or nothing else has a reference to it yet.
//
// The server has a file of the times at which sequences expire. If the end of the stream was lost
// since that file was written, new records get the lost sequences. The server would remove them at
// the times of the lost ones (nats-server 2.15.2). In this case start deletes the file and starts
// again: the server then reads the times from the messages.
func (e *embedded) start() error {
	upTo, err := e.expiries(stateStream)
	if err != nil {
		return err
	}
	srv, err := e.run()
	if err != nil {
		return err
	}
	last, err := lastSequence(srv, stateStream)
	switch {
	case err != nil:
		srv.Shutdown()
		return err
	case last+1 < upTo:
		e.log.Warn("the end of the state stream is lost, the disk may be damaged: Paramedic reads again which records expire",
			"stream", stateStream, "ends", last, "ended", upTo-1)
		srv.Shutdown()
		srv.WaitForShutdown()
		if err := e.forget(stateStream, expiriesFile); err != nil {
			return err
		}
		if srv, err = e.run(); err != nil {
			return err
		}
	}
	e.srv = srv
	return nil
}

// expiries returns the sequence after the last one in the stream's file of expiries, or 0 if there
// is no such file.
func (e *embedded) expiries(stream string) (upTo uint64, err error) {
	files, err := e.files(stream, expiriesFile)
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return 0, fmt.Errorf("reading which records of stream %s expire: %w", stream, err)
		}
		if n, err := thw.NewHashWheel().Decode(data); err == nil { // the server removes a file that it cannot decode
			upTo = max(upTo, n)
		}
	}
	return upTo, nil
}

// lastSequence returns the sequence of the stream's newest message, or 0 if there is no stream.
func lastSequence(srv *server.Server, stream string) (uint64, error) {
	info, err := srv.Jsz(&server.JSzOptions{Accounts: true, Streams: true})
	if err != nil {
		return 0, fmt.Errorf("asking the embedded NATS server for its streams: %w", err)
	}
	for _, account := range info.AccountDetails {
		for _, s := range account.Streams {
			if s.Name == stream {
				return s.State.LastSeq, nil
			}
		}
	}
	return 0, nil
}

// run starts a server on the files.
func (e *embedded) run() (*server.Server, error) {
	srv, err := server.NewServer(&server.Options{
		ServerName: "paramedic",
		DontListen: true,
		JetStream:  true,
		StoreDir:   e.dir,
		SyncAlways: true,
		NoSigs:     true,
		MaxPayload: maxPayload,
		MaxPending: 256 << 20,
		// The default is a share of the memory and the disk at the start. A full disk refuses
		// writes by itself.
		JetStreamMaxMemory: 64 << 20,
		JetStreamMaxStore:  1 << 50,
	})
	if err != nil {
		return nil, fmt.Errorf("configuring the embedded NATS server: %w", err)
	}
	srv.SetLogger(serverLog{e.log}, false, false)
	srv.Start()
	if !srv.ReadyForConnections(startTimeout) {
		srv.Shutdown()
		return nil, fmt.Errorf("the embedded NATS server in %s did not start within %s; its log says why", e.dir,
			startTimeout)
	}
	return srv, nil
}

// InProcessConn connects a client. It waits while the server restarts.
func (e *embedded) InProcessConn() (net.Conn, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.srv == nil {
		return nil, errors.New("the embedded NATS server does not run")
	}
	return e.srv.InProcessConn()
}

// reopen stops the server, calls a function that changes its files, and starts it again.
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

// rescan makes the server read the stream's files anew, once per process. It then drops damaged
// records. With its index it would keep them, and stop writing when it meets the damage.
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

// forgetIndex removes the stream's index, so that the next start reads its messages.
func (e *embedded) forgetIndex(stream string) error {
	return errors.Join(e.forget(stream, indexFile), e.forget(stream, expiriesFile))
}

// The files that nats-server derives from a stream's messages.
const (
	indexFile    = "index.db"
	expiriesFile = "thw.db"
)

func (e *embedded) forget(stream, name string) error {
	files, err := e.files(stream, name)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			return fmt.Errorf("removing %s of stream %s: %w", name, stream, err)
		}
	}
	return nil
}

func (e *embedded) files(stream, name string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(e.dir, "jetstream", "*", "streams", stream, "msgs", name))
	if err != nil {
		return nil, fmt.Errorf("looking for %s of stream %s: %w", name, stream, err)
	}
	return files, nil
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
