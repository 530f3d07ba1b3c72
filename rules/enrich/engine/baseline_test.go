package engine

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"paramedic/rules/enrich"
	"paramedic/state"
)

// The bot may have started minutes before the fault. Its baseline is then the beginning of the
// history, with rates over the observed time. There is no baseline if the beginning is too close to
// the onset.
func TestShortHistoryUsesItsBeginningAsBaseline(t *testing.T) {
	for name, tc := range map[string]struct {
		onset time.Duration // after the first page
		want  bool
	}{
		"the beginning is the baseline":       {10 * time.Minute, true},
		"the beginning may include the fault": {3 * time.Minute, false},
		"the onset was before the first page": {-time.Minute, false},
		"history of almost an hour":           {59 * time.Minute, true},
		"history of well over an hour":        {70 * time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			clk := &clock{now: start}
			tokens, hits := 0.0, 0.0
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				var b bytes.Buffer
				fmt.Fprintf(&b,
					"vllm:generation_tokens_total{model_name=\"m\"} %g\nvllm:prefix_cache_queries_total{model_name=\"m\"} %g\n"+
						"vllm:prefix_cache_hits_total{model_name=\"m\"} %g\n", tokens, tokens, hits)
				_, _ = w.Write(b.Bytes()) // the client reports a failed write
			}))
			defer srv.Close()
			c := New(Config{Targets: []Target{{URL: srv.URL + "/metrics", Labels: map[string]string{"pod": "a"}}}, Signals: builtIn(t),
				Clock: clk})
			c.Scrape(context.Background())
			end := max(tc.onset, 0) + 5*time.Minute
			for at := time.Duration(0); at < end; at += 15 * time.Second {
				clk.pass(15 * time.Second)
				rate := 100.0 // 300 from the fault on, without a cache
				if at >= tc.onset-2*time.Minute {
					rate = 300
				} else {
					hits += 50 * 15
				}
				tokens += rate * 15
				c.Scrape(context.Background())
			}
			got := c.Read(context.Background(), enrich.Query{Onset: start.Add(tc.onset), Now: clk.Now(), Signals: builtIn(t)})
			if short := tc.onset < time.Hour; short != got.Began.Equal(start) {
				t.Errorf("its past begins at %s", got.Began)
			}
			want := map[string]float64{"generation_tokens_rate": 100, "prefix_hit_ratio": 0.5}
			for _, s := range got.Samples {
				if s.DayAgo != nil || s.WeekAgo != nil {
					t.Errorf("%s has points before the first page: %+v", s.Signal, s)
				}
				rate, checked := want[s.Signal]
				switch {
				case !checked:
				case tc.want && (s.Baseline == nil || *s.Baseline < 0.9*rate || *s.Baseline > 1.1*rate):
					t.Errorf("%s was %v, want about %g", s.Signal, show(s.Baseline), rate)
				case !tc.want && s.Baseline != nil:
					t.Errorf("%s has a baseline of %v without history", s.Signal, show(s.Baseline))
				}
			}
		})
	}
}

// A history of hours gives the values of its beginning, too: an hour before the onset the trouble
// may have begun already.
func TestLongHistoryKeepsItsBeginning(t *testing.T) {
	clk, tokens := &clock{now: start}, 0.0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "vllm:generation_tokens_total{model_name=\"m\"} %g\n", tokens)
	}))
	defer srv.Close()
	c := New(Config{Targets: []Target{{URL: srv.URL + "/metrics", Labels: map[string]string{"pod": "a"}}}, Signals: builtIn(t), Clock: clk})
	for at := time.Duration(0); at < 4*time.Hour; at += time.Minute {
		clk.pass(time.Minute)
		if tokens += 100 * 60; at > time.Hour { // three times as much after the first hour
			tokens += 200 * 60
		}
		c.Scrape(t.Context())
	}
	for onset, want := range map[time.Duration]float64{4 * time.Hour: 100, 90 * time.Minute: 0} {
		got := c.Read(t.Context(), enrich.Query{Onset: start.Add(onset), Now: clk.Now(), Signals: builtIn(t)})
		i := slices.IndexFunc(got.Samples, func(s state.Sample) bool { return s.Signal == "generation_tokens_rate" })
		if i < 0 {
			t.Fatal("no rate of tokens")
		}
		earlier := got.Samples[i].Earlier
		if want == 0 && earlier != nil || want > 0 && (earlier == nil || *earlier < 0.9*want || *earlier > 1.1*want) {
			t.Errorf("onset after %s: it was %s, want about %g", onset, show(earlier), want)
		}
	}
}

