package deviation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/rules/catalog"
	"paramedic/rules/evidence"
	"paramedic/rules/rulestest"
	"paramedic/state"
)

// A pool is a pool of four workers a to d on two nodes, with samples that tests add.
type pool struct{ ev state.Evidence }

func (p *pool) add(signal, where string, value float64, more func(*state.Sample)) *pool {
	e := state.Entity{Namespace: "llm", Pool: "vllm", Model: "llama"}
	if node, ok := strings.CutPrefix(where, "node:"); ok {
		e = state.Entity{Node: node}
	} else if where != "pool" {
		pod, gpu, _ := strings.Cut(where, "/")
		e.Pod, e.GPU, e.Node = pod, gpu, "node-1"
		if pod == "c" || pod == "d" {
			e.Node = "node-2"
		}
	}
	s := state.Sample{Signal: signal, Entity: e, Value: value, At: rulestest.Now}
	if more != nil {
		more(&s)
	}
	p.ev.Samples = append(p.ev.Samples, s)
	return p
}

// was adds a sample with its value an hour ago.
func (p *pool) was(signal, where string, value, before float64) *pool {
	return p.add(signal, where, value, func(s *state.Sample) { s.Baseline = &before })
}

// moved adds a sample with a chart of sixty minutes that leaves its course at one of them.
func (p *pool) moved(signal, where string, from, to float64, at int) *pool {
	return p.add(signal, where, to, func(s *state.Sample) {
		s.Series = chartOf(60, func(i int) float64 {
			if i >= at {
				return to
			}
			return from
		})
	})
}

// chain returns the chain of a cause that marks pods. Its findings rest on the signals.
func (p *pool) chain(scope string, pods []string, rests []string, links ...catalog.Link) []state.Link {
	for _, pod := range []string{"a", "b", "c", "d"} {
		w := state.Worker{Namespace: "llm", Pod: pod, Pool: "vllm", Model: "llama", Node: "node-1", GPUs: []string{"0"}}
		if pod == "c" || pod == "d" {
			w.Node = "node-2"
		}
		p.ev.Workers = append(p.ev.Workers, w)
	}
	p.ev.At = rulestest.Now
	in := &state.Incident{Scope: state.Scope{Namespace: "llm", Pool: "vllm", Model: "llama"}}
	f := Fault{Cause: &catalog.Cause{Scope: scope, Chain: links}, Pods: pods,
		Rests: func(id string) bool { return slices.Contains(rests, id) }}
	if scope == "node" {
		f.Nodes = []string{"node-1"}
	}
	return Chain(mustLoadOnce(), evidence.ArrangeScope(in, in.Scope, &p.ev, mustLoadOnce()), f)
}

func linkOf(role state.LinkRole, moves string, signals ...string) catalog.Link {
	return catalog.Link{Role: role, Signals: signals, Moves: moves}
}

var surgeLinks = []catalog.Link{linkOf(state.LinkCause, catalog.MovesUp, "arrival_rate"),
	linkOf(state.LinkMechanism, catalog.MovesUp, "kv_usage"), linkOf(state.LinkSymptom, catalog.MovesUp, "ttft_p95")}

func wantChain(t *testing.T, what string, got []state.Link, want ...string) {
	t.Helper()
	var texts []string
	for _, l := range got {
		texts = append(texts, fmt.Sprintf("%s: %s", l.Role, l.Text))
	}
	if !slices.Equal(texts, want) {
		t.Errorf("%s:\n got %s\nwant %s", what, strings.Join(texts, "\n     "), strings.Join(want, "\n     "))
	}
}

