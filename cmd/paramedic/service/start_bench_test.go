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
	store, err := jetstream.Open(b.Context(), jetstream.Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close(context.Background())
	started := time.Now().UTC().Truncate(time.Second)
	f := newFleetBoard(b, benchCatalog(b), trouble{})
	f.now = started
	live := map[string]bool{}
	var fence state.Fence
	commit := func() {
		records, _, err := f.board.Take()
		if err != nil {
			b.Fatal(err)
		}
		for chunk := range slices.Chunk(records, jetstream.MaxRecords) {
			if fence, err = store.Commit(b.Context(), store.Partition("default"), fence, f.seq, chunk); err != nil {
				b.Fatal(err)
			}
			for _, r := range chunk {
				if live[r.Key] = r.Value != nil && !strings.HasPrefix(r.Key, state.TimelinePrefix); !live[r.Key] {
					delete(live, r.Key)
				}
			}
		}
	}
	fire := func(n, pool int) {
		batch := state.AlertBatch{Receiver: "paramedic", GroupKey: `{}:{alertname="VLLMKVCacheExhaustion"}`}
		for range n {
			batch.Alerts = append(batch.Alerts, stormAlert(f.fired, pool, started))
			f.fired++
		}
		f.now = f.now.Add(time.Millisecond)
		in := state.Input{ID: fmt.Sprint(f.seq), At: f.now, Cluster: "default", Alerts: &batch}
		if err := store.Append(b.Context(), in); err != nil {
			b.Fatal(err)
		}
		f.seq++
		in.Seq = f.seq
		f.fold.Apply(f.board, in)
		if f.board.Changes() > 700 {
			commit()
		}
	}
	for pool := range 2_000 / *benchSlim {
		fire(50, pool)
	}
	for pool := range 23_000 / *benchSlim {
		fire(1, 2_000+pool)
	}
	commit()
	return len(live)
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
