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

// The bot may have been started minutes before trouble. It then compares with what it saw first, as
// a rate over the time that it watched, and with nothing where that is too close to the onset to be
// normal.
func TestShortHistoryUsesItsBeginningAsBaseline(t *testing.T) {
	for name, tc := range map[string]struct {
		onset time.Duration // after the first page
		want  bool
	}{
		"the beginning is what was normal":         {10 * time.Minute, true},
		"the beginning may be the trouble already": {3 * time.Minute, false},
		"the onset was before anybody watched":     {-time.Minute, false},
		"history reaches almost an hour back":      {59 * time.Minute, true},
		"history reaches well over an hour back":   {70 * time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			clk := &clock{now: start}
			tokens, hits := 0.0, 0.0
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				var b bytes.Buffer
				fmt.Fprintf(&b, "vllm:generation_tokens_total{model_name=\"m\"} %g\nvllm:prefix_cache_queries_total{model_name=\"m\"} %g\nvllm:prefix_cache_hits_total{model_name=\"m\"} %g\n", tokens, tokens, hits)
				_, _ = w.Write(b.Bytes()) // the client tells when it did not arrive
			}))
			defer srv.Close()
			c := New(Config{Targets: []Target{{URL: srv.URL + "/metrics", Labels: map[string]string{"pod": "a"}}}, Signals: builtIn(t), Clock: clk})
			c.Scrape(context.Background())
			end := max(tc.onset, 0) + 5*time.Minute
			for at := time.Duration(0); at < end; at += 15 * time.Second {
				clk.pass(15 * time.Second)
				rate := 100.0 // 300 from the trouble on, and nothing cached
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
				t.Errorf("its past is said to begin at %s", got.Began)
			}
			want := map[string]float64{"generation_tokens_rate": 100, "prefix_hit_ratio": 0.5}
			for _, s := range got.Samples {
				if s.DayAgo != nil || s.WeekAgo != nil {
					t.Errorf("%s of a time when nobody read it: %+v", s.Signal, s)
				}
				rate, checked := want[s.Signal]
				switch {
				case !checked:
				case tc.want && (s.Baseline == nil || *s.Baseline < 0.9*rate || *s.Baseline > 1.1*rate):
					t.Errorf("%s was %v, want about %g", s.Signal, show(s.Baseline), rate)
				case !tc.want && s.Baseline != nil:
					t.Errorf("%s was %v, and nobody knows", s.Signal, show(s.Baseline))
				}
			}
		})
	}
}

func show(p *float64) string {
	if p == nil {
		return "nothing"
	}
	return fmt.Sprint(*p)
}

// The gauge of the last Xid keeps its value: until somebody has watched for as long as an Xid is
// news, "none is new" is more than is known.
func TestXidBeforeFirstPageIsReported(t *testing.T) {
	for name, tc := range map[string]struct {
		code    int
		watched time.Duration
		want    bool
	}{
		"watched for a minute":               {79, time.Minute, true},
		"watched for longer than it is news": {79, 16 * time.Minute, false},
		"there never was one":                {0, time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			clk := &clock{now: start}
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = fmt.Fprintf(w, "DCGM_FI_DEV_XID_ERRORS{gpu=\"0\",UUID=\"GPU-1\",Hostname=\"node-1\"} %d\n", tc.code) // the client tells when it did not arrive
			}))
			defer srv.Close()
			c := New(Config{Targets: []Target{{URL: srv.URL + "/metrics"}}, Signals: builtIn(t), Clock: clk})
			for at := time.Duration(0); at <= tc.watched; at += 15 * time.Second {
				c.Scrape(context.Background())
				clk.pass(15 * time.Second)
			}
			got := c.Read(context.Background(), enrich.Query{Onset: clk.Now(), Now: clk.Now(), Signals: builtIn(t)})
			if said := slices.ContainsFunc(got.Notes, func(m state.Missing) bool { return m.Signal == "gpu_xid_changes" }); said != tc.want {
				t.Errorf("said: %v; notes %v", said, got.Notes)
			}
		})
	}
}
