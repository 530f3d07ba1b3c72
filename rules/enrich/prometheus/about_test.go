package prometheus

import (
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paramedic/rules/catalog"
	"paramedic/rules/classify"
	"paramedic/rules/diagnose"
	"paramedic/rules/enrich"
	"paramedic/state"
)

// An alert without any label is about the pools of the series that its expression reads.
func TestSeriesPlaceAnAlertWithoutLabels(t *testing.T) {
	knowledge, _, err := catalog.Load("")
	if err != nil {
		t.Fatal(err)
	}
	for expr, want := range map[string][]string{
		`absent(vllm:num_requests_running{model_name="qwen"})`:                                                  {"vllm"},
		`sum(rate(istio_requests_total{response_code=~"5.."}[5m])) / sum(rate(istio_requests_total[5m])) > 0.1`: {"vllm-llama"},
		`sum(rate(istio_requests_total{response_code="429"}[5m])) / sum(rate(istio_requests_total[5m])) > 0.1`:  nil,
		`sum(up{job="llm/redis"}) < 1`:   nil,
		`sum(pg_up{job="postgres"}) < 1`: nil, // it has an address only
		`llm:errors:ratio5m > 0.1`:       nil, // a recorded sum has no label
		`sum(llm:waiting:sum) > 9`:       {"vllm"},
		`max(vllm:num_requests_running) > 100 or sum(rate(istio_requests_total{response_code=~"5.."}[5m])) > 1`:                       {"vllm", "vllm-llama"},
		`sum(kube_pod_status_ready{condition="true",pod=~"vllm-llama-.*"}) < 1 and on () sum(vllm:num_requests_running{pod="x"}) < 1`: {"vllm-llama"},
	} {
		s := twoPools(30 * time.Minute)
		for at := now.Add(-time.Hour); !at.After(now); at = at.Add(30 * time.Second) {
			since := at.Sub(now.Add(-time.Hour)).Seconds()
			for pool, code := range map[string]string{"vllm": "200", "vllm-llama": "503"} {
				s.add(map[string]string{"__name__": "istio_requests_total", "namespace": "istio-system", "pod": "gateway-0",
					"destination_service_namespace": "llm", "destination_service_name": pool, "response_code": code}, at, since)
				s.add(map[string]string{"__name__": "istio_requests_total", "namespace": "istio-system", "pod": "gateway-0",
					"destination_service_namespace": "llm", "destination_service_name": pool, "response_code": "429"}, at, 7) // old ones
			}
		}
		s.add(map[string]string{"__name__": "pg_up", "job": "postgres", "instance": "10.0.7.7:9187"}, now.Add(-2*time.Minute), 0)
		s.add(map[string]string{"__name__": "llm:errors:ratio5m"}, now.Add(-2*time.Minute), 0.5)
		s.add(map[string]string{"__name__": "llm:waiting:sum", "model_name": "qwen"}, now.Add(-2*time.Minute), 40)
		f := &fakeAPI{t: t, store: s}
		client, err := New(Config{URL: f.serve().URL, Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		in := state.Incident{ID: "INC-1", Cluster: "default", Status: state.StatusOpen, StartedAt: now.Add(-2 * time.Minute), OpenedAt: now}
		a := state.Alert{Labels: map[string]string{"alertname": "ChatBroken"}, StartsAt: in.StartedAt,
			GeneratorURL: "http://p/graph?g0.expr=" + url.QueryEscape(expr)}
		in.Count(&state.AlertRecord{Alert: a, Sign: classify.Classify(knowledge, a, "default")}, false, now)
		g := enrich.New(enrich.Config{Clusters: map[string]enrich.Cluster{"default": {Prometheus: client}}, Signals: builtIn(t),
			Deadline: time.Minute})
		ev := g.Gather(t.Context(), enrich.Request{Incident: in.ID, Cluster: "default", Onset: in.StartedAt, Now: now,
			Series: enrich.SeriesOf(in)})
		var got []string
		for _, e := range ev.About {
			got = append(got, e.Pool)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", expr, diff)
		}
		if len(want) == 1 {
			if d := diagnose.Diagnose(knowledge, &in, &ev, now); d.Scope.Pool != want[0] {
				t.Errorf("%s: the verdict %s is about %q", expr, d.Cause, d.Scope.Pool)
			}
		}
		if n := len(f.queries); n > MaxQueries {
			t.Errorf("%d queries, %d are allowed", n, MaxQueries)
		}
	}
}
