package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"paramedic/state"
)

const (
	inputStream  = "PARAMEDIC_INPUT"
	stateStream  = "PARAMEDIC_STATE"
	probeSubject = "paramedic.probe.ready"
)

const inputPrefix = "paramedic.in."

func inputSubject(p int) string    { return inputPrefix + strconv.Itoa(p) }
func positionSubject(p int) string { return "paramedic.pos." + strconv.Itoa(p) }

// recordSubject returns the subject of a key, or of every key under a prefix that ends in ">".
func recordSubject(p int, key string) string {
	if kind, _, _ := strings.Cut(key, "."); kind == state.TimelinePrefix {
		return "paramedic.tl." + strconv.Itoa(p) + "." + key
	}
	return "paramedic.st." + strconv.Itoa(p) + "." + key
}

// recordKey is the inverse of recordSubject.
func recordKey(subject string) string {
	key := subject
	for range 3 {
		var ok bool
		if _, key, ok = strings.Cut(key, "."); !ok {
			return subject
		}
	}
	return key
}

// validKey reports whether a key is dot-separated tokens of letters, digits, '-' and '_'. Anything
// else could be a wildcard.
func validKey(key string) bool {
	for token := range strings.SplitSeq(key, ".") {
		if token == "" {
			return false
		}
		for _, c := range []byte(token) {
			if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
				return false
			}
		}
	}
	return true
}

// A cluster drops some requests of processes that create the same streams at once, and never
// answers them (nats-server 2.15.2). prepare gives an external server prepareTime for an answer,
// and prepareMost for all attempts. A lost connection comes back later, and does not count. An
// embedded server answers, but when it takes a new setting it first removes all tombstones that are
// due, and syncs the disk for each (11 s after a storm of 25,000 incidents).
const (
	prepareTime     = 3 * time.Second
	prepareMost     = 30 * time.Second
	prepareEmbedded = 5 * time.Minute
)

// prepare opens the streams for the purpose of the configuration.
func (s *Store) prepare(ctx context.Context, cfg Config) error {
	if s.server != nil {
		return s.prepareOnce(ctx, cfg, prepareEmbedded)
	}
	for late := time.Now().Add(prepareMost); ; {
		err := s.prepareOnce(ctx, cfg, prepareTime)
		if errors.Is(err, nats.ErrReconnectBufExceeded) && s.connectedAgain(ctx) {
			late = time.Now().Add(prepareMost)
			continue
		}
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil || time.Now().After(late) {
			return err
		}
		s.log.WarnContext(ctx, "the NATS server does not answer, Paramedic asks again", "err", err)
	}
}