func TestChainLeadsFromCauseToSymptom(t *testing.T) {
	p := (&pool{}).moved("arrival_rate", "a", 5, 12, 30).moved("arrival_rate", "b", 5, 12, 30).
		moved("kv_usage", "a", 0.5, 0.98, 35).moved("kv_usage", "b", 0.5, 0.98, 35).moved("ttft_p95", "pool", 0.4, 6, 40)
	got := p.chain("pool", nil, nil, surgeLinks...)
	wantChain(t, "a surge", got, "cause: Requests arriving rose to 12/s per worker (usual 5/s) at 02:31 UTC",
		"mechanism: KV cache in use rose to 98 % (usual 50 %) at 02:36 UTC",
		"symptom: Time to first token (p95) rose to 6 s (usual 400 ms) at 02:41 UTC")
	if l := got[0]; l.Signal != "arrival_rate" || l.Pod != "" || l.Value != 12 || l.Baseline == nil || *l.Baseline < 4.99 || *l.Baseline > 5.01 ||
		l.Unit != "1/s" || !l.At.Equal(rulestest.Now.Add(-29*time.Minute)) {
		t.Errorf("the cause's link: %+v", l)
	}
}

// A worker's fault shows on the worker, and on the pool's own series. What only other workers show
// is no link of it.
func TestChainFollowsTheTopology(t *testing.T) {
	links := []catalog.Link{linkOf(state.LinkCause, catalog.MovesUp, "kv_usage"),
		linkOf(state.LinkMechanism, catalog.MovesUp, "preemption_rate"),
		linkOf(state.LinkSymptom, catalog.MovesUp, "requests_waiting"), linkOf(state.LinkSymptom, catalog.MovesUp, "ttft_p95")}
	leak := func() *pool { return (&pool{}).was("kv_usage", "a", 0.99, 0.5).was("kv_usage", "b", 0.5, 0.5) }
	const cause = "cause: KV cache in use rose to 99 % on a (usual 50 %)"
	wantChain(t, "a queue on the worker", leak().was("requests_waiting", "a", 40, 0).chain("pod", []string{"a"}, nil, links...),
		cause, "symptom: Requests waiting rose to 40 on a (usual 0)")
	wantChain(t, "a queue on another worker", leak().was("requests_waiting", "a", 0, 0).was("requests_waiting", "b", 40, 0).
		chain("pod", []string{"a"}, nil, links...), cause)
	wantChain(t, "the pool's first tokens", leak().was("ttft_p95", "pool", 9, 0.4).chain("pod", []string{"a"}, nil, links...),
		cause, "symptom: Time to first token (p95) rose to 9 s (usual 400 ms)")
	wantChain(t, "a mechanism that only the pool shows", leak().was("preemption_rate", "pool", 3, 0).
		chain("pod", []string{"a"}, nil, links...), cause)
	wantChain(t, "a pool's trouble", leak().was("kv_usage", "c", 0.9, 0.5).was("requests_waiting", "a", 0, 0).was("requests_waiting", "b", 40, 0).
		chain("pool", []string{"a", "b", "c", "d"}, nil, links...), "cause: KV cache in use rose to 79.7 % (usual 50 %)",
		"symptom: Requests waiting rose to 20 per worker (usual 0)")
}

func TestChainOfNodeNamesItsNode(t *testing.T) {
	links := []catalog.Link{linkOf(state.LinkCause, catalog.MovesDown, "node_ready"), linkOf(state.LinkMechanism, catalog.MovesDown, "up"),
		linkOf(state.LinkSymptom, catalog.MovesUp, "gpu_xid_changes")}
	p := (&pool{}).add("node_ready", "node:node-1", 0, nil).add("node_ready", "node:node-2", 0, nil).add("up", "a", 0, nil).
		add("up", "c", 0, nil).add("gpu_xid_changes", "a/0", 0, nil).add("gpu_xid_changes", "c/0", 1, nil)
	got := p.chain("node", []string{"a", "b"}, nil, links...)
	wantChain(t, "a node", got, "cause: Node ready: no on node-1", "mechanism: Scraped in the last minute: no on a")
	if got[0].Node != "node-1" || got[0].Pod != "" || got[1].Pod != "a" || got[1].Node != "" {
		t.Errorf("entities: %+v", got)
	}
}

