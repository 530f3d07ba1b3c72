package prometheus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paramedic/rules"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// fleetAPI answers rules and label values as Prometheus does.
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

func TestAlertingRulesAreRead(t *testing.T) {
	c := fleetAPI(t, func(_ http.ResponseWriter, r *http.Request) any {
		if r.URL.Path != "/api/v1/rules" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		return json.RawMessage(`{"groups":[{"name":"vllm","file":"/etc/r.yml","interval":30,"rules":[
			{"type":"recording","name":"a:b","query":"sum(up)","health":"ok","evaluationTime":0.1,"lastEvaluation":"2026-11-21T12:00:00Z"},
			{"type":"alerting","name":"HighTTFT","query":"vllm:x > 1","duration":300,"labels":{"severity":"warning"},"annotations":{},"alerts":[],"health":"ok","state":"inactive","evaluationTime":0.1,"lastEvaluation":"2026-11-21T12:00:00Z"}]}]}`)
	})
	got, err := c.Rules(t.Context())
	if diff := cmp.Diff([]rules.AlertingRule{{Group: "vllm", Name: "HighTTFT", Expr: "vllm:x > 1", For: 5 * time.Minute}}, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestServersWithoutRulesAreToldApart(t *testing.T) {
	c := fleetAPI(t, func(w http.ResponseWriter, r *http.Request) any { http.NotFound(w, r); return nil })
	if _, err := c.Rules(t.Context()); !errors.Is(err, ErrNoRules) {
		t.Errorf("got %v", err)
	}
	c = fleetAPI(t, func(w http.ResponseWriter, _ *http.Request) any {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return nil
	})
	if _, err := c.Rules(t.Context()); err == nil || errors.Is(err, ErrNoRules) {
		t.Errorf("got %v", err)
	}
}

func TestReadingTheFleetEndsWithTheCaller(t *testing.T) {
	c := fleetAPI(t, func(_ http.ResponseWriter, r *http.Request) any { <-r.Context().Done(); return nil })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range []error{second(c.Rules(ctx)), second(c.MetricNames(ctx, noon)), second(c.Router(ctx, noon))} {
		if err == nil || !strings.Contains(err.Error(), "not waited for") {
			t.Errorf("got %v", err)
		}
	}
}

func TestAnswersWithoutEndAreCutOff(t *testing.T) {
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
	if _, err := c.Rules(t.Context()); err == nil || !strings.Contains(err.Error(), "larger than 64 MiB") {
		t.Errorf("got %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestOnlyLateMetricsCount(t *testing.T) {
	c := fleetAPI(t, func(_ http.ResponseWriter, r *http.Request) any {
		q := r.URL.Query()
		if r.URL.Path != "/api/v1/label/__name__/values" || q.Get("end") != fmt.Sprint(noon.Unix()) || q.Get("start") != fmt.Sprint(noon.Add(-namesFor).Unix()) || q.Get("limit") == "" {
			t.Errorf("asked for %s", r.URL)
		}
		return []string{"up", "vllm:num_requests_waiting"}
	})
	got, err := c.MetricNames(t.Context(), noon)
	if diff := cmp.Diff(map[string]bool{"up": true, "vllm:num_requests_waiting": true}, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestARouterIsSeenBesideEngines(t *testing.T) {
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

func TestCheckFindsWhatIsNoPromQL(t *testing.T) {
	signals, err := rules.LoadSignals()
	if err != nil {
		t.Fatal(err)
	}
	if errs := Check(signals); len(errs) != 0 {
		t.Errorf("the built-in signals: %v", errs)
	}
	bad := rules.Signal{ID: "broken", Per: rules.PerPod, Combine: rules.CombineSum, Sources: []rules.Source{{Engine: "vllm", Metric: "not a metric", Fn: rules.FnLast, Scale: 1}}}
	if errs := Check([]rules.Signal{bad}); len(errs) == 0 || !strings.Contains(errs[0].Error(), "signal broken, metric not a metric") {
		t.Errorf("a broken signal: %v", errs)
	}
}
