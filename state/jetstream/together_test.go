package jetstream_test

import (
	"context"
	"testing"
	"time"

	"paramedic/state/jetstream"
	"paramedic/state/jetstream/natstest"
)

// All replicas of a Deployment start at once, on a cluster without streams.
func TestReplicasStartTogether(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three servers")
	}
	urls := natstest.StartCluster(t)
	type opened struct {
		store *jetstream.Store
		err   error
	}
	const replicas = 3
	all := make(chan opened, replicas)
	for range replicas {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			store, err := jetstream.Open(ctx, jetstream.Config{URL: urls})
			all <- opened{store, err}
		}()
	}
	for range replicas {
		o := <-all
		if o.err != nil {
			t.Error(o.err)
			continue
		}
		defer closeStore(t, o.store)
	}
}
