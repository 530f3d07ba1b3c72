package service

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"paramedic/notify"
	"paramedic/rules"
	"paramedic/rules/catalog"
	"paramedic/state"
	"paramedic/state/fold"
)

// A trouble is a shape of alerts, with the labels of its nth alert.
type trouble struct {
	name   string
	labels func(n int) map[string]string
}

// troubles returns the shapes of alerts. In pools, every 64 alerts have a pool and a model of their
// own. In onemodel, all pools serve the same model, so that every open incident is a candidate for
// every alert. In storm, one pool has very many pods. In foreign, no rule knows the alerts, and
// nothing names inference. In addresses, the targets of one job have nothing but an address.
func troubles() []trouble {
	vllm := func(n int, pool, model string) map[string]string {
		return map[string]string{"alertname": "VLLMKVCacheExhaustion", "severity": "critical", "namespace": "llm", "model_name": model,
			"pod": fmt.Sprintf("%s-6d5f8c7b9-%05d", pool, n), "episode": fmt.Sprint(n)}
	}
	return []trouble{
		{"pools", func(n int) map[string]string {
			return vllm(n%64, fmt.Sprintf("vllm-p%d", n/64), fmt.Sprintf("model-%d", n/64))
		}},
		{"onemodel", func(n int) map[string]string { return vllm(n%64, fmt.Sprintf("vllm-p%d", n/64), "llama-70b") }},
		{"storm", func(n int) map[string]string { return vllm(n, "vllm-llama", "llama-70b") }},
		{"foreign", func(n int) map[string]string {
			return map[string]string{"alertname": fmt.Sprintf("DiskFull%d", n%200), "severity": "warning", "device": fmt.Sprint(n)}
		}},
		{"addresses", func(n int) map[string]string {
			return map[string]string{"alertname": "TargetDown", "severity": "warning", "job": "vllm",
				"instance": fmt.Sprintf("10.%d.%d.%d:8000", n>>16, n>>8&255, n&255)}
		}},
	}
}

// A fleetBoard applies alerts to a board as the keeper does.
type fleetBoard struct {
	fold  *fold.Fold
	board *fold.Board
	of    trouble
	now   time.Time
	seq   uint64
	fired int
}

func newFleetBoard(tb testing.TB, catalog *catalog.Catalog, of trouble) *fleetBoard {
	router, err := notify.NewRouter(nil, []state.Channel{state.ChannelConsole})
	if err != nil {
		tb.Fatal(err)
	}
	return &fleetBoard{of: of, board: fold.NewBoard(), now: time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC),
		fold: &fold.Fold{Triage: rules.Rules{Catalog: catalog}, Routing: router, Settings: state.DefaultSettings()}}
}

// fire applies one payload of new alerts.
func (f *fleetBoard) fire(tb testing.TB, alerts int) {
	batch := state.AlertBatch{Receiver: "bench"}
	for range alerts {
		batch.Alerts = append(batch.Alerts, state.Alert{Fingerprint: state.Fingerprint(fmt.Sprintf("%016x", f.fired)), Status: state.Firing,
			Labels: f.of.labels(f.fired), StartsAt: f.now})
		f.fired++
	}
	f.apply(tb, batch)
}

func (f *fleetBoard) apply(tb testing.TB, batch state.AlertBatch) {
	f.seq++
	f.now = f.now.Add(time.Millisecond)
	f.fold.Apply(f.board, state.Input{Seq: f.seq, At: f.now, Cluster: "default", Alerts: &batch})
	if _, _, err := f.board.Take(); err != nil {
		tb.Fatal(err)
	}
}

func benchCatalog(tb testing.TB) *catalog.Catalog {
	cat, problems, err := catalog.Load("")
	if err != nil || len(problems) > 0 {
		tb.Fatal(err, problems)
	}
	return cat
}

// BenchmarkApply measures one new alert beside many active ones: the real rules classify, correlate
// and count it, and it is encoded for the store.
func BenchmarkApply(b *testing.B) {
	catalog := benchCatalog(b)
	for _, of := range troubles() {
		for _, active := range []int{100, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/active=%d", of.name, active), func(b *testing.B) {
				var f *fleetBoard
				b.ReportAllocs()
				for b.Loop() {
					if f == nil || f.fired >= active+max(100, active/10) {
						b.StopTimer()
						f = newFleetBoard(b, catalog, of)
						for f.fired < active {
							f.fire(b, min(50, active-f.fired))
						}
						b.StartTimer()
					}
					f.fire(b, 1)
				}
			})
		}
	}
}

// BenchmarkRepeat measures a repeat of a known alert, which is most of what Alertmanager sends.
func BenchmarkRepeat(b *testing.B) {
	catalog := benchCatalog(b)
	for _, active := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprintf("active=%d", active), func(b *testing.B) {
			f := newFleetBoard(b, catalog, troubles()[0])
			started := f.now
			for f.fired < active {
				f.fire(b, min(50, active-f.fired))
			}
			n := 0
			for b.Loop() {
				n++
				f.apply(b, state.AlertBatch{Alerts: []state.Alert{{Fingerprint: state.Fingerprint(fmt.Sprintf("%016x", n%active)),
					Status: state.Firing,
					Labels: f.of.labels(n % active), StartsAt: started}}})
			}
		})
	}
}

// BenchmarkMemory measures the memory of the board for each active alert.
func BenchmarkMemory(b *testing.B) {
	catalog := benchCatalog(b)
	const active = 100_000
	for _, of := range troubles() {
		b.Run(of.name, func(b *testing.B) {
			for b.Loop() {
				before := heapInUse()
				f := newFleetBoard(b, catalog, of)
				for f.fired < active {
					f.fire(b, 50)
				}
				b.ReportMetric(float64(heapInUse()-before)/active, "bytes/alert")
				runtime.KeepAlive(f)
			}
		})
	}
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
