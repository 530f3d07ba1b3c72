package engine

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"paramedic/rules/enrich"
	"paramedic/rules/signals"
	"paramedic/state"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"),
		goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}

func builtIn(t testing.TB) []signals.Signal {
	builtin, err := signals.LoadSignals()
	if err != nil {
		t.Fatal(err)
	}
	return builtin
}

// recorded returns a page of a real engine. The pages are not part of the project.
func recorded(t testing.TB, name string) []byte {
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		b, readErr := os.ReadFile(filepath.Join(dir, "shared", "data", "metrics", name))
		if readErr == nil {
			return b
		}
		dir = filepath.Dir(dir)
	}
	t.Skipf("no recorded page %s: put the recorded data at ../shared/data to run this test", name)
	return nil
}

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.now }
func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
func (c *clock) After(time.Duration) <-chan time.Time { return nil }

var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// pages serves a list of pages, one for each scrape. The last page repeats.
func pages(t testing.TB, list ...string) (*Client, *clock) {
	n := -1
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			return
		}
		n = min(n+1, len(list)-1)
		if list[n] == "down" {
			http.Error(w, "no", http.StatusBadGateway)
			return
		}
		fmt.Fprint(w, list[n])
	}))
	t.Cleanup(srv.Close)
	c := &clock{now: start}
	client := New(Config{Targets: []Target{{URL: srv.URL + "/metrics", Labels: map[string]string{"instance": "w:8000"}}},
		Signals: builtIn(t), Clock: c})
	for i := range list {
		if i > 0 {
			c.pass(15 * time.Second)
		}
		client.Scrape(t.Context())
	}
	return client, c
}

func readAll(t testing.TB, c *Client, at time.Time) map[string]state.Sample {
	r := c.Read(t.Context(), enrich.Query{Cluster: "default", Signals: builtIn(t), Now: at, Onset: at})
	out := map[string]state.Sample{}
	for _, s := range r.Samples {
		id := s.Signal
		if s.Entity.Instance == "" {
			id += " pool"
		}
		out[id] = s
	}
	return out
}

// grow multiplies all counters of a recorded page, as if the engine had done the same work several
// times.
func grow(page []byte, by float64) string {
	var b strings.Builder
	kind := ""
	for line := range strings.Lines(string(page)) {
		if f := strings.Fields(line); strings.HasPrefix(line, "# TYPE") {
			kind = f[3]
		}
		cut := strings.LastIndex(strings.TrimSpace(line), " ")
		var v float64
		if line[0] == '#' || kind == "gauge" || cut < 0 {
			b.WriteString(line)
			continue
		}
		fmt.Sscan(strings.TrimSpace(line)[cut+1:], &v)
		fmt.Fprintf(&b, "%s %g\n", line[:cut], v*by)
	}
	return b.String()
}