func TestChainLeavesOutUsualValues(t *testing.T) {
	for what, p := range map[string]*pool{
		"a usual value":        (&pool{}).was("kv_usage", "pool", 0.55, 0.5),
		"the other direction":  (&pool{}).was("kv_usage", "pool", 0.2, 0.6),
		"the other course":     (&pool{}).moved("kv_usage", "pool", 0.6, 0.2, 30),
		"an unknown past":      (&pool{}).add("kv_usage", "pool", 0.99, nil),
		"an unmeasured signal": {},
	} {
		p.moved("arrival_rate", "pool", 5, 12, 30).was("ttft_p95", "pool", 6, 0.4)
		wantChain(t, what, p.chain("pool", nil, nil, surgeLinks...), "cause: Requests arriving rose to 12/s (usual 5/s) at 02:31 UTC",
			"symptom: Time to first token (p95) rose to 6 s (usual 400 ms)")
	}
}

func TestChainFollowsTheOrderInTime(t *testing.T) {
	const cause, symptom = "cause: Requests arriving rose to 12/s (usual 5/s) at 02:31 UTC",
		"symptom: Time to first token (p95) rose to 6 s (usual 400 ms)"
	chain := func(kv, ttft int) []state.Link {
		p := (&pool{}).moved("arrival_rate", "pool", 5, 12, 30).moved("kv_usage", "pool", 0.5, 0.98, kv)
		if ttft > 0 {
			return p.moved("ttft_p95", "pool", 0.4, 6, ttft).chain("pool", nil, nil, surgeLinks...)
		}
		return p.was("ttft_p95", "pool", 6, 0.4).chain("pool", nil, nil, surgeLinks...)
	}
	const mechanism = "mechanism: KV cache in use rose to 98 % (usual 50 %) at 02:"
	wantChain(t, "an unknown time fits", chain(31, 0), cause, mechanism+"32 UTC", symptom)
	wantChain(t, "a mechanism before the cause", chain(22, 40), cause, symptom+" at 02:41 UTC")
	wantChain(t, "a symptom before the cause", chain(35, 22), cause, mechanism+"36 UTC")
	wantChain(t, "a symptom between cause and mechanism", chain(50, 35), cause, mechanism+"51 UTC")
	wantChain(t, "a symptom within the delay", chain(29, 30), cause, mechanism+"30 UTC", symptom+" at 02:31 UTC")
}

func TestChainNeedsItsCause(t *testing.T) {
	p := (&pool{}).was("kv_usage", "pool", 0.98, 0.5).was("ttft_p95", "pool", 6, 0.4)
	wantChain(t, "without arrivals", p.chain("pool", nil, nil, surgeLinks...))
	wantChain(t, "the cause alone", (&pool{}).was("arrival_rate", "pool", 12, 5).chain("pool", nil, nil, surgeLinks...),
		"cause: Requests arriving rose to 12/s (usual 5/s)")
}

func TestChainTakesFirstSignalThatMoved(t *testing.T) {
	links := []catalog.Link{linkOf(state.LinkCause, catalog.MovesAny, "prompt_length_p95", "prompt_length_mean"),
		linkOf(state.LinkMechanism, catalog.MovesAny, "prompt_length_mean", "prefill_time_p95")}
	p := (&pool{}).was("prompt_length_p95", "pool", 1000, 1000).was("prompt_length_mean", "pool", 3000, 1000).
		was("prefill_time_p95", "pool", 2, 0.3)
	wantChain(t, "prompts", p.chain("pool", nil, nil, links...), "cause: Prompt length (mean) rose to 3000 (usual 1000)",
		"mechanism: Prefill time (p95) rose to 2 s (usual 300 ms)")
}