// connectedAgain waits until the connection is back. It returns false if the context ends first.
func (s *Store) connectedAgain(ctx context.Context) bool {
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for !s.nc.IsConnected() {
		select {
		case <-look.C:
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

func (s *Store) prepareOnce(ctx context.Context, cfg Config, most time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	if err := s.checkStreams(ctx, &cfg); err != nil {
		return err
	}
	switch cfg.Purpose {
	case Read:
		return s.find(ctx, &cfg)
	case Fill:
		if err := s.clear(ctx); err != nil {
			return err
		}
	}
	if err := s.create(ctx, &cfg); err != nil {
		return err
	}
	// The server answers a message for another stream with an error, and stores nothing.
	stray := nats.NewMsg(inputSubject(0))
	stray.Header.Set("Nats-Expected-Stream", "none")
	if err := s.answered(ctx, inputStream, stray); errors.Is(err, nats.ErrNoResponders) {
		return err
	}
	if err := s.answered(ctx, stateStream, nats.NewMsg("paramedic.probe.1"),
		nats.NewMsg("paramedic.probe.2")); err != nil {
		return fmt.Errorf("the NATS server (%s) did not take an atomic batch, which Paramedic needs (NATS 2.12 or "+
			"newer): %w", s.nc.ConnectedServerVersion(), err)
	}
	return s.continueLog(ctx)
}

// create creates or updates both streams.
func (s *Store) create(ctx context.Context, cfg *Config) error {
	in, st := cfg.Streams()
	var err error
	if s.in, err = s.stream(ctx, in); err != nil {
		return err
	}
	s.st, err = s.stream(ctx, st)
	return err
}

// Streams returns the settings of the input stream and of the state stream, as a start of the bot
// makes them. The configuration must be valid.
func (c *Config) Streams() (in, st natsjs.StreamConfig) {
	metadata := c.metadata()
	return natsjs.StreamConfig{
			Name:        inputStream,
			Description: "Paramedic: all inputs, in order",
			Subjects:    []string{"paramedic.in.*"},
			Retention:   natsjs.LimitsPolicy, MaxAge: c.Retain,
			Storage: natsjs.FileStorage, Replicas: c.Replicas,
			AllowAtomicPublish: true,
			Metadata:           metadata,
		}, natsjs.StreamConfig{
			Name:        stateStream,
			Description: "Paramedic: the newest value of each record, made from the inputs",
			Subjects: []string{"paramedic.st.>", "paramedic.tl.>", "paramedic.pos.*", "paramedic.draft.>",
				"paramedic.probe.*", "paramedic.lease.*"},
			Retention:         natsjs.LimitsPolicy,
			MaxMsgsPerSubject: 1,
			Storage:           natsjs.FileStorage, Replicas: c.Replicas,
			AllowAtomicPublish: true,
			AllowMsgTTL:        true,  // the tombstone of a deleted record expires
			AllowDirect:        false, // a replica may answer direct reads with old values
			Metadata:           metadata,
		}
}

// find looks both streams up.
func (s *Store) find(ctx context.Context, cfg *Config) (err error) {
	if s.in, err = s.js.Stream(ctx, inputStream); err == nil {
		s.st, err = s.js.Stream(ctx, stateStream)
	}
	if errors.Is(err, natsjs.ErrStreamNotFound) {
		return fmt.Errorf("there is no state of Paramedic at %s", cmp.Or(cfg.Dir, s.nc.ConnectedUrlRedacted()))
	}
	if err != nil {
		return fmt.Errorf("looking for the streams: %w", err)
	}
	return nil
}

// answered publishes the messages until a server answers. At first none may: a new replicated
// stream has no leader yet, and the connected server may not know the stream yet.
func (s *Store) answered(ctx context.Context, stream string, msgs ...*nats.Msg) error {
	retry := time.NewTicker(50 * time.Millisecond)
	defer retry.Stop()
	for {
		_, err := s.send(ctx, msgs)
		if !errors.Is(err, nats.ErrNoResponders) {
			return err
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			return fmt.Errorf("stream %s has no leader: check that most servers of the NATS cluster are up: %w", stream, err)
		}
	}
}

// checkStreams returns an error if an existing stream is not one of this version's, or is of an
// import that did not complete. It runs before either stream is changed.
func (s *Store) checkStreams(ctx context.Context, cfg *Config) error {
	for _, name := range []string{inputStream, stateStream} {
		have, err := s.js.Stream(ctx, name)
		switch {
		case errors.Is(err, natsjs.ErrStreamNotFound):
			continue
		case err != nil:
			return fmt.Errorf("looking for stream %s: %w", name, err)
		}
		metadata := have.CachedInfo().Config.Metadata
		if err := cfg.CheckFormat(metadata); err != nil {
			return err
		}
		if was, want := metadata[layoutKey], strconv.Itoa(partitions); was != want {
			return fmt.Errorf("stream %s has %q partitions, and this Paramedic needs %s: it belongs to another version or "+
				"to another program", name, was, want)
		}
		if metadata[fillingKey] != "" && cfg.Purpose != Fill {
			return errors.New("an import into this store did not complete: import again, which begins anew")
		}
	}
	return nil
}

// stream returns the stream with these settings. It creates or updates it if it does not have them.
// An update takes long after an outage: the server first removes what has expired.
func (s *Store) stream(ctx context.Context, cfg natsjs.StreamConfig) (natsjs.Stream, error) {
	if str, err := s.js.Stream(ctx, cfg.Name); err == nil && hasSettings(str.CachedInfo().Config, cfg) {
		return str, nil
	}
	str, err := s.js.CreateOrUpdateStream(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("creating stream %s: %w", cfg.Name, err)
	}
	// A server silently drops a setting that it does not know.
	if got := str.CachedInfo().Config; !got.AllowAtomicPublish || got.AllowMsgTTL != cfg.AllowMsgTTL ||
		got.AllowDirect {
		return nil, fmt.Errorf("the NATS server (%s) did not take the settings of stream %s; Paramedic needs 2.12 "+
			"or newer",
			s.nc.ConnectedServerVersion(), cfg.Name)
	}
	return str, nil
}

// hasSettings reports whether a stream has the wanted settings, and otherwise the defaults of the
// server.
func hasSettings(have, want natsjs.StreamConfig) bool {
	want.MaxConsumers, want.MaxMsgs, want.MaxBytes, want.MaxMsgSize = -1, -1, -1, -1
	want.MaxMsgsPerSubject = cmp.Or(want.MaxMsgsPerSubject, -1)
	want.Duplicates = have.Duplicates // used by messages with an ID only
	have.Metadata = maps.Clone(have.Metadata)
	maps.DeleteFunc(have.Metadata, func(key, _ string) bool { return strings.HasPrefix(key, "_nats.") }) // the server's own
	return reflect.DeepEqual(have, want)
}
