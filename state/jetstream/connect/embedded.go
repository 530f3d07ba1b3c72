package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats-server/v2/server/thw"
	"github.com/nats-io/nats.go"

	"paramedic/state"
)

const startTimeout = 30 * time.Second

// Files configures a server in this process.
type Files struct {
	Dir        string // only one process uses it
	MaxPayload int32  // bytes
	// Expiring is the stream whose records expire one by one.
	Expiring string
	Logger   *slog.Logger
}

// An Embedded is the NATS server in this process. It can be restarted under its clients, which
// reconnect as to any server.
type Embedded struct {
	files Files
	log   *slog.Logger
	lock  *dirLock

	mu      sync.Mutex
	srv     *server.Server // nil: not running
	closed  bool
	scanned bool // its files were read anew since the process began
}

// Start locks the directory, and starts a server on its files. It returns an error if another
// process uses them.
func Start(f Files) (*Embedded, error) {
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the state directory: %w", err)
	}
	lock, err := lockDir(filepath.Join(f.Dir, "LOCK"))
	if err != nil {
		return nil, err
	}
	e := &Embedded{files: f, log: f.Logger, lock: lock}
	if err := e.start(); err != nil {
		return nil, errors.Join(err, lock.release())
	}
	return e, nil
}

// Connect returns a new connection to the server.
func (e *Embedded) Connect(opts ...nats.Option) (*nats.Conn, error) {
	return nats.Connect("", append(slices.Clone(opts), nats.InProcessServer(e), nats.ReconnectWait(100*time.Millisecond))...)
}

// Dir returns the directory of the server's files.
func (e *Embedded) Dir() string { return e.files.Dir }

// start starts the server. The caller holds the lock, or nothing else has a reference to it yet.
//
// The server has a file of the times at which sequences expire. If the end of the stream was lost
// since that file was written, new records get the lost sequences. The server would remove them at
// the times of the lost ones (nats-server 2.15.2). In this case start deletes the file and starts
// again: the server then reads the times from the messages.
func (e *Embedded) start() error {
	upTo, err := e.expiries(e.files.Expiring)
	if err != nil {
		return err
	}
	srv, err := e.run()
	if err != nil {
		return err
	}
	last, err := lastSequence(srv, e.files.Expiring)
	switch {
	case err != nil:
		srv.Shutdown()
		return err
	case last+1 < upTo:
		e.log.Warn("the end of the state stream is lost, the disk may be damaged: Paramedic reads again which records expire",
			"stream", e.files.Expiring, "ends", last, "ended", upTo-1)
		srv.Shutdown()
		srv.WaitForShutdown()
		if err := e.forget(e.files.Expiring, expiriesFile); err != nil {
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
func (e *Embedded) expiries(stream string) (upTo uint64, err error) {
	files, err := e.derived(stream, expiriesFile)
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
func (e *Embedded) run() (*server.Server, error) {
	srv, err := server.NewServer(&server.Options{
		ServerName: "paramedic",
		DontListen: true,
		JetStream:  true,
		StoreDir:   e.files.Dir,
		SyncAlways: true,
		NoSigs:     true,
		MaxPayload: e.files.MaxPayload,
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
		return nil, fmt.Errorf("the embedded NATS server in %s did not start within %s; its log says why", e.files.Dir,
			startTimeout)
	}
	return srv, nil
}

// InProcessConn connects a client. It waits while the server restarts.
func (e *Embedded) InProcessConn() (net.Conn, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.srv == nil {
		return nil, errors.New("the embedded NATS server does not run")
	}
	return e.srv.InProcessConn()
}

// Reopen stops the server, calls a function that changes its files, and starts it again.
func (e *Embedded) Reopen(meanwhile func() error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return fmt.Errorf("%w: the embedded NATS server is closed", state.ErrUnavailable)
	}
	if e.srv != nil {
		e.srv.Shutdown()
		e.srv.WaitForShutdown()
		e.srv = nil
	}
	return errors.Join(meanwhile(), e.start())
}

// Rescan makes the server read the stream's files anew, once per process. It then drops damaged
// records. With its index it would keep them, and stop writing when it meets the damage.
func (e *Embedded) Rescan(stream string) (done bool, err error) {
	e.mu.Lock()
	scanned := e.scanned
	e.scanned = true
	e.mu.Unlock()
	if scanned {
		return false, nil
	}
	e.log.Warn("opening the embedded store again, to read its files anew", "stream", stream)
	return true, e.Reopen(func() error { return e.ForgetIndex(stream) })
}

// ForgetIndex removes the stream's index, so that the next start reads its messages.
func (e *Embedded) ForgetIndex(stream string) error {
	return errors.Join(e.forget(stream, IndexFile), e.forget(stream, expiriesFile))
}

// IndexFile is the file of a stream's index, which nats-server derives from the messages.
const IndexFile = "index.db"

// expiriesFile is the file of the times at which sequences expire. nats-server derives it, too.
const expiriesFile = "thw.db"

func (e *Embedded) forget(stream, name string) error {
	files, err := e.derived(stream, name)
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

func (e *Embedded) derived(stream, name string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(e.files.Dir, "jetstream", "*", "streams", stream, "msgs", name))
	if err != nil {
		return nil, fmt.Errorf("looking for %s of stream %s: %w", name, stream, err)
	}
	return files, nil
}

// Close stops the server for good.
func (e *Embedded) Close(ctx context.Context) error {
	return errors.Join(e.stop(ctx), e.lock.release())
}

func (e *Embedded) stop(ctx context.Context) error {
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

// serverLog sends the embedded server's log to slog. The server's notices do not concern an
// operator of Paramedic.
type serverLog struct{ log *slog.Logger }

func (l serverLog) Noticef(f string, v ...any) { l.say(slog.LevelDebug, f, v) }
func (l serverLog) Warnf(f string, v ...any)   { l.say(slog.LevelWarn, f, v) }
func (l serverLog) Fatalf(f string, v ...any)  { l.say(slog.LevelError, f, v) }
func (l serverLog) Errorf(f string, v ...any)  { l.say(slog.LevelError, f, v) }
func (l serverLog) Debugf(string, ...any)      {}
func (l serverLog) Tracef(string, ...any)      {}

func (l serverLog) say(level slog.Level, f string, v []any) {
	l.log.Log(context.Background(), level, "nats-server", "said", strings.TrimSpace(fmt.Sprintf(f, v...)))
}
