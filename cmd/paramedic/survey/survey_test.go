package survey

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paramedic/cmd/paramedic/config"
	"paramedic/cmd/paramedic/service"
	"paramedic/rules/enrich"
	"paramedic/rules/health"
	"paramedic/rules/signals"
	"paramedic/state"
)

// A pool is healthy only if enough checks have a value. Missing values are listed with their
// reason.
func TestUnmeasuredPoolIsNotHealthy(t *testing.T) {
	sample := func(signal string, v float64) state.Sample {
		return state.Sample{Signal: signal, Value: v, Entity: state.Entity{Model: "llama", Instance: "10.0.0.1:8000"}}
	}
	for _, c := range []struct {
		name    string
		samples []state.Sample
		want    health.Status
		closing string
	}{
		{"an idle engine has no latency", []state.Sample{sample("kv_usage", 0), sample("requests_waiting", 0)}, health.Healthy,
			"No problem was found, as far as it was measured."},
		{"hardly anything", []state.Sample{sample("requests_waiting", 0)}, health.Unknown,
			"Too little was measured to rate the fleet's health."},
		{"one bad sign is enough", []state.Sample{sample("ttft_p99", 6)}, health.HealthCritical,
			"There is no symptom yet, but a pool is not healthy: see HEALTH."},
	} {
		f := Report{Pools: service.MarkUnmeasured(health.Of("default", state.Evidence{Samples: c.samples})),
			Missing: []state.Missing{{Signal: "gpu_util", Reason: "no DCGM"}, {Signal: "ttft_p99", Reason: "no requests"},
				{Signal: "error_rate", Reason: "no requests"}}}
		if len(f.Pools) != 1 || f.Pools[0].Overall != c.want {
			t.Errorf("%s: %+v", c.name, f.Pools)
		}
		if got := f.Closing(); got != c.closing {
			t.Errorf("%s: %s", c.name, got)
		}
		if c.want == health.Healthy {
			want := []string{"llama: not measured: latency, errors (no requests)", "llama: not measured: GPU (no DCGM)"}
			if d := cmp.Diff(want, f.Unmeasured()); d != "" {
				t.Error(d)
			}
		}
	}
}

// A said is a source that always returns the same samples.
type said []state.Sample

func (s said) Read(context.Context, enrich.Query) enrich.Reading {
	return enrich.Reading{Samples: slices.Clone(s)}
}

func (said) Ping(context.Context) error { return nil }

// A pool's health includes its verdict, and every visible problem sets the exit code: a dead node,
// a hot GPU, aborting clients.
func TestPoolHealthFollowsItsVerdict(t *testing.T) {
	catalog, library, err := service.LoadKnowledge(config.Default())
	if err != nil {
		t.Fatal(err)
	}
	known, err := signals.LoadSignals()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	const alive, dead = "vllm-llama-7d9f8b6c5-wp8t7", "vllm-llama-7d9f8b6c5-z58qt"
	pod := func(name string) state.Entity { return state.Entity{Namespace: "llm", Pod: name} }
	model := func(name string) state.Entity {
		e := pod(name)
		e.Model = "llama-70b"
		return e
	}
	sample := func(signal string, e state.Entity, v float64) state.Sample {
		return state.Sample{Signal: signal, Entity: e, Value: v, At: now}
	}
	text := func(s state.Sample, text string) state.Sample {
		s.Text = text
		return s
	}
	well := []state.Sample{sample("kv_usage", model(alive), 0.2), sample("requests_waiting", model(alive), 0),
		sample("ttft_p99", model(alive), 0.4), sample("itl_p95", model(alive), 0.03),
		sample("requests_running", model(alive), 9), sample("generation_tokens_rate", model(alive), 300), sample("up", model(alive),
			1), sample("pod_ready", pod(alive), 1),
		text(sample("pod_node", pod(alive), 1), "node-b"), sample("node_ready", state.Entity{Node: "node-b"}, 1), sample("gpu_util",
			state.Entity{Namespace: "llm", Pod: alive, Node: "node-b", GPU: "0"}, 90),
		sample("abort_rate", model(alive), 0.02), sample("finish_rate", model(alive), 2)}
	for _, c := range []struct {
		name   string
		more   []state.Sample
		cause  state.Cause
		health health.Status
		notes  []string
	}{
		{"all is well", nil, "", health.Healthy, nil},
		{"a power cap", []state.Sample{text(sample("gpu_clock_event", state.Entity{Namespace: "llm", Pod: alive, Node: "node-b", GPU: "0"},
			99), "power_cap")}, "", health.Healthy, nil},
		{"a dead node", []state.Sample{sample("pod_ready", pod(dead), 0), text(sample("pod_node", pod(dead), 1), "node-a"),
			sample("node_ready", state.Entity{Node: "node-a"}, 0),
			sample("replicas_desired", state.Entity{Namespace: "llm", Pool: "vllm-llama"}, 2), sample("replicas_ready",
				state.Entity{Namespace: "llm", Pool: "vllm-llama"}, 1),
			sample("up", state.Entity{Instance: "127.0.0.1:9531/worker/" + dead},
				0)}, "node_failure", health.HealthCritical, []string{"vllm-llama: workers: 1 of 2 replicas are ready"}},
		{"a hot GPU", []state.Sample{text(sample("gpu_clock_event", state.Entity{Namespace: "llm", Pod: alive, Node: "node-b", GPU: "0"},
			127), "hw_thermal")}, "gpu_throttle", health.HealthWarning, nil},
		{"clients that hang up", []state.Sample{sample("abort_rate", state.Entity{Namespace: "llm", Pod: "vllm-llama-7d9f8b6c5-kft95",
			Model: "llama-70b"}, 3),
			sample("finish_rate", state.Entity{Namespace: "llm", Pod: "vllm-llama-7d9f8b6c5-kft95", Model: "llama-70b"},
				1)}, state.Unknown, health.HealthWarning, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			gather := enrich.New(enrich.Config{Clusters: map[string]enrich.Cluster{"default": {Engines: said(slices.Concat(well, c.more))}},
				Signals: known})
			f, err := Survey{Gather: gather, Catalog: catalog, Library: library, Cluster: "default", Now: now}.Run(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			var cause state.Cause
			for _, v := range f.Verdict {
				cause = v.Diagnosis.Cause
				if v.Pool.Overall != c.health {
					t.Errorf("the verdict's pool is %s", v.Pool.Overall)
				}
			}
			if cause != c.cause || f.Found != (c.cause != "") || len(f.Pools) != 1 || f.Pools[0].Overall != c.health {
				t.Errorf("%q of %+v, found %v", cause, f.Pools, f.Found)
			}
			if d := cmp.Diff(c.notes, f.Notes()); d != "" {
				t.Error(d)
			}
		})
	}
}
