package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"paramedic/state"
	"paramedic/state/jetstream/connect"
	"paramedic/state/jetstream/lease"
	"paramedic/state/jetstream/ledger"
	"paramedic/state/jetstream/pulse"
	"paramedic/state/jetstream/queue"
)

const (
	// partitions is part of the stored form. With another number a cluster's records would be
	// looked up in another partition.
	partitions = 8
	// MaxRecords is the most records that a commit writes in one batch. A server takes batches of
	// 1000 messages, and one of them is the position.
	MaxRecords = maxBatch - 1
	// MaxValue is the largest record or input of the embedded server. For an external one its
	// max_payload applies.
	MaxValue = maxPayload - headerRoom

	maxPayload = 8 << 20  // a NATS server warns at every start if it is larger
	headerRoom = 64 << 10 // headers count as payload

	maxBatch    = 1000
	opTimeout   = 10 * time.Second // for one write or look-up, if the caller has no deadline
	defaultKeep = 720 * time.Hour
)

// Config sets where the log and the records live: in Dir, or at URL. Exactly one of them is set.
type Config struct {
	Dir             string // for the embedded server
	URL             string // for an external cluster, comma-separated
	CredentialsFile string // for URL: a .creds file, or an NKey seed
	TLS             connect.TLSFiles
	// Replicas is for the streams of an external cluster; 0 means 3. An embedded server has one.
	Replicas int
	Retain   time.Duration
	Version  string // of this Paramedic, for people; empty: devel
	Purpose  Purpose
	Logger   *slog.Logger
}

// A Purpose is the reason why a store is opened.
type Purpose int

// The purposes. An import calls [Store.Filled] at its end; until then the store cannot be opened
// for another purpose.
const (
	Run  Purpose = iota // for a bot: streams are created, or updated to this version
	Read                // for an export: the streams must exist, and stay as they are
	Fill                // for an import: the streams must be empty, or left by an import that did not complete
)

// Validate sets the defaults of what is not set, and returns an error if the settings contradict
// each other or are out of range.
func (c *Config) Validate() error {
	switch {
	case c.Dir == "" && c.URL == "":
		return errors.New("state needs a directory (state.dir) or a NATS URL (state.nats.url)")
	case c.Dir != "" && c.URL != "":
		return errors.New("state is either in a directory (state.dir) or at a NATS URL (state.nats.url), not both")
	case c.URL == "" && c.CredentialsFile != "":
		return errors.New("state.nats.credentials_file needs state.nats.url")
	case c.URL == "" && c.TLS != connect.TLSFiles{}:
		return errors.New("state.nats.ca_file, cert_file and key_file need state.nats.url")
	case c.Replicas < 0 || c.Replicas > 5:
		return fmt.Errorf("state.nats.replicas is %d, and must be from 1 to 5", c.Replicas)
	case c.Retain < 0:
		return fmt.Errorf("state.retain is %s, and must be positive", c.Retain)
	}
	if c.Dir != "" {
		c.Replicas = 1
	} else if c.Replicas == 0 {
		c.Replicas = 3
	}
	if c.Retain == 0 {
		c.Retain = defaultKeep
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Version = cmp.Or(c.Version, "devel")
	return nil
}

// A Store is a [state.Store] in JetStream.
type Store struct {
	log    *slog.Logger
	server *connect.Embedded // nil: external
	nc     *nats.Conn
	// appending is the connection of Append. To an embedded server it is one of its own: on a
	// shared one, inputs would wait behind a commit's messages, and their answers behind those of
	// readers.
	appending *nats.Conn
	js        natsjs.JetStream
	cfg       Config
	in        natsjs.Stream
	st        natsjs.Stream

	lease *lease.Lease // nil: embedded, or not for a bot
	queue *queue.Queue
	sums  *ledger.Book
	// waitlists has what waits in the newest known position of each partition. Nil: none was read.
	waitlists [partitions]atomic.Pointer[waitlist]
	limits    limits
	// placedLinks has the bytes of the links on disk that no position names any more.
	placedLinks [partitions]atomic.Int64
	// tombstones is the time after which the server removes a tombstone.
	tombstones time.Duration
	lost       atomic.Uint64 // lost inputs
	pulse      *pulse.Pulse
	reopened   atomic.Uint64
	logged     atomic.Uint64 // the newest input that this store has seen in the log
	received   atomic.Uint64 // the newest input that a reader has received, or had applied when it was opened
	closed     chan struct{} // closed when Close begins
	closing    sync.Once
	flusher    sync.WaitGroup
	readers    sync.WaitGroup
}

var _ state.Store = (*Store)(nil)

// Open starts the embedded server or connects to the external one. It creates or updates the
// streams, and checks that they take atomic batches, if the purpose allows it. It waits for an
// external server until the context ends. It refuses a store of a newer format (state.Format), and
// changes nothing of it.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Store{log: cfg.Logger, cfg: cfg, closed: make(chan struct{}), queue: queue.New(maxBatch), sums: ledger.NewBook(partitions),
		tombstones: tombstoneTime, limits: limits{inline: inlineBytes, links: linkBytes}, pulse: pulse.New()}
	err := s.connect(ctx, cfg)
	if err == nil {
		err = s.prepare(ctx, cfg)
	}
	if err != nil {
		return nil, errors.Join(err, s.stop(context.WithoutCancel(ctx)))
	}
	s.flusher.Go(s.flush)
	if cfg.Purpose == Run {
		s.readers.Go(s.keepLive)
	}
	if s.server != nil {
		s.readers.Go(s.watch)
	} else if cfg.Purpose == Run {
		s.lease = s.newLease()
		s.readers.Go(func() { s.lease.Run(s.closed) })
	}
	return s, nil
}