// SGLang exports its count of aborted requests only after the first one.
func TestCounterBeforeItsFirstEventIsZero(t *testing.T) {
	clk := &clock{now: start}
	aborted := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		page := "sglang:num_running_reqs{model_name=\"m\"} 4\n"
		if aborted > 0 {
			page += fmt.Sprintf("sglang:num_aborted_requests_total{model_name=\"m\"} %d\n", aborted)
		}
		_, _ = fmt.Fprint(w, page) // the client reports a failed write
	}))
	defer srv.Close()
	c := New(Config{Targets: []Target{{URL: srv.URL + "/metrics"}}, Signals: builtIn(t), Clock: clk})
	for at := time.Duration(0); at <= 3*time.Hour; at += time.Minute {
		if at > 2*time.Hour {
			aborted += 60
		}
		c.Scrape(context.Background())
		clk.pass(time.Minute)
	}
	got := c.Read(context.Background(), enrich.Query{Onset: clk.Now(), Now: clk.Now(), Signals: builtIn(t)})
	at := slices.IndexFunc(got.Samples, func(s state.Sample) bool { return s.Signal == "abort_rate" })
	if at < 0 || got.Samples[at].Earlier == nil || *got.Samples[at].Earlier != 0 {
		t.Errorf("aborts hours ago are unknown: %+v", got.Samples)
	}
}

// SGLang's releases with a histogram of retractions count aborts. Of older ones nothing is known.
func TestMissingCountOfAbortsIsZero(t *testing.T) {
	for name, want := range map[string]int{"sglang:num_retractions_count": 1, "sglang:num_requests_total": 0} {
		clk := &clock{now: start}
		n := 0
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			n++
			_, _ = fmt.Fprintf(w, "sglang:num_running_reqs{model_name=\"m\"} 4\n%s{model_name=\"m\"} %d\n", name, n) // the client reports a failed write
		}))
		defer srv.Close()
		c := New(Config{Targets: []Target{{URL: srv.URL + "/metrics"}}, Signals: builtIn(t), Clock: clk})
		for range 10 {
			c.Scrape(context.Background())
			clk.pass(time.Minute)
		}
		got := c.Read(context.Background(), enrich.Query{Onset: clk.Now(), Now: clk.Now(), Signals: builtIn(t)})
		rates := slices.DeleteFunc(got.Samples, func(s state.Sample) bool { return s.Signal != "abort_rate" || s.Value != 0 })
		if len(rates) != want {
			t.Errorf("with %s: aborts %+v, want %d of zero", name, rates, want)
		}
	}
}

func show(p *float64) string {
	if p == nil {
		return "nothing"
	}
	return fmt.Sprint(*p)
}

// The gauge of the last Xid keeps its value. Until the history covers the window, a count of zero
// new Xids would claim too much.
func TestXidBeforeFirstPageIsReported(t *testing.T) {
	for name, tc := range map[string]struct {
		code    int
		watched time.Duration
		want    bool
	}{
		"observed for a minute":               {79, time.Minute, true},
		"observed for longer than the window": {79, 16 * time.Minute, false},
		"no Xid":                              {0, time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			clk := &clock{now: start}
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = fmt.Fprintf(w, "DCGM_FI_DEV_XID_ERRORS{gpu=\"0\",UUID=\"GPU-1\",Hostname=\"node-1\"} %d\n",
					tc.code) // the client reports a failed write
			}))
			defer srv.Close()
			c := New(Config{Targets: []Target{{URL: srv.URL + "/metrics"}}, Signals: builtIn(t), Clock: clk})
			for at := time.Duration(0); at <= tc.watched; at += 15 * time.Second {
				c.Scrape(context.Background())
				clk.pass(15 * time.Second)
			}
			got := c.Read(context.Background(), enrich.Query{Onset: clk.Now(), Now: clk.Now(), Signals: builtIn(t)})
			if noted := slices.ContainsFunc(got.Notes,
				func(m state.Missing) bool { return m.Signal == "gpu_xid_changes" }); noted != tc.want {
				t.Errorf("note: %v; notes %v", noted, got.Notes)
			}
		})
	}
}