// A state and an event need no past. A word and a value without a past count if a finding rests on
// them.
func TestChainShowsEventsWithoutPast(t *testing.T) {
	word := func(s *state.Sample) { s.Text = "OOMKilled" }
	links := []catalog.Link{linkOf(state.LinkCause, catalog.MovesAny, "pod_last_terminated"),
		linkOf(state.LinkMechanism, catalog.MovesUp, "pod_restarts"), linkOf(state.LinkSymptom, catalog.MovesDown, "pod_ready")}
	oom := func(restarts, ready float64) *pool {
		return (&pool{}).add("pod_last_terminated", "a", 137, word).add("pod_restarts", "a", restarts, nil).add("pod_ready", "a", ready, nil)
	}
	rests := []string{"pod_last_terminated"}
	wantChain(t, "a kill", oom(2, 0).chain("pod", []string{"a"}, rests, links...), "cause: Last termination: OOMKilled on a",
		"mechanism: Restarts in the last hour: 2 on a", "symptom: Pod ready: no on a")
	wantChain(t, "an older kill", oom(0, 1).chain("pod", []string{"a"}, rests, links...), "cause: Last termination: OOMKilled on a")
	wantChain(t, "no finding", oom(2, 0).chain("pod", []string{"a"}, nil, links...))

	xid := []catalog.Link{linkOf(state.LinkCause, catalog.MovesAny, "gpu_xid")}
	wantChain(t, "an old code", (&pool{}).was("gpu_xid", "a/0", 79, 79).chain("gpu", []string{"a"}, []string{"gpu_xid"}, xid...))
	wantChain(t, "a new code", (&pool{}).was("gpu_xid", "a/0", 79, 43).chain("gpu", []string{"a"}, nil, xid...),
		"cause: Last Xid: 79 on GPU 0 on node-1, before 43")
	wantChain(t, "a new code in a chart", (&pool{}).moved("gpu_xid", "a/0", 0, 79, 30).chain("gpu", []string{"a"}, nil, xid...),
		"cause: Last Xid: 79 on GPU 0 on node-1, before 0, since 02:31 UTC")

	wantChain(t, "a new code in a pool", (&pool{}).was("gpu_xid", "a/0", 43, 43).was("gpu_xid", "c/0", 63, 43).chain("pool", nil, nil, xid...),
		"cause: Last Xid: 63 on GPU 0 on node-2, before 43")
	wantChain(t, "more restarts than before", (&pool{}).was("pod_restarts", "a", 2, 1).was("pod_restarts", "b", 1, 1).
		chain("pool", nil, nil, linkOf(state.LinkCause, catalog.MovesUp, "pod_restarts")), "cause: Restarts in the last hour: 2 on a, before 1")
	wantChain(t, "as many restarts as before", (&pool{}).was("pod_restarts", "a", 1, 1).
		chain("pool", nil, nil, linkOf(state.LinkCause, catalog.MovesUp, "pod_restarts")))

	growth := []catalog.Link{linkOf(state.LinkCause, catalog.MovesUp, "container_memory_slope")}
	leak := func() *pool { return (&pool{}).add("container_memory_slope", "a", 2e6, nil) }
	wantChain(t, "growth", leak().chain("pod", []string{"a"}, []string{"container_memory_slope"}, growth...),
		"cause: Container memory growth: 6.71 GiB/h on a")
	wantChain(t, "growth without a finding", leak().chain("pod", []string{"a"}, nil, growth...))

	pods := []catalog.Link{linkOf(state.LinkCause, catalog.MovesDown, "up")}
	gap := (&pool{}).add("up", "a", 0, nil).add("up", "b", 0, nil).add("up", "c", 0, nil).add("up", "d", 1, nil)
	wantChain(t, "most of the pool", gap.chain("pool", []string{"a", "b", "c"}, nil, pods...),
		"cause: Scraped in the last minute: no on 3 of 4")
}

// The age of a rollout tells when it began.
func TestChainKnowsBeginningOfAges(t *testing.T) {
	links := []catalog.Link{linkOf(state.LinkCause, catalog.MovesAny, "rollout_age"), linkOf(state.LinkSymptom, catalog.MovesUp, "ttft_p95")}
	p := (&pool{}).add("rollout_age", "pool", 720, nil).moved("ttft_p95", "pool", 0.4, 6, 30)
	got := p.chain("pool", nil, []string{"rollout_age"}, links...)
	wantChain(t, "trouble before the rollout", got, "cause: Time since the last rollout: 12 min, since 02:48 UTC")
	p = (&pool{}).add("rollout_age", "pool", 720, nil).moved("ttft_p95", "pool", 0.4, 6, 50)
	got = p.chain("pool", nil, []string{"rollout_age"}, links...)
	wantChain(t, "trouble after the rollout", got, "cause: Time since the last rollout: 12 min, since 02:48 UTC",
		"symptom: Time to first token (p95) rose to 6 s (usual 400 ms) at 02:51 UTC")
}

