package prometheus

import (
	"context"
	"fmt"
	"testing"
	"time"

	"paramedic/rules/catalog"
	"paramedic/rules/classify"
	"paramedic/rules/diagnose"
	"paramedic/rules/enrich"
	"paramedic/state"
)

// twoPools returns a store with two pools and a database of one namespace, scraped by PodMonitors.
// The name of one pool begins with the name of the other. quiet is the time since the last
// scrape of the first pool's targets.
func twoPools(quiet time.Duration) *store {
	s := &store{}
	add := func(job, pod, model string, i int, down bool) {
		for at := now.Add(-3 * time.Hour); !at.After(now); at = at.Add(30 * time.Second) {
			l := map[string]string{"namespace": "llm", "pod": pod, "instance": fmt.Sprintf("10.0.0.%d:8000", i), "job": job,
				"container": "main", "endpoint": "http"}
			with := func(name string, more map[string]string) map[string]string {
				out := map[string]string{"__name__": name}
				for _, from := range []map[string]string{l, more} {
					for k, v := range from {
						out[k] = v
					}
				}
				return out
			}
			up := 1.0
			if down && at.After(now.Add(-10*time.Minute)) {
				up = 0
			}
			gone := down && quiet > 0 && at.After(now.Add(-quiet))
			if !gone {
				s.add(with("up", nil), at, up)
			}
			if model != "" && up == 1 && !gone {
				s.add(with("vllm:num_requests_running", map[string]string{"model_name": model}), at, 5)
			}
			s.add(map[string]string{"__name__": "kube_pod_status_ready", "namespace": "llm", "pod": pod, "condition": "true",
				"job": "kube-state-metrics", "instance": "10.0.1.1:8080"}, at, 1)
		}
	}
	add("llm/vllm", "vllm-5c8d7f6b9-mmmmm", "qwen", 1, true)
	add("llm/vllm", "vllm-5c8d7f6b9-nnnnn", "qwen", 2, quiet > 0)
	add("llm/vllm-llama", "vllm-llama-7d9f8b6c5-aaaaa", "llama", 3, false)
	add("llm/redis", "redis-0", "", 4, true)
	return s
}

// A job's targets identify the pool of its alert, even if they no longer exist. A job of other
// services identifies no pool.
func TestJobNamesItsPool(t *testing.T) {
	knowledge, problems, err := catalog.Load("")
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	for name, c := range map[string]struct {
		labels    map[string]string
		generator string
		quiet     time.Duration
		kube      bool
		want      string
	}{
		"one target is down": {labels: map[string]string{"alertname": "TargetDown", "job": "llm/vllm", "namespace": "llm"},
			want: "monitoring_gap vllm [vllm-5c8d7f6b9-mmmmm]"},
		"no namespace label": {labels: map[string]string{"alertname": "TargetDown", "job": "llm/vllm"},
			want: "monitoring_gap vllm [vllm-5c8d7f6b9-mmmmm]"},
		"the alert is on the healthy pool": {labels: map[string]string{"alertname": "TargetDown", "job": "llm/vllm-llama", "namespace": "llm"},
			want: "monitoring_gap vllm-llama []"},
		"a database's job": {labels: map[string]string{"alertname": "TargetDown", "job": "llm/redis", "namespace": "llm"},
			want: "unknown  []"},
		"an unknown job": {labels: map[string]string{"alertname": "TargetDown", "job": "llm/none", "namespace": "llm"},
			want: "unknown  []"},
		"its series have ended": {labels: map[string]string{"alertname": "Gone", "job": "llm/vllm"},
			generator: "http://p/graph?g0.expr=absent%28up%7Bjob%3D%22llm%2Fvllm%22%7D%29",
			quiet:     30 * time.Minute, kube: true, want: "unknown vllm []"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeAPI{t: t, store: twoPools(c.quiet)}
			client, err := New(Config{URL: f.serve().URL, Timeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			in := &state.Incident{ID: "INC-1", Cluster: "default", Status: state.StatusOpen, StartedAt: now.Add(-2 * time.Minute),
				OpenedAt: now}
			a := state.Alert{Labels: c.labels, GeneratorURL: c.generator, StartsAt: in.StartedAt}
			in.Count(&state.AlertRecord{Alert: a, Sign: classify.Classify(knowledge, a, "default")}, false, now)
			cluster := enrich.Cluster{Prometheus: client}
			if c.kube {
				cluster.Kubernetes = fixed{state.Worker{Namespace: "llm", Pod: "vllm-5c8d7f6b9-xxxxx", Pool: "vllm", Model: "qwen",
					Ready: true},
					state.Worker{Namespace: "llm", Pod: "vllm-llama-7d9f8b6c5-aaaaa", Pool: "vllm-llama", Model: "llama", Ready: true}}
			}
			g := enrich.New(enrich.Config{Clusters: map[string]enrich.Cluster{"default": cluster}, Signals: builtIn(t),
				Deadline: time.Minute})
			ev := g.Gather(t.Context(), enrich.Request{Incident: in.ID, Cluster: "default", Scope: in.Scope, Onset: in.StartedAt, Now: now,
				Jobs: enrich.JobsOf(*in)})
			d := diagnose.Diagnose(knowledge, in, &ev, now)
			if got := fmt.Sprintf("%s %s %v", d.Cause, d.Scope.Pool, d.Scope.Pods); got != c.want {
				t.Errorf("got %s, want %s\n%s", got, c.want, d.Story.Why)
			}
			if n := len(f.queries); n > MaxQueries {
				t.Errorf("%d queries, %d are allowed", n, MaxQueries)
			}
		})
	}
}

// fixed is a source with workers as Kubernetes reports them.
type fixed []state.Worker

func (f fixed) Read(context.Context, enrich.Query) enrich.Reading { return enrich.Reading{Workers: f} }
func (f fixed) Ping(context.Context) error                        { return nil }
