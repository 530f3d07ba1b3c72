package service

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/state/jetstream"
	"paramedic/state/keeper"
)

var (
	benchBusy = flag.Int("bench.busy", 0, "processes that keep the processors busy while BenchmarkReady runs")
	benchSlim = flag.Int("bench.slim", 1, "BenchmarkReady makes a state that is so many times smaller")
)

// BenchmarkReady measures the time from opening the directory until the bot is ready, after a
// storm: 100,000 alerts in 2,000 incidents and 23,000 in an incident each. That is about 198,000
// live records of one partition, all unhandled.
func BenchmarkReady(b *testing.B) {
	dir := b.TempDir()
	records := stormState(b, dir)
	keepBusy(b, *benchBusy)
	log := slog.New(slog.DiscardHandler)
	var opened time.Duration
	for b.Loop() {
		began := time.Now()
		store, err := jetstream.Open(b.Context(), jetstream.Config{Dir: dir, Logger: log})
		if err != nil {
			b.Fatal(err)
		}
		opened += time.Since(began)
		keeper := keeper.New(keeper.Config{Store: store, Clock: state.SystemClock{}, Logger: log,
			Fold: newFleetBoard(b, benchCatalog(b), trouble{}).fold})
		ctx, stop := context.WithCancel(b.Context())
		ended := make(chan error, 1)
		go func() { ended <- keeper.Run(ctx) }()
		for keeper.Ready(ctx) != nil {
			<-time.After(5 * time.Millisecond)
		}
		b.StopTimer()
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
		if err := store.Close(context.Background()); err != nil {
			b.Error(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(records), "records")
	b.ReportMetric(opened.Seconds()/float64(b.N), "open-s")
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "ready-s")
}

// stormState fills the directory with the state after the storm, and returns the number of live
// records.
func stormState(b *testing.B, dir string) int {
	s := newStateWriter(b, jetstream.Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	defer s.store.Close(context.Background())
	for pool := range 2_000 / *benchSlim {
		s.fire(50, pool)
	}
	for pool := range 23_000 / *benchSlim {
		s.fire(1, 2_000+pool)
	}
	s.commit()
	return len(s.live)
}

// A stateWriter writes the state after alerts into a store.
type stateWriter struct {
	b       *testing.B
	store   *jetstream.Store
	f       *fleetBoard
	started time.Time
	live    map[string]bool // the keys of live records
	fence   state.Fence
	waiting []state.Input
}

func newStateWriter(b *testing.B, cfg jetstream.Config) *stateWriter {
	b.Helper()
	store, err := jetstream.Open(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	s := &stateWriter{b: b, store: store, f: newFleetBoard(b, benchCatalog(b), trouble{}), live: map[string]bool{},
		started: time.Now().UTC().Truncate(time.Second)}
	s.f.now = s.started
	return s
}

// fire adds alerts of one pool, and commits from time to time.
func (s *stateWriter) fire(n, pool int) {
	batch := state.AlertBatch{Receiver: "paramedic", GroupKey: `{}:{alertname="VLLMKVCacheExhaustion"}`}
	for range n {
		batch.Alerts = append(batch.Alerts, stormAlert(s.f.fired, pool, s.started))
		s.f.fired++
	}
	s.f.now = s.f.now.Add(time.Millisecond)
	in := state.Input{ID: fmt.Sprint(s.f.seq), At: s.f.now, Cluster: "default", Alerts: &batch}
	s.waiting = append(s.waiting, in)
	s.f.seq++
	in.Seq = s.f.seq
	s.f.fold.Apply(s.f.board, in)
	if s.f.board.Changes() > 700 {
		s.commit()
	}
}

// commit writes the waiting inputs, and the records that they changed.
func (s *stateWriter) commit() {
	s.b.Helper()
	if err := s.store.Append(s.b.Context(), s.waiting...); err != nil {
		s.b.Fatal(err)
	}
	s.waiting = nil
	records, _, err := s.f.board.Take()
	if err != nil {
		s.b.Fatal(err)
	}
	for chunk := range slices.Chunk(records, jetstream.MaxRecords) {
		if s.fence, err = s.store.Commit(s.b.Context(), s.store.Partition("default"), s.fence, s.f.seq, chunk); err != nil {
			s.b.Fatal(err)
		}
		for _, r := range chunk {
			if s.live[r.Key] = r.Value != nil && !strings.HasPrefix(r.Key, state.TimelinePrefix); !s.live[r.Key] {
				delete(s.live, r.Key)
			}
		}
	}
}

func stormAlert(n, pool int, at time.Time) state.Alert {
	name := fmt.Sprintf("vllm-p%d", pool)
	return state.Alert{Fingerprint: state.Fingerprint(fmt.Sprintf("%016x", n)), Status: state.Firing, StartsAt: at,
		Labels: map[string]string{"alertname": "VLLMKVCacheExhaustion", "severity": "critical", "namespace": "llm", "model_name": "model-" +
			name, "job": "vllm",
			"pod": fmt.Sprintf("%s-6d5f8c7b9-%05d", name, n), "instance": "10.0.0.17:8000"},
		Annotations: map[string]string{"summary": "KV cache is almost full",
			"description": strings.Repeat("The engine preempts requests. ", 4)},
		GeneratorURL: "http://prometheus:9090/graph?g0.expr=vllm%3Akv_cache_usage_perc+%3E+0.95&g0.tab=1"}
}

// keepBusy runs n processes that use a processor each.
func keepBusy(b *testing.B, n int) {
	for range n {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			_ = cmd.Process.Kill() // its end says so
			_ = cmd.Wait()
		})
	}
}
