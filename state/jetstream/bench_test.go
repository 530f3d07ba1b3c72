package jetstream_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/state/jetstream"
	"paramedic/state/statetest"
)

var (
	benchInputs  = flag.Int("bench.inputs", 100_000, "inputs in the log that BenchmarkStart opens")
	benchRecords = flag.Int("bench.records", 10_000, "live records that BenchmarkStart loads")
)

func alert(i int) state.Alert {
	return state.Alert{
		Fingerprint: state.Fingerprint(fmt.Sprintf("%016x", i)), Status: state.Firing, StartsAt: time.Unix(1_790_000_000, 0).UTC(),
		Labels: map[string]string{"alertname": "VLLMKVCacheUsageHigh", "cluster": "prod", "namespace": "llm", "model_name": "llama-70b",
			"pod": fmt.Sprintf("vllm-llama-7d9f8b6c5-%05d", i), "severity": "critical", "instance": "10.0.0.17:8000", "job": "vllm"},
		Annotations: map[string]string{"summary": "KV cache usage is above 95 %",
			"description": strings.Repeat("The engine preempts requests. ", 8)},
		GeneratorURL: "http://prometheus:9090/graph?g0.expr=vllm%3Akv_cache_usage_perc+%3E+0.95&g0.tab=1",
	}
}

// payload is a webhook payload as the webhook package appends it.
func payload(alerts int) []state.Input {
	var inputs []state.Input
	for n := 0; n < alerts; n += state.MaxBatch {
		batch := &state.AlertBatch{Receiver: "paramedic", GroupKey: `{}:{alertname="VLLMKVCacheUsageHigh"}`}
		for i := n; i < min(alerts, n+state.MaxBatch); i++ {
			batch.Alerts = append(batch.Alerts, alert(i))
		}
		inputs = append(inputs, state.Input{ID: fmt.Sprint(n), Cluster: "prod", At: time.Unix(1_790_000_000, 0).UTC(), Alerts: batch})
	}
	return inputs
}

// BenchmarkAppend measures durable alerts per second. Every call returns after its payload is
// synced to disk.
func BenchmarkAppend(b *testing.B) {
	for _, alerts := range []int{1, 50, 500} {
		for _, publishers := range []int{1, 8, 16, 64} {
			b.Run(fmt.Sprintf("alerts=%d/publishers=%d", alerts, publishers), func(b *testing.B) {
				s := openStore(b, jetstream.Config{Dir: b.TempDir()})
				defer closeStore(b, s)
				inputs := payload(alerts)
				took := make([]time.Duration, b.N)
				work := make(chan int)
				var wg sync.WaitGroup
				for range publishers {
					wg.Go(func() {
						for i := range work {
							began := time.Now()
							if err := s.Append(b.Context(), inputs...); err != nil {
								b.Error(err)
							}
							took[i] = time.Since(began)
						}
					})
				}
				for i := 0; b.Loop(); i++ {
					if i == len(took) {
						took = append(took, make([]time.Duration, len(took)+1024)...)
					}
					work <- i
				}
				close(work)
				wg.Wait()
				report(b, took[:b.N], alerts)
			})
		}
	}
}

