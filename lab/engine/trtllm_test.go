package engine

import (
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"paramedic/lab/metrics"
	"paramedic/lab/metrics/metricstest"
)

func newTRTLLM(s Settings) *Engine {
	return New(Config{Kind: TRTLLM, Settings: s.WithDefaults(), Cost: Cost{}.WithDefaults(2), GroupTokens: 512, Rand: newRand()}, 0)
}

// add adds requests that are alike.
func add(e *Engine, n, prompt, output int) {
	for range n {
		e.Add(&Request{Group: 1, Prompt: prompt, Output: output, MaxTokens: 2 * output})
	}
}

func page(t *testing.T, e *Engine) map[string]*dto.MetricFamily {
	t.Helper()
	p := e.Page(Process{Model: "llama-70b", Loaded: time.Unix(1e9, 0)}, func(string) bool { return false })
	body, err := metrics.Encode(p.Families())
	if err != nil {
		t.Fatal(err)
	}
	return metricstest.Parse(t, body)
}

func value(page map[string]*dto.MetricFamily, gauge string) float64 {
	return page[gauge].GetMetric()[0].GetGauge().GetValue()
}

// The page has every family of the collector for which such a worker has values, and no other.
func TestTRTLLMPageMatchesItsCollector(t *testing.T) {
	body, err := os.ReadFile("testdata/trtllm.prom.txt")
	if err != nil {
		t.Fatal(err)
	}
	e := newTRTLLM(Settings{})
	add(e, 20, 1000, 50)
	e.Add(&Request{Group: -1, Prompt: 1000, Output: 50, MaxTokens: 50})
	e.Add(&Request{Group: -1, Prompt: 1000, Output: 5000, MaxTokens: 5000, Timeout: 5})
	play(e, 0, 60, func(now float64) { e.Cancel(now, func(*Request) {}) })
	add(e, 1, 1000, 50)
	play(e, 60, 61, func(float64) {})
	e.Fail()
	ours, theirs := page(t, e), metricstest.Parse(t, body)
	for name := range ours {
		if theirs[name] == nil {
			t.Errorf("%s is not the collector's", name)
		}
	}
	for name, want := range theirs {
		metricstest.Compare(t, name, ours[name], want)
	}
	var reasons []string
	for _, m := range ours["trtllm_request_success_total"].GetMetric() {
		reasons = append(reasons, metricstest.Labels(m)["finished_reason"])
	}
	if slices.Sort(reasons); !slices.Equal(reasons, []string{"cancelled", "length", "stop"}) {
		t.Errorf("requests finish for %v", reasons)
	}
}

// A series with labels is absent before it has a value.
func TestFreshTRTLLMWorkerExportsOneCounter(t *testing.T) {
	e := newTRTLLM(Settings{})
	e.Tick(60)
	if page := page(t, e); len(page) != 2 || page["trtllm_prompt_cached_tokens_total"] == nil {
		t.Errorf("the page has %v", slices.Sorted(maps.Keys(page)))
	}
}

// Tokens and times are counted when a request ends, and each iteration sets the gauges. So a hang
// changes none of them.
func TestHangFreezesTRTLLMsPage(t *testing.T) {
	e := newTRTLLM(Settings{})
	add(e, 20, 1000, 500)
	play(e, 0, 5, func(float64) {})
	e.Tick(5)
	e.Hung = true
	before := page(t, e)
	add(e, 20, 1000, 500)
	play(e, 6, 60, func(float64) {})
	e.Cancel(60, func(*Request) {})
	after := page(t, e)
	for name := range before {
		if before[name].String() != after[name].String() {
			t.Errorf("%s changed in a hang", name)
		}
	}
	if v := value(before, "trtllm_num_requests_running"); v == 0 {
		t.Error("nothing runs in the hang")
	}
}

// The executor accepts as many requests as its largest batch holds. Its page counts those that wait
// for KV blocks as running, but not as scheduled.
func TestTRTLLMCountsBlocklessRequestsAsRunning(t *testing.T) {
	e := newTRTLLM(Settings{NumGPUBlocks: 2048, MaxNumSeqs: 200})
	add(e, 150, 1000, 1000)
	play(e, 0, 20, func(float64) {})
	e.Tick(20)
	page := page(t, e)
	running, waiting, scheduled := value(page, "trtllm_num_requests_running"), value(page, "trtllm_num_requests_waiting"),
		value(page, "trtllm_num_scheduled_requests")
	if e.Waiting() == 0 || waiting > 0 || scheduled >= running || running < float64(e.Running()) {
		t.Errorf("%d run and %d wait; the page has %g running, %g waiting, %g scheduled", e.Running(), e.Waiting(), running, waiting, scheduled)
	}
}
