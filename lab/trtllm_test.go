package lab

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// The page has every family of the collector for which such a worker has values, and no other.
func TestTRTLLMPageMatchesItsCollector(t *testing.T) {
	body, err := os.ReadFile("testdata/trtllm.prom.txt")
	if err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, Config{Seed: 1, Kind: TRTLLM, Workload: Workload{CancelShare: .2}})
	f.Advance(f.Start().Add(3 * time.Minute))
	f.workers[0].eng.stats.http["5xx"] = 1
	ours, theirs := workerPage(t, f, 0), parse(t, body)
	for name := range ours {
		if theirs[name] == nil {
			t.Errorf("%s is not the collector's", name)
		}
	}
	for name, want := range theirs {
		compare(t, name, ours[name], want)
	}
	reasons := labelValues(ours["trtllm_request_success_total"], "finished_reason")
	if !slices.Contains(reasons, "cancelled") || slices.Contains(reasons, "abort") {
		t.Errorf("requests finish for %v", reasons)
	}
}

// A series with labels is absent before it has a value.
func TestFreshTRTLLMWorkerExportsOneCounter(t *testing.T) {
	f := newFleet(t, Config{Seed: 1, Kind: TRTLLM, Workload: Workload{Rate: 1e-9}})
	f.Advance(f.Start().Add(time.Minute))
	if page := workerPage(t, f, 0); len(page) != 2 || page["trtllm_prompt_cached_tokens_total"] == nil {
		t.Errorf("the page has %v", slices.Sorted(maps.Keys(page)))
	}
}

// Tokens and times are counted when a request ends, and each iteration sets the gauges. So a hang
// changes none of them.
func TestHangFreezesTRTLLMsPage(t *testing.T) {
	s, err := NewScenario(EngineHang, 3)
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.As(TRTLLM).Build()
	if err != nil {
		t.Fatal(err)
	}
	f.Advance(f.Start().Add(5*time.Minute + 10*time.Second))
	hung := slices.IndexFunc(f.workers, func(w *worker) bool { return w.eng.hung })
	before := workerPage(t, f, hung)
	inside := f.workers[hung].load()
	f.Advance(f.Start().Add(6 * time.Minute))
	if f.workers[hung].load() <= inside {
		t.Fatal("no request came")
	}
	after := workerPage(t, f, hung)
	for name := range before {
		if name != "trtllm_request_error_total" && before[name].String() != after[name].String() {
			t.Errorf("%s changed in a hang", name)
		}
	}
	if v := value(before, "trtllm_num_requests_running"); v == 0 {
		t.Error("nothing runs in the hang")
	}
}

// The executor accepts as many requests as its largest batch holds. Its page counts those that wait
// for KV blocks as running, but not as scheduled.
func TestTRTLLMCountsRequestsWithoutBlocksAsRunning(t *testing.T) {
	f := newFleet(t, Config{Seed: 1, Kind: TRTLLM, Engine: Engine{NumGPUBlocks: 2048, MaxNumSeqs: 200}, Workload: Workload{Rate: 20}})
	f.Advance(f.Start().Add(30 * time.Second))
	e, page := f.workers[0].eng, workerPage(t, f, 0)
	running, waiting, scheduled := value(page, "trtllm_num_requests_running"), value(page, "trtllm_num_requests_waiting"),
		value(page, "trtllm_num_scheduled_requests")
	if len(e.waiting) == 0 || waiting > 0 || scheduled >= running || running < float64(len(e.running)) {
		t.Errorf("%d run and %d wait; the page has %g running, %g waiting, %g scheduled", len(e.running), len(e.waiting), running, waiting,
			scheduled)
	}
}

func TestTRTLLMsFlagsAreItsOwn(t *testing.T) {
	f := newFleet(t, Config{Seed: 1, Kind: TRTLLM})
	if err := f.SetArg(ArgChange{Name: "max_num_seqs", Old: "256", New: "64"}); err != nil {
		t.Fatal(err)
	}
	d := f.Deployment()
	if d.Args[0] != "serve" || d.Args[1] != "llama-70b" || !slices.Contains(d.Args, "--max_batch_size=64") ||
		f.engineOf(d.Args).MaxNumSeqs != 64 {
		t.Errorf("the arguments are %v", d.Args)
	}
	if slices.ContainsFunc(d.Args, func(a string) bool { return strings.HasPrefix(a, "--max-") }) {
		t.Errorf("%v has flags of vLLM", d.Args)
	}
}

// workerPage returns the page of the n-th worker.
func workerPage(t *testing.T, f *Fleet, n int) map[string]*dto.MetricFamily {
	t.Helper()
	body, err := encode(f.enginePage(f.workers[n]).families)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, body)
}

func value(page map[string]*dto.MetricFamily, gauge string) float64 {
	return page[gauge].GetMetric()[0].GetGauge().GetValue()
}

func labelValues(f *dto.MetricFamily, label string) []string {
	var out []string
	for _, m := range f.GetMetric() {
		out = append(out, labelMap(m.Label)[label])
	}
	return out
}

func labelMap(pairs []*dto.LabelPair) map[string]string {
	out := map[string]string{}
	for _, l := range pairs {
		out[l.GetName()] = l.GetValue()
	}
	return out
}
