package service

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"paramedic/notify"
	"paramedic/rules"
	"paramedic/rules/catalog"
	"paramedic/state"
	"paramedic/state/fold"
)

// A trouble is a shape of alerts, with the labels of its nth alert. A payload has batch new alerts;
// zero means one.
type trouble struct {
	name   string
	labels func(n int) map[string]string
	batch  int
}

// troubles returns the shapes of alerts.
func troubles() []trouble {
	vllm := func(n int, pool, model string) map[string]string {
		return map[string]string{"alertname": "VLLMKVCacheExhaustion", "severity": "critical", "namespace": "llm", "model_name": model,
			"pod": fmt.Sprintf("%s-6d5f8c7b9-%05d", pool, n), "episode": fmt.Sprint(n)}
	}
	pool := func(n, nth int) map[string]string {
		return vllm(n, fmt.Sprintf("vllm-p%d", nth), fmt.Sprintf("model-%d", nth))
	}
	foreign := func(rule string, n int) map[string]string {
		return map[string]string{"alertname": rule, "severity": "warning", "device": fmt.Sprint(n)}
	}
	return []trouble{
		// Every 64 alerts have a pool and a model of their own.
		{name: "pools", labels: func(n int) map[string]string { return pool(n%64, n/64) }},
		// All pools serve one model: every open incident is a candidate for every alert.
		{name: "onemodel", labels: func(n int) map[string]string { return vllm(n%64, fmt.Sprintf("vllm-p%d", n/64), "llama-70b") }},
		// One pool has very many pods: one incident.
		{name: "storm", labels: func(n int) map[string]string { return vllm(n, "vllm-llama", "llama-70b") }},
		// One pool has 2,000 pods, with many alerts each.
		{name: "pods2000", labels: func(n int) map[string]string {
			l := vllm(n%2000, "vllm-llama", "llama-70b")
			l["episode"] = fmt.Sprint(n)
			return l
		}},
		// No rule knows the alerts, and nothing names inference.
		{name: "foreign", labels: func(n int) map[string]string { return foreign(fmt.Sprintf("DiskFull%d", n%200), n) }},
		// The same with one rule, and a pod for each alert.
		{name: "onerule", labels: func(n int) map[string]string {
			l := foreign("DiskFull", n)
			l["pod"] = fmt.Sprintf("job-%d-6d5f8c7b9-abcde", n)
			return l
		}},
		// The targets of one job have nothing but an address.
		{name: "addresses", labels: func(n int) map[string]string {
			return map[string]string{"alertname": "TargetDown", "severity": "warning", "job": "vllm",
				"instance": fmt.Sprintf("10.%d.%d.%d:8000", n>>16, n>>8&255, n&255)}
		}},
		// Each alert, and each payload, opens an incident.
		{name: "incident-per-alert", labels: func(n int) map[string]string { return pool(0, n) }},
		{name: "incident-per-payload", batch: 50, labels: func(n int) map[string]string { return pool(n%50, n/50) }},
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
		batch.Alerts = append(batch.Alerts, f.next())
	}
	f.apply(tb, batch)
}

// next returns the next new alert.
func (f *fleetBoard) next() state.Alert {
	f.fired++
	return state.Alert{Fingerprint: state.Fingerprint(fmt.Sprintf("%016x", f.fired-1)), Status: state.Firing,
		Labels: f.of.labels(f.fired - 1), StartsAt: f.now}
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

// BenchmarkApply compares the cost of one new alert beside 1,000, 10,000 and 100,000 active ones:
// the real rules classify, correlate and count it, and it is encoded for the store. One operation
// is 50 alerts on each board in turn, so that other work on the machine slows all alike. A ratio is
// that of 10,000 or 100,000 to 1,000; p50 compares the medians, without collections of garbage.
func BenchmarkApply(b *testing.B) {
	const block = 50
	sizes := []int{1_000, 10_000, 100_000}
	catalog := benchCatalog(b)
	for _, of := range troubles() {
		b.Run(of.name, func(b *testing.B) {
			boards, took := make([]*fleetBoard, len(sizes)), make([][]time.Duration, len(sizes))
			for b.Loop() {
				for i, active := range sizes {
					if f := boards[i]; f == nil || f.fired >= active+max(5*block, active/10) {
						boards[i] = filledBoard(b, catalog, of, active)
					}
					began := time.Now()
					for range block / max(1, of.batch) {
						boards[i].fire(b, max(1, of.batch))
					}
					took[i] = append(took[i], time.Since(began))
				}
			}
			mean := func(i int) float64 {
				var sum time.Duration
				for _, d := range took[i] {
					sum += d
				}
				return float64(sum) / float64(len(took[i])*block)
			}
			median := func(i int) float64 {
				slices.Sort(took[i])
				return float64(took[i][len(took[i])/2])
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(mean(2), "ns/alert-100k")
			b.ReportMetric(mean(1)/mean(0), "ratio-10k")
			b.ReportMetric(mean(2)/mean(0), "ratio-100k")
			b.ReportMetric(median(2)/median(0), "ratio-100k-p50")
		})
	}
}

// filledBoard returns a board with active alerts.
func filledBoard(tb testing.TB, catalog *catalog.Catalog, of trouble, active int) *fleetBoard {
	f := newFleetBoard(tb, catalog, of)
	for f.fired < active {
		f.fire(tb, min(50, active-f.fired))
	}
	return f
}

// BenchmarkRepeat measures a repeat of a known alert, which is most of what Alertmanager sends.
func BenchmarkRepeat(b *testing.B) {
	catalog := benchCatalog(b)
	for _, active := range []int{1_000, 10_000, 100_000} {
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

// typical returns alerts as kube-prometheus and its users write them: ten labels, three annotations
// of which one names the pod, and a link. Every 64 alerts have a pool of their own.
func typical() trouble {
	return trouble{name: "typical", labels: func(n int) map[string]string {
		pool := fmt.Sprintf("vllm-p%d", n/64)
		return map[string]string{"alertname": "VLLMKVCacheExhaustion", "severity": "critical", "namespace": "llm",
			"model_name": fmt.Sprintf("model-%d", n/64), "pod": fmt.Sprintf("%s-6d5f8c7b9-%05d", pool, n), "container": "vllm",
			"endpoint": "http", "instance": fmt.Sprintf("10.%d.%d.%d:8000", n>>16, n>>8&255, n&255), "job": "vllm",
			"prometheus": "monitoring/k8s"}
	}}
}

// decorated returns the alert with annotations and a link, as it is decoded from the log.
func decorated(tb testing.TB, a state.Alert) (out state.Alert) {
	a.Annotations = map[string]string{"summary": "KV cache is almost full", "runbook_url": "https://runbooks.example.org/kv-cache",
		"description": fmt.Sprintf("The KV cache of %s has been over 90%% full for five minutes.", a.Labels["pod"])}
	a.GeneratorURL = "http://prometheus.monitoring:9090/graph?g0.expr=own_cache_usage_ratio+%3E+0.90&g0.tab=1"
	raw, err := json.Marshal(a)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// BenchmarkMemory measures the memory of the board for each active alert.
func BenchmarkMemory(b *testing.B) {
	catalog := benchCatalog(b)
	const active = 100_000
	for _, of := range append(troubles(), typical()) {
		b.Run(of.name, func(b *testing.B) {
			for b.Loop() {
				before := heapInUse()
				f := newFleetBoard(b, catalog, of)
				for f.fired < active {
					var batch state.AlertBatch
					for range 50 {
						batch.Alerts = append(batch.Alerts, decorated(b, f.next()))
					}
					f.apply(b, batch)
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