func TestRecordedPagesGiveTheRightSignals(t *testing.T) {
	for _, c := range []struct {
		page, model string
		want        map[string]float64
	}{
		{"dynamo-vllm.prom.txt", "Qwen/Qwen3-0.6B", map[string]float64{"kv_usage": 0, "requests_running": 0, "requests_waiting": 0,
			"preemption_rate": 0,
			"kv_block_size":   16, "prompt_length_mean": 33, "output_length_mean": 300, "itl_p95": math.NaN(), "ttft_p95": math.NaN(),
			"ttft_p95 pool":       math.NaN(),
			"queue_time_p95 pool": math.NaN(), "prefill_time_p95 pool": math.NaN(), "decode_time_p95 pool": math.NaN(),
			"generation_tokens_rate": math.NaN(), "up": 1, "engine_health": 1, "kv_idle_usage": 0}},
		{"dynamo-sglang.prom.txt", "Qwen/Qwen3-0.6B", map[string]float64{"kv_usage": 0, "requests_running": 0, "requests_waiting": 0,
			"prefix_hit_ratio":   0,
			"prompt_length_mean": 33, "output_length_mean": 300, "ttft_p95": math.NaN(), "itl_p50 pool": math.NaN(),
			"e2e_p95 pool": math.NaN(), "queue_time_p95 pool": math.NaN(), "finish_rate": math.NaN()}},
		{"dynamo-frontend.prom.txt", "qwen/qwen3-0.6b", map[string]float64{"max_num_seqs pool": 2, "kv_blocks_total pool": 92962,
			"kv_block_size pool":      1,
			"prompt_length_mean pool": 33, "output_length_mean pool": 300, "ttft_p95 pool": math.NaN(), "error_rate pool": 0,
			"requests_waiting pool": 0}},
	} {
		t.Run(c.page, func(t *testing.T) {
			page := recorded(t, c.page)
			client, clk := pages(t, grow(page, 1), grow(page, 2), grow(page, 3), grow(page, 4))
			got := readAll(t, client, clk.Now())
			for id, want := range c.want {
				s, ok := got[id]
				switch {
				case !ok:
					t.Errorf("no %s", id)
				case math.IsNaN(want) && s.Value <= 0, !math.IsNaN(want) && math.Abs(s.Value-want) > 1e-6:
					t.Errorf("%s is %g, want %g", id, s.Value, want)
				case !strings.EqualFold(s.Entity.Model, c.model) && id != "kv_block_size" && id != "kv_blocks_total":
					t.Errorf("%s is of model %q", id, s.Entity.Model)
				}
			}
			for id, s := range got {
				if !strings.HasSuffix(id, " pool") && c.page == "dynamo-frontend.prom.txt" && id != "up" && id != "engine_health" {
					t.Errorf("a frontend was taken for a worker: %+v", s)
				}
			}
		})
	}
}

// Ray exports vLLM's metrics under its own names, and counters also as gauges without their suffix.
func TestRayPagesAreReadAsVLLM(t *testing.T) {
	const page = `# TYPE %[1]skv_cache_usage_perc gauge
%[1]skv_cache_usage_perc{Component="core_worker",ReplicaId="r",SessionName="s",WorkerId="w",engine="0",model_name="m"} 0.97
# TYPE %[1]snum_preemptions gauge
%[1]snum_preemptions{WorkerId="w",engine="0",model_name="m"} %[2]d
# TYPE %[1]snum_preemptions_total counter
%[1]snum_preemptions_total{WorkerId="w",engine="0",model_name="m"} %[2]d
# TYPE %[1]stime_to_first_token_seconds histogram
%[1]stime_to_first_token_seconds_bucket{WorkerId="w",engine="0",model_name="m",le="0.5"} 0
%[1]stime_to_first_token_seconds_bucket{WorkerId="w",engine="0",model_name="m",le="1.0"} %[2]d
%[1]stime_to_first_token_seconds_bucket{WorkerId="w",engine="0",model_name="m",le="+Inf"} %[2]d
%[1]stime_to_first_token_seconds_count{WorkerId="w",engine="0",model_name="m"} %[2]d
%[1]stime_to_first_token_seconds_sum{WorkerId="w",engine="0",model_name="m"} %[2]d
`
	for _, prefix := range []string{"ray_vllm_", "ray_vllm:", "vllm:", "vllm_"} {
		client, clk := pages(t, fmt.Sprintf(page, prefix, 0), fmt.Sprintf(page, prefix, 30), fmt.Sprintf(page, prefix, 60))
		got := readAll(t, client, clk.Now())
		for id, want := range map[string]float64{"kv_usage": 0.97, "preemption_rate": 2, "ttft_p95": 0.975} {
			if s := got[id]; math.Abs(s.Value-want) > 1e-9 || s.Entity.Model != "m" {
				t.Errorf("%s: %s is %+v, want %g", prefix, id, s, want)
			}
		}
	}
}