// A rollout replaces every worker. What the old ones did is the baseline of the new ones: counts
// are shared among them.
func TestSuccessorsInheritThePast(t *testing.T) {
	clk, tokens := &clock{now: start}, 0.0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "vllm:generation_tokens_total{model_name=\"m\"} %g\nvllm:kv_cache_usage_perc{model_name=\"m\"} 0.5\n", tokens)
	}))
	defer srv.Close()
	var listed []Target
	list := func(pods ...string) {
		listed = nil
		for _, pod := range pods {
			listed = append(listed, Target{URL: srv.URL + "/" + pod, Labels: map[string]string{"pod": pod, "namespace": "llm"}})
		}
	}
	c := New(Config{Discover: func() []Target { return listed }, Signals: builtIn(t), Clock: clk})
	scrape := func(d time.Duration) {
		for range int(d / time.Minute) {
			clk.pass(time.Minute)
			tokens += 100 * 60
			c.Scrape(t.Context())
		}
	}
	list("llama-7d9f8b6c5-aaaaa", "llama-7d9f8b6c5-bbbbb")
	scrape(90 * time.Minute)
	onset := clk.Now()
	list("llama-7d9f8b6c5-aaaaa", "llama-fff869766-ccccc")
	scrape(5 * time.Minute)
	for _, s := range c.Read(t.Context(), enrich.Query{Onset: onset, Now: clk.Now(), Signals: builtIn(t)}).Samples {
		if s.Entity.Pod == "llama-fff869766-ccccc" && s.Baseline != nil {
			t.Errorf("%s is %v, though a worker has stayed", s.Signal, show(s.Baseline))
		}
	}
	list("llama-fff869766-ccccc")
	scrape(5 * time.Minute)
	got := c.Read(t.Context(), enrich.Query{Onset: onset, Now: clk.Now(), Signals: builtIn(t)})
	want := map[string]float64{"generation_tokens_rate": 200, "kv_usage": 0.5}
	for _, s := range got.Samples {
		if s.Entity.Pod != "llama-fff869766-ccccc" {
			t.Errorf("%s is of %s, which is gone", s.Signal, s.Entity.Pod)
		}
		if w, ok := want[s.Signal]; ok {
			delete(want, s.Signal)
			if s.Baseline == nil || *s.Baseline < 0.9*w || *s.Baseline > 1.1*w {
				t.Errorf("%s was %v, want about %g", s.Signal, show(s.Baseline), w)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("no value of %v", want)
	}
}

// A rollout's trouble may be found hours later. The new workers were there an hour before the
// alert, so they are their own baseline; what the old ones did hours ago is their earlier past.
func TestSuccessorsInheritHoursLater(t *testing.T) {
	clk, usage := &clock{now: start}, 0.2
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "vllm:kv_cache_usage_perc{model_name=\"m\"} %g\n", usage)
	}))
	defer srv.Close()
	pod := "llama-7d9f8b6c5-aaaaa"
	c := New(Config{Signals: builtIn(t), Clock: clk, Discover: func() []Target {
		return []Target{{URL: srv.URL + "/" + pod, Labels: map[string]string{"pod": pod, "namespace": "llm"}}}
	}})
	scrape := func(d time.Duration) {
		for range int(d / time.Minute) {
			clk.pass(time.Minute)
			c.Scrape(t.Context())
		}
	}
	scrape(90 * time.Minute)
	pod, usage = "llama-fff869766-bbbbb", 0.9
	scrape(3 * time.Hour)
	got := c.Read(t.Context(), enrich.Query{Onset: clk.Now(), Now: clk.Now(), Signals: builtIn(t)})
	at := slices.IndexFunc(got.Samples, func(s state.Sample) bool { return s.Signal == "kv_usage" })
	if at < 0 {
		t.Fatal("no kv_usage")
	}
	if s := got.Samples[at]; s.Baseline == nil || *s.Baseline != 0.9 || s.Earlier == nil || *s.Earlier != 0.2 {
		t.Errorf("kv_usage was %s an hour ago and %s hours ago, want 0.9 and 0.2", show(s.Baseline), show(s.Earlier))
	}
}
