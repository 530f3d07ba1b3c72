package jetstream_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"paramedic/state"
	"paramedic/state/jetstream"
	"paramedic/state/jetstream/natstest"
	"paramedic/state/statetest"
)

// clustered is a cluster of three servers with three replicas of every stream.
type clustered struct{ servers []*server.Server }

func (clustered) Shared() bool { return true }

func (c clustered) Open(t *testing.T) statetest.Store {
	url := ""
	for _, s := range c.servers {
		url += s.ClientURL() + ","
	}
	return openStore(t, jetstream.Config{URL: url[:len(url)-1], Replicas: 3})
}

func TestClusterConforms(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three servers for each test")
	}
	statetest.Run(t, func(t *testing.T) statetest.Backend { return clustered{natstest.Cluster(t)} })
}

// The loss of one server of three costs a pause and nothing else.
func TestClusterOutlivesAServer(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three servers")
	}
	c := clustered{natstest.Cluster(t)}
	s := c.Open(t).(*jetstream.Store)
	defer closeStore(t, s)
	fence, err := s.Commit(t.Context(), 0, state.Fence{}, 1, []state.Record{{Key: "a.1", Value: []byte("before")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Append(t.Context(), state.Input{Cluster: "prod", ID: "before"}); err != nil {
		t.Fatal(err)
	}
	for _, srv := range c.servers {
		if srv.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, "PARAMEDIC_STATE") {
			srv.Shutdown()
			srv.WaitForShutdown()
			break
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	statetest.Until(t, "an input is taken again", func() bool {
		one, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return s.Append(one, state.Input{Cluster: "prod", ID: "after"}) == nil
	})
	statetest.Until(t, "a commit is taken again", func() bool {
		_, err := s.Commit(ctx, 0, fence, 2, []state.Record{{Key: "a.2", Value: []byte("after")}})
		if errors.Is(err, state.ErrFenced) { // an earlier attempt succeeded
			return true
		}
		return err == nil
	})
	records, fence, err := s.Load(ctx, 0, statetest.Raw)
	if err != nil || len(records) != 2 || fence.Position != 2 {
		t.Errorf("after the loss of a server: %v at %+v, %v", records, fence, err)
	}
	r, err := s.Inputs(ctx, s.Partition("prod"), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, want := range []string{"before", "after"} {
		if in, err := r.Next(ctx); err != nil || in.ID != want {
			t.Errorf("read %q, %v; want %q", in.ID, err, want)
		}
	}
}