// Each rank of data-parallel attention has its own requests. With separate phases, requests wait in
// separate queues. Requests that wait by priority are in the total as well. Every rank reports the
// size of its cache.
func TestEveryRankAndQueueOfSGLangCounts(t *testing.T) {
	gauge := func(name string, v float64, labels string) string {
		return fmt.Sprintf("# TYPE sglang:%s gauge\nsglang:%s{model_name=\"m\"%s} %g\n", name, name, labels, v)
	}
	const first, third = `,dp_rank="0",pp_rank="0",tp_rank="0"`, `,dp_rank="1",pp_rank="0",tp_rank="2"`
	queues := func(labels string, v float64) string {
		return gauge("num_decode_prealloc_queue_reqs", v, labels) + gauge("num_decode_transfer_queue_reqs", v, labels) +
			gauge("num_prefill_bootstrap_queue_reqs", 0, labels) + gauge("num_prefill_inflight_queue_reqs", 0, labels)
	}
	for name, c := range map[string]struct {
		page string
		want map[string]float64
	}{
		"data-parallel attention": {gauge("num_queue_reqs", 3, first) + gauge("num_queue_reqs", 40, third) + gauge("num_running_reqs", 10,
			first) + gauge("num_running_reqs", 12, third),
			map[string]float64{"requests_waiting": 43, "requests_running": 22}},
		"a decode worker": {gauge("num_queue_reqs", 0, first) + gauge("num_running_reqs", 0, first) + queues(first, 20) +
			gauge("token_usage", 0.9, first),
			map[string]float64{"requests_waiting": 40, "requests_running": 0, "kv_usage": 0.9, "kv_idle_usage": math.NaN()}},
		"an idle worker": {gauge("num_queue_reqs", 0, first) + gauge("num_running_reqs", 0, first) + queues(first, 0) + gauge("token_usage",
			0.3, first),
			map[string]float64{"requests_waiting": 0, "kv_idle_usage": 0.3}},
		"priorities": {gauge("num_queue_reqs", 5, `,tp_rank="0",priority=""`) + gauge("num_queue_reqs", 2, `,tp_rank="0",priority="1"`) + gauge("num_queue_reqs", 3, `,tp_rank="0",priority="9"`),
			map[string]float64{"requests_waiting": 5}},
		"tensor-parallel ranks": {gauge("num_queue_reqs", 5, `,tp_rank="0"`) + gauge("num_queue_reqs", 5, `,tp_rank="1"`) + gauge("max_total_num_tokens", 92962, `,tp_rank="0"`) + gauge("max_total_num_tokens", 92962, `,tp_rank="1"`),
			map[string]float64{"requests_waiting": 5, "kv_blocks_total": 92962}},
	} {
		client, clk := pages(t, c.page, c.page)
		got := readAll(t, client, clk.Now())
		for id, want := range c.want {
			s, ok := got[id]
			if math.IsNaN(want) && ok || !math.IsNaN(want) && (!ok || s.Value != want) {
				t.Errorf("%s: %s is %+v (%v), want %g", name, id, s.Value, ok, want)
			}
		}
	}
}

func TestTargetThatIsDownIsUpZero(t *testing.T) {
	const page = "vllm:kv_cache_usage_perc{model_name=\"m\"} 0.9\n"
	client, clk := pages(t, page, page, "down")
	if s := readAll(t, client, clk.Now())["up"]; s.Value != 1 {
		t.Errorf("one scrape of a minute failed, but up is %+v", s)
	}
	client, clk = pages(t, "down", "down", page)
	if s := readAll(t, client, clk.Now())["up"]; s.Value != 1 {
		t.Errorf("a worker has started, but up is %+v", s)
	}
	client, clk = pages(t, page, page, "down", "down", "down", "down")
	got := readAll(t, client, clk.Now())
	if s, ok := got["up"]; !ok || s.Value != 0 || s.Entity.Model != "m" || s.Entity.Instance != "w:8000" {
		t.Errorf("up is %+v", s)
	}
	if s, ok := got["kv_usage"]; ok {
		t.Errorf("a page that could not be read still gives %+v", s)
	}
	r := client.Read(t.Context(), enrich.Query{Signals: builtIn(t), Now: clk.Now(), Onset: clk.Now()})
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0].Reason, "502") {
		t.Errorf("notes %+v", r.Notes)
	}
}

