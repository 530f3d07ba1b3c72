package prometheus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paramedic/rules/lint"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// fleetAPI answers requests for rules and label values as Prometheus does.
func fleetAPI(t *testing.T, answer func(w http.ResponseWriter, r *http.Request) any) *Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if data := answer(w, r); data != nil {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": data})
		}
	}))
	t.Cleanup(s.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := New(Config{URL: s.URL, Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRulesAreRead(t *testing.T) {
	c := fleetAPI(t, func(_ http.ResponseWriter, r *http.Request) any {
		if r.URL.Path != "/api/v1/rules" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		return json.RawMessage(`{"groups":[{"name":"vllm","file":"/etc/r.yml","interval":30,"rules":[
			{"type":"recording","name":"a:b","query":"sum(up)","labels":{"tier":"gold"},"health":"ok","evaluationTime":0.1,"lastEvaluation":"2026-11-21T12:00:00Z"},
			{"type":"alerting","name":"HighTTFT","query":"vllm:x > 1","duration":300,"labels":{"severity":"warning"},"annotations":{},"alerts":[],"health":"ok","state":"inactive","evaluationTime":0.1,"lastEvaluation":"2026-11-21T12:00:00Z"},
			{"type":"alerting","name":"Pending","query":"vector(1)","duration":0,"alerts":[],"health":"ok","state":"pending","evaluationTime":0.1,"lastEvaluation":"2026-11-21T12:00:00Z"},
			{"type":"alerting","name":"Firing","query":"vector(1)","duration":0,"alerts":[],"health":"ok","state":"firing","evaluationTime":0.1,"lastEvaluation":"2026-11-21T12:00:00Z"}]}]}`)
	})
	got, recorded, err := c.Rules(t.Context())
	if diff := cmp.Diff([]lint.AlertingRule{
		{Group: "vllm", Name: "HighTTFT", Expr: "vllm:x > 1", For: 5 * time.Minute}, {Group: "vllm", Name: "Pending", Expr: "vector(1)",
			Holds: true}, {Group: "vllm", Name: "Firing", Expr: "vector(1)", Holds: true},
	}, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if diff := cmp.Diff([]lint.RecordingRule{{Name: "a:b", Expr: "sum(up)", Labels: map[string]string{"tier": "gold"}}},
		recorded); diff != "" {
		t.Error(diff)
	}
}

func TestServersWithoutRulesAreRecognized(t *testing.T) {
	c := fleetAPI(t, func(w http.ResponseWriter, r *http.Request) any { http.NotFound(w, r); return nil })
	if _, _, err := c.Rules(t.Context()); !errors.Is(err, ErrNoRules) {
		t.Errorf("got %v", err)
	}
	c = fleetAPI(t, func(w http.ResponseWriter, _ *http.Request) any {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return nil
	})
	if _, _, err := c.Rules(t.Context()); err == nil || errors.Is(err, ErrNoRules) {
		t.Errorf("got %v", err)
	}
}

func TestReadingRulesEndsWithTheCaller(t *testing.T) {
	c := fleetAPI(t, func(_ http.ResponseWriter, r *http.Request) any { <-r.Context().Done(); return nil })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range []error{third(c.Rules(ctx)), second(c.MetricNames(ctx, noon)), second(c.Router(ctx, noon))} {
		if err == nil || !strings.Contains(err.Error(), "cancelled") {
			t.Errorf("got %v", err)
		}
	}
}

func TestEndlessAnswersAreRefused(t *testing.T) {
	c := fleetAPI(t, func(w http.ResponseWriter, _ *http.Request) any {
		chunk := []byte(strings.Repeat(" ", 1<<20))
		for range 80 {
			if _, err := w.Write(chunk); err != nil {
				break
			}
		}
		return nil
	})
	c.timeout = time.Minute
	if _, _, err := c.Rules(t.Context()); err == nil || !strings.Contains(err.Error(), "larger than 64 MiB") {
		t.Errorf("got %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func third[T, U any](_ T, _ U, err error) error { return err }

// labelAPI answers requests for labels of series, and counts them.
func labelAPI(t *testing.T, asked *atomic.Int32) *Client {
	return fleetAPI(t, func(w http.ResponseWriter, r *http.Request) any {
		if asked.Add(1); r.ParseForm() != nil {
			t.Error("no form")
		}
		q := r.Form
		if q.Get("end") != fmt.Sprint(noon.Unix()) || q.Get("start") != fmt.Sprint(noon.Add(-namesFor).Unix()) {
			t.Errorf("asked for %s of %s", r.URL, q)
		}
		switch metric := q.Get("match[]"); {
		case strings.Contains(metric, "broken"):
			http.Error(w, "down", http.StatusServiceUnavailable)
			return nil
		case strings.Contains(metric, "gone"):
			return []string{}
		case r.URL.Path == "/api/v1/labels":
			return []string{"__name__", "model_name", "pod"}
		case r.URL.Path == "/api/v1/label/pod/values":
			return make([]string, MaxValues+1)
		}
		return []string{"a", "b"}
	})
}

func TestLabelsAreReadPerLookup(t *testing.T) {
	var asked atomic.Int32
	c := labelAPI(t, &asked)
	got, left, err := c.Labels(t.Context(), []lint.Lookup{{Metric: "vllm:x", Labels: []string{"model_name", "pod", "tenant"}},
		{Metric: "gone", Labels: []string{"a"}}, {Metric: "y"}}, noon)
	want := map[string]map[string][]string{
		"vllm:x": {"model_name": {"a", "b"}, "pod": nil}, // too many pods
		"y":      {"model_name": nil, "pod": nil},
	}
	if diff := cmp.Diff(want, got); diff != "" || left != 0 || err != nil {
		t.Errorf("%d left, %v\n%s", left, err, diff)
	}
	if n := asked.Load(); n != 5 {
		t.Errorf("asked %d times, want 5", n)
	}
}

func TestLabelsCostABoundedNumberOfQueries(t *testing.T) {
	var asked atomic.Int32
	c := labelAPI(t, &asked)
	var many []lint.Lookup
	for i := range MaxLookups {
		many = append(many, lint.Lookup{Metric: fmt.Sprintf("vllm:x%d", i), Labels: []string{"model_name"}})
	}
	got, left, err := c.Labels(t.Context(), many, noon)
	if err != nil || left < MaxLookups/2 || len(got)+left < MaxLookups || asked.Load() != MaxLookups {
		t.Errorf("%d known, %d left, asked %d times, %v", len(got), left, asked.Load(), err)
	}
}

// Results before an error are kept, and the number of unread metrics is reported.
func TestMissingLabelsAreReported(t *testing.T) {
	var asked atomic.Int32
	c := labelAPI(t, &asked)
	got, left, err := c.Labels(t.Context(), []lint.Lookup{{Metric: "broken"}}, noon)
	if err == nil || left != 1 || len(got) != 0 {
		t.Errorf("%v, %d left, %v", got, left, err)
	}
}

func TestOnlyLateMetricsCount(t *testing.T) {
	c := fleetAPI(t, func(_ http.ResponseWriter, r *http.Request) any {
		q := r.URL.Query()
		if r.URL.Path != "/api/v1/label/__name__/values" || q.Get("end") != fmt.Sprint(noon.Unix()) ||
			q.Get("start") != fmt.Sprint(noon.Add(-namesFor).Unix()) || q.Get("limit") == "" {
			t.Errorf("asked for %s", r.URL)
		}
		return []string{"up", "vllm:num_requests_waiting"}
	})
	got, err := c.MetricNames(t.Context(), noon)
	if diff := cmp.Diff(map[string]bool{"up": true, "vllm:num_requests_waiting": true}, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestMetricNamesOfLastWeekShareQueries(t *testing.T) {
	asked := 0
	c := fleetAPI(t, func(_ http.ResponseWriter, r *http.Request) any {
		q := r.URL.Query()
		asked++
		if r.URL.Path != "/api/v1/label/__name__/values" || q.Get("start") != fmt.Sprint(noon.Add(-7*24*time.Hour).Unix()) ||
			len(r.URL.String()) > 8000 {
			t.Errorf("asked for %s", r.URL)
		}
		if strings.Contains(q.Get("match[]"), `"name_0|name_1|`) {
			return []string{"name_1"}
		}
		return []string{}
	})
	var many []string
	for i := range namesAtOnce*askedEarlier + 1 {
		many = append(many, fmt.Sprintf("name_%d", i))
	}
	got, err := c.Earlier(t.Context(), many, noon)
	if diff := cmp.Diff(map[string]bool{"name_1": true, many[len(many)-1]: true}, got); diff != "" || err != nil || asked != askedEarlier {
		t.Errorf("asked %d times, %v\n%s", asked, err, diff)
	}
	if got, err := c.Earlier(t.Context(), nil, noon); err != nil || got == nil || len(got) > 0 || asked != askedEarlier {
		t.Errorf("no names to query, but got %v (%v)", got, err)
	}
}

// Some servers only answer queries. Prometheus reports the interval of its current targets.
func TestScrapeIntervalsPerJob(t *testing.T) {
	c := fleetAPI(t, func(_ http.ResponseWriter, r *http.Request) any {
		if r.URL.Path != "/api/v1/targets" || r.URL.Query().Get("state") != "active" {
			t.Errorf("asked for %s", r.URL)
		}
		return json.RawMessage(`{"activeTargets":[{"labels":{"job":"vllm"},"scrapeInterval":"30s","health":"up"},{"labels":{"job":"vllm"},"scrapeInterval":"5s"},
			{"labels":{"job":"kube"},"scrapeInterval":"1m"},{"labels":{"job":"old"}}],"droppedTargets":[]}`)
	})
	got, err := c.Scraped(t.Context())
	if diff := cmp.Diff(map[string]time.Duration{"vllm": 5 * time.Second, "kube": time.Minute}, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	c = fleetAPI(t, func(w http.ResponseWriter, r *http.Request) any { http.NotFound(w, r); return nil })
	if got, err := c.Scraped(t.Context()); len(got) != 0 || err != nil {
		t.Errorf("a server that does not scrape: %v, %v", got, err)
	}
	c = fleetAPI(t, func(_ http.ResponseWriter, _ *http.Request) any { return "no targets" })
	if _, err := c.Scraped(t.Context()); err == nil {
		t.Error("an unreadable answer gave no error")
	}
}

func TestRouterIsSeenBesideEngines(t *testing.T) {
	for name, series := range map[string]map[string]bool{
		"both":        {`server!=""`: true, `server=""`: true},
		"engine only": {`server=""`: true},
		"router only": {`server!=""`: true},
	} {
		c := fleetAPI(t, func(_ http.ResponseWriter, r *http.Request) any {
			out := []string{}
			for sel := range series {
				if strings.Contains(r.URL.Query().Get("match[]"), "{"+sel+"}") {
					out = append(out, "vllm:num_requests_waiting")
				}
			}
			return out
		})
		if got, err := c.Router(t.Context(), noon); err != nil || got != (name == "both") {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