func TestChainShowsWorkerThatMovedFirst(t *testing.T) {
	links := []catalog.Link{linkOf(state.LinkCause, catalog.MovesUp, "kv_usage")}
	p := (&pool{}).moved("kv_usage", "a", 0.5, 0.98, 40).moved("kv_usage", "b", 0.5, 0.9, 30).was("kv_usage", "c", 0.99, 0.5)
	wantChain(t, "three workers", p.chain("pod", []string{"a", "b", "c"}, nil, links...),
		"cause: KV cache in use rose to 90 % on b (usual 50 %) at 02:31 UTC")
}

// A signal that is at its usual value at the moment of the gathering shows its mean since it moved.
func TestChainShowsMeanOfSwingingSignal(t *testing.T) {
	p := (&pool{}).moved("arrival_rate", "pool", 5, 12, 30)
	p.ev.Samples[0].Value = 5
	wantChain(t, "a lull", p.chain("pool", nil, nil, surgeLinks...), "cause: Requests arriving rose to 12/s (usual 5/s) at 02:31 UTC")
}

// A pool that is watched for minutes has no course. Its chart tells when it left its usual value.
func TestChainKnowsTimesOfYoungPools(t *testing.T) {
	short := func(values ...float64) []state.Link {
		p := (&pool{}).was("arrival_rate", "pool", values[len(values)-1], 5)
		p.ev.Samples[0].Series = chartOf(len(values), func(i int) float64 { return values[i] })
		return p.chain("pool", nil, nil, surgeLinks...)
	}
	const cause = "cause: Requests arriving rose to 12/s (usual 5/s)"
	wantChain(t, "a rise", short(5, 5.5, 5, 12, 12), cause+" at 02:59 UTC")
	wantChain(t, "a single peak before", short(5, 12, 5, 5, 5, 12, 12), cause+" at 02:59 UTC")
	wantChain(t, "a chart that begins later", short(12, 12, 12, 12), cause)
	wantChain(t, "a chart of something else", short(5, 1, 1, 1, 12), cause)
	fall := []catalog.Link{linkOf(state.LinkCause, catalog.MovesDown, "prefix_hit_ratio")}
	p := (&pool{}).was("prefix_hit_ratio", "pool", 0.1, 0.6)
	p.ev.Samples[0].Series = chartOf(5, func(i int) float64 { return []float64{0.6, 0.6, 0.38, 0.1, 0.1}[i] })
	wantChain(t, "a fall", p.chain("pool", nil, nil, fall...), "cause: Prefix cache hits fell to 10 % (usual 60 %) at 02:58 UTC")
}

// A value between 1.25 and 1.5 times the usual one counts if a finding for the cause rests on it.
func TestChainTrustsTheFindings(t *testing.T) {
	links := []catalog.Link{linkOf(state.LinkCause, catalog.MovesDown, "gpu_sm_clock")}
	clock := func() *pool { return (&pool{}).was("gpu_sm_clock", "a/0", 1400, 1980) }
	wantChain(t, "with a finding", clock().chain("gpu", []string{"a"}, []string{"gpu_sm_clock"}, links...),
		"cause: GPU SM clock fell to 1400 MHz on GPU 0 on node-1 (usual 1980 MHz)")
	wantChain(t, "without a finding", clock().chain("gpu", []string{"a"}, nil, links...))
	same := (&pool{}).was("gpu_sm_clock", "a/0", 1900, 1980)
	wantChain(t, "the same clock", same.chain("gpu", []string{"a"}, []string{"gpu_sm_clock"}, links...))
}