func TestSingleScrapeGivesNoRate(t *testing.T) {
	client, clk := pages(t, "# TYPE vllm:num_preemptions_total counter\nvllm:num_preemptions_total{model_name=\"m\"} 5\n")
	r := client.Read(t.Context(), enrich.Query{Signals: builtIn(t), Now: clk.Now(), Onset: clk.Now()})
	if why := r.Failed["preemption_rate"]; !strings.Contains(why, "too few scrapes") {
		t.Errorf("failed with %q", why)
	}
}

// Three scrapes within 30 seconds give a rate per second, although the window is five minutes.
func TestRateUsesObservedWindow(t *testing.T) {
	const page = "# TYPE vllm:num_preemptions_total counter\nvllm:num_preemptions_total{model_name=\"m\"} %d\n"
	client, clk := pages(t, fmt.Sprintf(page, 500), fmt.Sprintf(page, 530), fmt.Sprintf(page, 560))
	if s := readAll(t, client, clk.Now())["preemption_rate"]; s.Value != 2 {
		t.Errorf("60 preemptions in 30 s are %g a second, want 2", s.Value)
	}
}

func TestBadPagesAreErrorsNotValues(t *testing.T) {
	for name, page := range map[string]string{"html": "<html>hello</html>", "cut": "# TYPE a counter\na{x=\"", "json": `{"a": 1}`} {
		if _, err := newReader(map[string]bool{"a": true}).read(strings.NewReader(page)); err == nil {
			t.Errorf("%s was read", name)
		}
	}
	c := New(Config{Signals: builtIn(t), Timeout: time.Minute})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		line := bytes.Repeat([]byte("# a comment that goes on\n"), 4096)
		for range MaxPage/len(line) + 2 {
			if _, err := w.Write(line); err != nil {
				return
			}
		}
	}))
	defer srv.Close()
	if _, err := c.fetch(t.Context(), srv.URL+"/metrics", newReader(c.wanted)); err == nil ||
		!strings.Contains(err.Error(), "larger than") {
		t.Errorf("an endless page: %v", err)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	h := newHistory()
	for i := range 4 * 60 * 24 { // a day of pages
		h.add(start.Add(time.Duration(i)*15*time.Second), []point{{newLine("m", nil, math.NaN()), float64(i)}})
	}
	if n := len(h.rows); n > 350 {
		t.Errorf("%d rows are kept", n)
	}
	last := h.rows[len(h.rows)-1].at
	if age := last.Sub(h.rows[0].at); age < 5*time.Hour || age > keepFor {
		t.Errorf("history goes back %s", age)
	}
	if n := len(h.between(last.Add(-5*time.Minute), last)); n != 20 {
		t.Errorf("%d pages in the last five minutes, want 20", n)
	}
}

func TestFunctions(t *testing.T) {
	line := func(vs ...float64) []at {
		var out []at
		for i, v := range vs {
			out = append(out, at{float64(i-len(vs)+1) * 10, v})
		}
		return out
	}
	for name, c := range map[string]struct {
		fn   signals.Fn
		in   []at
		want float64
	}{
		"rate":                  {signals.FnRate, line(100, 110, 120, 130), 1},
		"rate corrects a reset": {signals.FnRate, line(100, 110, 5, 15), 25.0 / 30},
		"changes":               {signals.FnChanges, line(0, 0, 79, 79, 31), 2},
		"slope":                 {signals.FnSlope, line(0, 20, 40, 60), 2},
		"min":                   {signals.FnMin, line(3, 1, 2), 1},
		"max":                   {signals.FnMax, line(3, 1, 2), 3},
		"avg":                   {signals.FnAvg, line(3, 1, 2), 2},
	} {
		if got, ok := over(c.fn, c.in, 30*time.Second); !ok || math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %g %v, want %g", name, got, ok, c.want)
		}
	}
}

// stopped is a transport without a network, so that the loop runs in a synctest bubble.
type stopped struct{ n int }

func (s *stopped) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/metrics") {
		s.n++
	}
	rec := httptest.NewRecorder()
	fmt.Fprintln(rec, "up_to_date 1")
	return rec.Result(), nil
}

func TestRunScrapesUntilStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := &stopped{}
		c := New(Config{Targets: []Target{{URL: "http://w/metrics"}}, Signals: builtIn(t), Interval: 10 * time.Second,
			Transport: transport})
		ctx, cancel := context.WithTimeout(t.Context(), 35*time.Second)
		defer cancel()
		c.Run(ctx)
		if transport.n != 4 {
			t.Errorf("%d scrapes in 35 s, want 4", transport.n)
		}
	})
}

// hanging is a transport; requests to engines with this name never end.
type hanging struct{}

func (hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasPrefix(r.URL.Host, "hangs") {
		<-r.Context().Done()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return (&stopped{}).RoundTrip(r)
}

func TestHangingEnginesDoNotBlockPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Config{Targets: []Target{{URL: "http://hangs-1/metrics"}, {URL: "http://hangs-2/metrics"}, {URL: "http://well/metrics"}},
			Signals: builtIn(t), Transport: hanging{}})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		err := c.Ping(ctx)
		if err == nil || strings.Count(err.Error(), "hangs") != 2 || strings.Contains(err.Error(), "well") {
			t.Errorf("got %v", err)
		}
	})
}

func TestReadStopsWaitingAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var targets []Target
		for i := range 40 {
			targets = append(targets, Target{URL: fmt.Sprintf("http://hangs-%d/metrics", i)})
		}
		c := New(Config{Targets: targets, Signals: builtIn(t), Transport: hanging{}})
		round, stop := context.WithCancel(t.Context())
		defer stop()
		go c.Scrape(round)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		r := c.Read(ctx, enrich.Query{Signals: builtIn(t), Now: began, Onset: began})
		if took := time.Since(began); took != time.Second {
			t.Errorf("took %s", took)
		}
		if why := r.Failed["kv_usage"]; why != "engines: no answer in time" {
			t.Errorf("kv_usage failed with %q", why)
		}
		if why := r.Failed["kube_event"]; why != "" {
			t.Errorf("a signal that no engine exports failed with %q", why)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("# TYPE a histogram\na_bucket{le=\"1\"} 1\na_bucket{le=\"+Inf\"} 2\na_sum 3\na_count 2\n"))
	f.Add([]byte("vllm:kv_cache_usage_perc{model_name=\"\\\"\"} NaN\n"))
	f.Add([]byte("x{y=\"\xff\"} 1 -1\n"))
	wanted := map[string]bool{"a": true, "a_bucket": true, "x": true, "vllm:kv_cache_usage_perc": true}
	f.Fuzz(func(t *testing.T, page []byte) {
		points, err := newReader(wanted).read(bytes.NewReader(page))
		if err != nil {
			return
		}
		h := newHistory()
		h.add(start, points)
		h.add(start.Add(time.Second), points)
		for _, p := range points {
			if !wanted[p.metric] {
				t.Fatalf("kept %q", p.metric)
			}
		}
	})
}

// A caller's page names models that others serve, as a picker's page does.
func TestCallerIsNotAWorker(t *testing.T) {
	const page = "# TYPE llm_requests_total counter\nllm_requests_total{model_name=\"m\",status=\"success\"} 5\n"
	client, clk := pages(t, page, page)
	if s := readAll(t, client, clk.Now())["up"]; s.Signal == "" || s.Entity.Model != "" {
		t.Errorf("the caller's scrape is taken for a worker's: %+v", s)
	}
}

// An endpoint picker's page names models that others serve. Its own scrape is not a worker's.
func TestEndpointPickerIsNotAWorker(t *testing.T) {
	const page = "# TYPE llm_d_epp_request_total counter\nllm_d_epp_request_total{model_name=\"m\",target_model_name=\"m\"} 5\n" +
		"# TYPE llm_d_epp_ready_endpoints gauge\nllm_d_epp_ready_endpoints{name=\"pool\"} 0\n"
	client, clk := pages(t, page, page)
	got := readAll(t, client, clk.Now())
	if s := got["gateway_ready_endpoints pool"]; s.Value != 0 || s.Signal == "" {
		t.Errorf("endpoints of the gateway: %+v", got)
	}
	if s := got["up"]; s.Entity.Model != "" {
		t.Errorf("the picker's scrape is taken for a worker's: %+v", s)
	}
}