func report(b *testing.B, took []time.Duration, each int) {
	slices.Sort(took)
	b.ReportMetric(float64(b.N*each)/b.Elapsed().Seconds(), "alerts/s")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

func BenchmarkCommit(b *testing.B) {
	for _, records := range []int{0, 1, 10, 100, 999} {
		b.Run(fmt.Sprintf("records=%d", records), func(b *testing.B) {
			s := openStore(b, jetstream.Config{Dir: b.TempDir()})
			defer closeStore(b, s)
			batch := recordsOf(records)
			var fence state.Fence
			for n := 0; b.Loop(); n++ {
				renew(batch, n)
				var err error
				if fence, err = s.Commit(b.Context(), 0, fence, fence.Position+1, batch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// renew gives the records of a round other keys than those before, as a storm of new alerts does.
// The same keys would let them wait in the position for ever.
func renew(records []state.Record, round int) {
	for i := range records {
		records[i].Key = fmt.Sprintf("alert.%d", (round*len(records)+i)%50_000)
	}
}

func recordsOf(n int) []state.Record {
	records := make([]state.Record, n)
	for i := range records {
		records[i] = state.Record{Key: fmt.Sprintf("alert.%d", i), Value: []byte(strings.Repeat("x", 1024))}
	}
	return records
}

// BenchmarkList reads the timeline of one incident of many.
func BenchmarkList(b *testing.B) {
	for _, incidents := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("incidents=%d", incidents), func(b *testing.B) {
			s := openStore(b, jetstream.Config{Dir: b.TempDir()})
			defer closeStore(b, s)
			var fence state.Fence
			for n := 0; n < incidents; n += 250 {
				var batch []state.Record
				for i := n; i < n+250; i++ {
					for entry := range 3 {
						batch = append(batch, state.Record{Key: fmt.Sprintf("timeline.INC-%d.%d", i, entry), Value: []byte("{}")})
					}
				}
				var err error
				if fence, err = s.Commit(b.Context(), 0, fence, fence.Position+1, batch); err != nil {
					b.Fatal(err)
				}
			}
			for i := 0; b.Loop(); i++ {
				got, err := s.List(b.Context(), 0, fmt.Sprintf("timeline.INC-%d", i*7919%incidents))
				if err != nil || len(got) != 3 {
					b.Fatal(len(got), err)
				}
			}
		})
	}
}

// BenchmarkStart opens the directory, loads every partition and reads the log after its position.
// The cost depends on the live records, not on the length of the log.
func BenchmarkStart(b *testing.B) {
	dir := b.TempDir()
	fill(b, dir, *benchInputs, *benchRecords)
	var open, load, read time.Duration
	for b.Loop() {
		began := time.Now()
		s := openStore(b, jetstream.Config{Dir: dir})
		open += time.Since(began)
		began = time.Now()
		n := 0
		for p := range s.Partitions() {
			records, fence, err := s.Load(b.Context(), p, statetest.Raw)
			if err != nil {
				b.Fatal(err)
			}
			n += len(records)
			load += time.Since(began)
			began = time.Now()
			r, err := s.Inputs(b.Context(), p, fence.Position)
			if err != nil {
				b.Fatal(err)
			}
			r.Close()
			read += time.Since(began)
			began = time.Now()
		}
		if n != *benchRecords {
			b.Fatalf("loaded %d records, want %d", n, *benchRecords)
		}
		b.StopTimer()
		closeStore(b, s)
		b.StartTimer()
	}
	for unit, d := range map[string]time.Duration{"open-ms": open, "load-ms": load, "read-ms": read} {
		b.ReportMetric(float64(d.Milliseconds())/float64(b.N), unit)
	}
}

// fill writes a log whose inputs are all applied, live records, as many overwritten records, and a
// timeline.
func fill(b *testing.B, dir string, inputs, records int) {
	s := openStore(b, jetstream.Config{Dir: dir})
	defer closeStore(b, s)
	batch := make([]state.Input, 1000)
	for i := range batch {
		batch[i] = payload(1)[0]
	}
	for n := 0; n < inputs; n += len(batch) {
		if err := s.Append(b.Context(), batch[:min(len(batch), inputs-n)]...); err != nil {
			b.Fatal(err)
		}
	}
	var fence state.Fence
	for range 2 {
		all := recordsOf(records)
		for i := range all {
			all[i].Key = fmt.Sprintf("alert.%d", i)
		}
		for chunk := range slices.Chunk(all, 900) {
			chunk = append(slices.Clone(chunk), state.Record{Key: fmt.Sprintf("timeline.INC-1.%d", fence.Rev), Value: []byte("x")})
			var err error
			if fence, err = s.Commit(b.Context(), s.Partition("prod"), fence, uint64(inputs), chunk); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkReadInputs(b *testing.B) {
	dir := b.TempDir()
	fill(b, dir, *benchInputs, 0)
	s := openStore(b, jetstream.Config{Dir: dir})
	defer closeStore(b, s)
	for b.Loop() {
		r, err := s.Inputs(b.Context(), s.Partition("prod"), 0)
		if err != nil {
			b.Fatal(err)
		}
		for range *benchInputs {
			if _, err := r.Next(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		r.Close()
	}
	b.ReportMetric(float64(b.N**benchInputs)/b.Elapsed().Seconds(), "inputs/s")
}