// Close writes what Append has accepted, and stops the embedded server. Inputs that are not written
// when the context ends fail.
func (s *Store) Close(ctx context.Context) error {
	var err error
	s.closing.Do(func() {
		close(s.closed)
		s.queue.Close()
		err = wait(ctx, &s.flusher)
		s.readers.Wait()
		err = errors.Join(err, s.stop(ctx))
	})
	return err
}

// stop closes everything that Open has opened.
func (s *Store) stop(ctx context.Context) error {
	if s.appending != nil {
		s.appending.Close()
	}
	if s.nc != nil {
		s.nc.Close()
	}
	var err error
	if s.server != nil {
		err = s.server.Close(ctx)
	}
	s.flusher.Wait() // without the connection, what it waited for has failed
	return err
}

// wait waits for the group, or until the context ends.
func wait(ctx context.Context, wg *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("writing the inputs already taken: %w", ctx.Err())
	}
}

// CommitRecords returns how many records a commit should have at most: a link can have any number,
// but readers of the partition wait for it. On an external server a commit of more than MaxRecords
// is written twice, and the changes of one more input and the records that wait must fit, too.
func (s *Store) CommitRecords() int {
	if s.server != nil {
		return maxLinked
	}
	return MaxRecords / 3
}

// Partitions returns the number of partitions.
func (s *Store) Partitions() int { return partitions }

// Partition returns the partition of a cluster's inputs.
func (s *Store) Partition(cluster string) int {
	h := fnv.New32a()
	h.Write([]byte(cluster))
	return int(h.Sum32() % partitions)
}

// Ready writes a probe to disk, with the end of the log, and asks the input stream for an answer,
// as an input would.
func (s *Store) Ready(ctx context.Context) error {
	if err := s.alive(ctx); err != nil {
		return err
	}
	// A probe is small, and may find room where an input does not.
	if err := s.pulse.Failing(); err != nil && s.server != nil {
		return err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	if _, err := s.in.Info(ctx); err != nil {
		return unavailable("asking the input stream", err)
	}
	// A start compares the end of the log with it.
	probe := nats.NewMsg(probeSubject)
	probe.Data = strconv.AppendUint(nil, s.logged.Load(), 10)
	if _, err := s.publish(ctx, []*nats.Msg{probe}); err != nil {
		return err
	}
	return nil
}

// Bytes returns the size of the log and the records.
func (s *Store) Bytes(ctx context.Context) (uint64, error) {
	if err := s.alive(ctx); err != nil {
		return 0, err
	}
	var sum uint64
	for _, stream := range []natsjs.Stream{s.in, s.st} {
		info, err := stream.Info(ctx)
		if err != nil {
			return 0, unavailable("asking a stream for its size", err)
		}
		sum += info.State.Bytes
	}
	return sum, nil
}

// alive returns an error after Close or after the end of the context.
func (s *Store) alive(ctx context.Context) error {
	select {
	case <-s.closed:
		return queue.ErrClosed
	default:
	}
	if err := ctx.Err(); err != nil {
		return unavailable("not begun", err)
	}
	return nil
}

// unavailable wraps an error that another attempt can fix. The context's own error stays visible.
func unavailable(doing string, err error) error {
	if errors.Is(err, state.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", state.ErrUnavailable, doing, err)
}

// bounded adds a deadline to a context without one, because a NATS request needs one.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, opTimeout)
}
