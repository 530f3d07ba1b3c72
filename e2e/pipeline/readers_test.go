package pipeline

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"paramedic/e2e/bot"
	"paramedic/state"
	"paramedic/state/jetstream"
)

// TestReadersOutliveAKilledServer kills a NATS server for good. Each reader of the log has a
// consumer on one of the servers, and NATS may place its successor on the dead one, too. No reader
// may wait for that server.
func TestReadersOutliveAKilledServer(t *testing.T) {
	t.Parallel()
	servers := startNATS(t)
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.url)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	s, err := jetstream.Open(ctx, jetstream.Config{URL: strings.Join(urls, ",")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(ctx)
	const each = 5 // of a partition
	var readers []state.InputReader
	for range each {
		for n := range s.Partitions() {
			r, err := s.Inputs(ctx, n, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			readers = append(readers, r)
		}
	}
	servers[1].kill()
	fed := map[int]bool{}
	for i := 0; len(fed) < s.Partitions(); i++ {
		cluster := fmt.Sprintf("c%d", i)
		if n := s.Partition(cluster); !fed[n] {
			bot.Eventually(t, time.Minute, "an input is taken", func() error {
				one, cancel := context.WithTimeout(ctx, 2*time.Second)
				defer cancel()
				return s.Append(one, state.Input{At: time.Now(), Cluster: cluster, ID: cluster})
			})
			fed[n] = true
		}
	}
	began, still := time.Now(), 0
	for _, r := range readers {
		if _, err := r.Next(ctx); err != nil {
			still++
		}
	}
	if still > 0 {
		t.Errorf("%d of %d readers stand still", still, len(readers))
	}
	t.Logf("the last of %d readers went on after %s", len(readers), time.Since(began))
}
