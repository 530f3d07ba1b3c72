package jetstream_test

import (
	"fmt"
	"sync"
	"testing"

	"paramedic/state"
	"paramedic/state/jetstream"
	"paramedic/state/jetstream/natstest"
)

// BenchmarkPartitions measures how the log and the records scale with the partitions that have
// work: each appends a payload of 50 alerts and commits 60 records, again and again.
func BenchmarkPartitions(b *testing.B) {
	for _, where := range []string{"embedded", "servers=3"} {
		for _, busy := range []int{1, 4, 8} {
			b.Run(fmt.Sprintf("%s/partitions=%d", where, busy), func(b *testing.B) {
				cfg := jetstream.Config{Dir: b.TempDir()}
				if where != "embedded" {
					cfg = jetstream.Config{URL: natstest.StartCluster(b), Replicas: 3}
				}
				s := openStore(b, cfg)
				defer closeStore(b, s)
				rounds := make(chan int)
				var wg sync.WaitGroup
				for p := range busy {
					inputs, records := payload(50), recordsOf(60)
					inputs[0].Cluster = clusterIn(s, p)
					wg.Go(func() {
						var fence state.Fence
						for round := range rounds {
							renew(records, round)
							err := s.Append(b.Context(), inputs...)
							if err == nil {
								fence, err = s.Commit(b.Context(), p, fence, fence.Position+1, records)
							}
							if err != nil {
								b.Error(err)
							}
						}
					})
				}
				for i := 0; b.Loop(); i++ {
					rounds <- i
				}
				close(rounds)
				wg.Wait()
				b.ReportMetric(float64(b.N*50)/b.Elapsed().Seconds(), "alerts/s")
			})
		}
	}
}

// clusterIn returns the name of a cluster whose inputs are in the partition.
func clusterIn(s *jetstream.Store, partition int) string {
	for i := 0; ; i++ {
		if name := fmt.Sprint("cluster-", i); s.Partition(name) == partition {
			return name
		}
	}
}
