package jetstream_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"paramedic/state"
	"paramedic/state/jetstream"
	"paramedic/state/jetstream/natstest"
	"paramedic/state/statetest"
)

// logOf returns a store's inputs as the log has them.
func logOf(t *testing.T, s *jetstream.Store) (out []string) {
	t.Helper()
	err := s.EachInput(t.Context(), func(in jetstream.Logged) error {
		out = append(out, fmt.Sprintf("%d in %d: %s", in.Seq, in.Partition, in.Data))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// fillLate fills a log that begins late and has gaps. It must be the same in the new store, and
// continue after its old end.
func fillLate(t *testing.T, cfg jetstream.Config) {
	t.Helper()
	cfg.Purpose = jetstream.Fill
	s := openStore(t, cfg)
	f, err := s.Filler(t.Context(), 5001)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, seq := range []uint64{5001, 5002, 7500, 7503} {
		in := jetstream.Logged{Seq: seq, Partition: int(seq % 8), Data: fmt.Appendf(nil, `{"id":"%d"}`, seq)}
		if err := f.Input(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprintf("%d in %d: %s", in.Seq, in.Partition, in.Data))
	}
	if err := f.End(t.Context(), 7510); err != nil {
		t.Fatal(err)
	}
	if got := logOf(t, s); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the log has %q", got)
	}
	if err := s.Filled(t.Context()); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	cfg.Purpose = jetstream.Run
	s = openStore(t, cfg)
	defer closeStore(t, s)
	if err := s.Append(t.Context(), state.Input{Cluster: "prod"}); err != nil {
		t.Fatal(err)
	}
	if log, _, err := s.Ends(t.Context()); err != nil || log != 7511 {
		t.Errorf("the next input is %d, %v", log, err)
	}
}

func TestFillerKeepsSequences(t *testing.T) {
	t.Run("embedded", func(t *testing.T) { fillLate(t, jetstream.Config{Dir: t.TempDir()}) })
	t.Run("external", func(t *testing.T) {
		fillLate(t, jetstream.Config{URL: natstest.Serve(t, server.Options{JetStream: true}).ClientURL(), Replicas: 1})
	})
}

func TestClusterFillerKeepsSequences(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three servers")
	}
	fillLate(t, jetstream.Config{URL: natstest.StartCluster(t)})
}

// A store that an import has left half full must not become the state of a bot. The next import
// begins anew.
func TestHalfFilledStoreIsRefusedAndFilledAnew(t *testing.T) {
	for name, cfg := range map[string]jetstream.Config{
		"embedded": {Dir: t.TempDir()},
		"external": {URL: natstest.Serve(t, server.Options{JetStream: true}).ClientURL(), Replicas: 1},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.Purpose = jetstream.Fill
			s := openStore(t, cfg)
			f, err := s.Filler(t.Context(), 7)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.End(t.Context(), 9); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Commit(t.Context(), 0, state.Fence{}, 7, []state.Record{{Key: "a.b", Value: []byte("1")}}); err != nil {
				t.Fatal(err)
			}
			closeStore(t, s)
			for _, p := range []jetstream.Purpose{jetstream.Run, jetstream.Read} {
				other := cfg
				other.Purpose = p
				if s, err := jetstream.Open(t.Context(), other); err == nil || !strings.Contains(err.Error(), "did not complete: import again") {
					t.Errorf("opened for %d: %v", p, err)
					if err == nil {
						closeStore(t, s)
					}
				}
			}
			s = openStore(t, cfg)
			defer closeStore(t, s)
			log, _, err := s.Ends(t.Context())
			if records, _, loadErr := s.Load(t.Context(), 0, statetest.Raw); err != nil || loadErr != nil || log != 0 || len(records) != 0 {
				t.Errorf("the second import begins after input %d, with %d records: %v, %v", log, len(records), err, loadErr)
			}
		})
	}
}

// A bot that started and got no alert leaves a store that an import may fill.
func TestStoreWithoutInputsTakesAnImport(t *testing.T) {
	cfg := jetstream.Config{URL: natstest.Start(t), Replicas: 1}
	s := openStore(t, cfg)
	statetest.Until(t, "the bot is active", s.Held)
	if _, err := s.Commit(t.Context(), 0, state.Fence{}, 0, nil); err != nil { // as it takes over
		t.Fatal(err)
	}
	closeStore(t, s)
	cfg.Purpose = jetstream.Fill
	closeStore(t, openStore(t, cfg))
}

// An export reads what is there, and creates no store where there is none.
func TestReadNeedsAStore(t *testing.T) {
	srv := natstest.Serve(t, server.Options{JetStream: true})
	for name, cfg := range map[string]jetstream.Config{
		"embedded": {Dir: t.TempDir()},
		"external": {URL: srv.ClientURL(), Replicas: 1},
	} {
		cfg.Purpose = jetstream.Read
		if s, err := jetstream.Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "there is no state of Paramedic") {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				closeStore(t, s)
			}
		}
	}
	cfg := jetstream.Config{URL: srv.ClientURL(), Replicas: 1}
	closeStore(t, openStore(t, cfg))
	cfg.Purpose = jetstream.Read
	s := openStore(t, cfg)
	defer closeStore(t, s)
	if got := logOf(t, s); len(got) != 0 {
		t.Errorf("an empty log has %q", got)
	}
}

// What an export does not want to read further ends it.
func TestEachEndsWithTheVisitorsError(t *testing.T) {
	s := openStore(t, jetstream.Config{Dir: t.TempDir()})
	defer closeStore(t, s)
	for range 3 {
		if err := s.Append(t.Context(), state.Input{Cluster: "prod"}); err != nil {
			t.Fatal(err)
		}
	}
	visits := 0
	err := s.EachInput(t.Context(), func(jetstream.Logged) error { visits++; return context.DeadlineExceeded })
	if err != context.DeadlineExceeded || visits != 1 { //nolint:errorlint // the visitor's own
		t.Errorf("%d visits, %v", visits, err)
	}
}
