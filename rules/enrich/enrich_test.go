package enrich

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"paramedic/rules/signals"
	"paramedic/rules/topology"
	"paramedic/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// fixed is a source with a given answer.
type fixed struct {
	reading Reading
	err     error
	slow    bool
}

func (f *fixed) Read(ctx context.Context, q Query) Reading {
	if f.slow {
		<-ctx.Done()
		var r Reading
		for _, s := range q.Signals {
			r.Fail(s.ID, Explain("Prometheus", ctx.Err()))
		}
		return r
	}
	return f.reading
}

func (f *fixed) Ping(context.Context) error { return f.err }

func gatherer(t testing.TB, c Cluster) *Gatherer {
	declared, err := signals.LoadSignals()
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{Clusters: map[string]Cluster{"default": c}, Signals: declared})
}

func request(ids ...string) Request {
	return Request{Incident: "INC-1", Cluster: "default", Scope: state.Scope{Namespace: "llm", Pool: "vllm-llama"},
		Onset: now.Add(-time.Minute), Now: now, Signals: ids}
}

func sampleOf(signal string, e state.Entity, v float64) state.Sample {
	return state.Sample{Signal: signal, Entity: e, Value: v, At: now}
}

const pod0, pod1 = "vllm-llama-7d9f8b6c5-aaaa0", "vllm-llama-7d9f8b6c5-aaaa1"

func TestKubernetesPlacesPods(t *testing.T) {
	kube := &fixed{reading: Reading{Workers: []state.Worker{{Namespace: "llm", Pod: pod0, Pool: "vllm-llama", Node: "node-a",
		Instance: "10.0.0.1:8000", Model: "/models/llama"},
		{Namespace: "llm", Pod: "other-5f6d7c8b9-bbbbb", Pool: "other", Node: "node-b"}}}}
	prom := &fixed{reading: Reading{Samples: []state.Sample{
		sampleOf("kv_usage", state.Entity{Instance: "10.0.0.1:9000", Model: "llama-70b"}, 0.9),
		sampleOf("ttft_p95", state.Entity{Namespace: "llm", Pod: pod0, Model: "llama-70b"}, 1),
		sampleOf("ttft_p95", state.Entity{Namespace: "llm", Model: "LLAMA-70B"}, 2),
		sampleOf("gpu_xid_changes", state.Entity{Node: "node-a", GPU: "0"}, 1),
		sampleOf("gpu_xid_changes", state.Entity{Node: "node-b", GPU: "0"}, 1),
		sampleOf("kv_usage", state.Entity{Namespace: "llm", Pod: "other-5f6d7c8b9-bbbbb", Model: "x"}, 0.1),
	}}}
	ev := gatherer(t, Cluster{Prometheus: prom, Kubernetes: kube}).Gather(t.Context(), request("kv_usage", "ttft_p95", "gpu_xid_changes"))
	var got []string
	for _, s := range ev.Samples {
		got = append(got, fmt.Sprintf("%s %s/%s %s %s gpu=%s %g", s.Signal, s.Entity.Pool, s.Entity.Pod, s.Entity.Model, s.Entity.Node,
			s.Entity.GPU, s.Value))
	}
	want := []string{
		"gpu_xid_changes /  node-a gpu=0 1",
		"kv_usage vllm-llama/" + pod0 + " llama-70b node-a gpu= 0.9",
		"ttft_p95 vllm-llama/ llama-70b  gpu= 2",
		"ttft_p95 vllm-llama/" + pod0 + " llama-70b node-a gpu= 1",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if len(ev.Missing) != 0 || len(ev.Workers) != 2 {
		t.Errorf("missing %v, workers %v", ev.Missing, ev.Workers)
	}
}

// Engines of two models may share a pod, as Ray places them. Then the pod has no model, and each
// sample keeps its own.
func TestPodOfTwoModelsHasNoModel(t *testing.T) {
	kube := &fixed{reading: Reading{Workers: []state.Worker{{Namespace: "llm", Pod: "chat-w1", Pool: "vllm-llama"},
		{Namespace: "llm", Pod: "chat-w2", Pool: "vllm-llama"}}}}
	prom := &fixed{reading: Reading{Samples: []state.Sample{
		sampleOf("kv_usage", state.Entity{Namespace: "llm", Pod: "chat-w1", Model: "Qwen"}, 0.9),
		sampleOf("ttft_p95", state.Entity{Namespace: "llm", Pod: "chat-w1", Model: "deepseek"}, 1),
		sampleOf("kv_usage", state.Entity{Namespace: "llm", Pod: "chat-w2", Model: "Qwen"}, 0.8),
		sampleOf("ttft_p95", state.Entity{Namespace: "llm", Pod: "chat-w2", Model: "qwen"}, 2),
	}}}
	ev := gatherer(t, Cluster{Prometheus: prom, Kubernetes: kube}).Gather(t.Context(), request("kv_usage", "ttft_p95"))
	var got []string
	for _, w := range ev.Workers {
		got = append(got, w.Pod+" "+w.Model)
	}
	for _, s := range ev.Samples {
		got = append(got, s.Signal+" "+s.Entity.Pod+" "+s.Entity.Model)
	}
	if want := "chat-w1 |chat-w2 qwen|kv_usage chat-w1 qwen|kv_usage chat-w2 qwen|ttft_p95 chat-w1 deepseek|ttft_p95 chat-w2 qwen"; strings.Join(got, "|") != want {
		t.Errorf("%s\nwant %s", strings.Join(got, "|"), want)
	}
}

func TestPoolIsFoundByItsRoutesName(t *testing.T) {
	kube := &fixed{reading: Reading{Workers: []state.Worker{{Namespace: "llm", Pod: pod0, Pool: "vllm-llama", Node: "node-a",
		Routes: []string{"InferencePool/front", "Gateway/public"}},
		{Namespace: "llm", Pod: "other-5f6d7c8b9-bbbbb", Pool: "other", Node: "node-b", Routes: []string{"Gateway/public"}}}}}
	prom := &fixed{reading: Reading{Samples: []state.Sample{
		sampleOf("kv_usage", state.Entity{Namespace: "llm", Pod: pod0, Model: "llama-70b"}, 0.9),
		sampleOf("kv_usage", state.Entity{Namespace: "llm", Pod: "other-5f6d7c8b9-bbbbb", Model: "x"}, 0.1),
		sampleOf("gpu_util", state.Entity{Namespace: "llm", Pod: pod0, Node: "node-a", GPU: "1"}, 90),
		sampleOf("gpu_util", state.Entity{Namespace: "llm", Pod: pod0, Node: "node-a", GPU: "0"}, 91),
	}}}
	for pool, want := range map[string]int{"front": 1, "vllm-llama": 1, "public": 2, "unknown": 0} {
		r := request("kv_usage", "gpu_util")
		r.Scope.Pool = pool
		ev := gatherer(t, Cluster{Prometheus: prom, Kubernetes: kube}).Gather(t.Context(), r)
		n := 0
		for _, s := range ev.Samples {
			if s.Signal == "kv_usage" {
				n++
			}
		}
		if n != want {
			t.Errorf("of %s %d workers were read, want %d", pool, n, want)
		}
		if got := strings.Join(ev.Workers[1].GPUs, ","); got != "0,1" {
			t.Errorf("the GPUs of %s are %s", ev.Workers[1].Pod, got)
		}
	}
}

func TestUnknownPoolLabelKeepsWorkers(t *testing.T) {
	prom := &fixed{reading: Reading{Samples: []state.Sample{sampleOf("kv_usage", state.Entity{Namespace: "llm", Pod: pod0,
		Model: "llama-70b"}, 0.9)}}}
	r := request("kv_usage")
	r.Scope.Pool = "front" // the name of an InferencePool
	if ev := gatherer(t, Cluster{Prometheus: prom}).Gather(t.Context(), r); len(ev.Samples) != 1 {
		t.Errorf("samples %v, missing %v", ev.Samples, ev.Missing)
	}
}

func TestRanksAreFoundByTheirLeadersName(t *testing.T) {
	prom := &fixed{reading: Reading{Samples: []state.Sample{
		sampleOf("kv_usage", state.Entity{Namespace: "llm", Pod: "ring-0", Model: "llama-405b"}, 0.9),
		sampleOf("kv_usage", state.Entity{Namespace: "llm", Pod: "ring-1", Model: "llama-405b"}, 0.9),
		sampleOf("kv_usage", state.Entity{Namespace: "llm", Pod: "llama-3-0", Model: "llama-8b"}, 0.9),
		sampleOf("gpu_util", state.Entity{Namespace: "llm", Pod: "ring-1-1", Node: "node-b", GPU: "0"}, 90),
		sampleOf("pod_restarts", state.Entity{Namespace: "llm", Pod: "ring-0-1"}, 0),
		sampleOf("pod_restarts", state.Entity{Namespace: "llm", Pod: "loki-0-1"}, 0),
	}}}
	r := request("kv_usage", "gpu_util", "pod_restarts")
	r.Scope.Pool = ""
	var got []string
	for _, w := range gatherer(t, Cluster{Prometheus: prom}).Gather(t.Context(), r).Workers {
		got = append(got, fmt.Sprintf("%s %s/%s %s %v", w.Pod, w.Pool, w.Group, w.Node, w.GPUs))
	}
	want := []string{"llama-3-0 llama-3/  []", "ring-0 ring/0  []", "ring-0-1 ring/0  []", "ring-1 ring/1  []",
		"ring-1-1 ring/1 node-b [0]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The pool of an alert's labels must select its samples if only pod names identify pools.
func TestAlertPoolMatchesPodNames(t *testing.T) {
	for pod, want := range map[string]string{"llama-3-0": "llama-3-0 llama-3-1", "ring-0-1": "ring-0 ring-0-1",
		"vllm-x7k2q": "vllm-x7k2q"} {
		prom := &fixed{reading: Reading{Samples: []state.Sample{
			sampleOf("kv_usage", state.Entity{Namespace: "llm", Pod: "llama-3-0", Model: "llama-8b"}, 0.9),
			sampleOf("kv_usage", state.Entity{Namespace: "llm", Pod: "llama-3-1", Model: "llama-8b"}, 0.9),
			sampleOf("kv_usage", state.Entity{Namespace: "llm", Pod: "ring-0", Model: "llama-405b"}, 0.9),
			sampleOf("kv_usage", state.Entity{Namespace: "llm", Pod: "ring-0-1"}, 0.9),
			sampleOf("kv_usage", state.Entity{Namespace: "llm", Pod: "vllm-x7k2q", Model: "qwen"}, 0.9),
		}}}
		r := request("kv_usage")
		r.Scope = state.Scope{Namespace: "llm", Pool: topology.PoolOf(pod)}
		var got []string
		for _, s := range gatherer(t, Cluster{Prometheus: prom}).Gather(t.Context(), r).Samples {
			got = append(got, s.Entity.Pod)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("an alert on %s gets the samples of %v, want %s", pod, got, want)
		}
	}
}

func TestWithoutKubernetesWorkersComeFromLabels(t *testing.T) {
	prom := &fixed{reading: Reading{Samples: []state.Sample{
		sampleOf("kv_usage", state.Entity{Namespace: "llm", Pod: pod1, Model: "m"}, 0.5),
		sampleOf("kv_usage", state.Entity{Namespace: "llm", Pod: pod0, Model: "m"}, 0.9),
		{Signal: "pod_node", Entity: state.Entity{Namespace: "llm", Pod: pod0}, Text: "node-a", At: now},
		sampleOf("up", state.Entity{Namespace: "llm", Pod: "grafana-7d9f8b6c5-zzzzz"}, 0),
	}}}
	ev := gatherer(t, Cluster{Prometheus: prom}).Gather(t.Context(), request("kv_usage", "up", "pod_node"))
	if len(ev.Workers) != 2 || ev.Workers[0].Pool != "vllm-llama" || ev.Workers[0].Node != "node-a" {
		t.Errorf("workers %+v", ev.Workers)
	}
	for _, s := range ev.Samples {
		if strings.HasPrefix(s.Entity.Pod, "grafana") {
			t.Errorf("a pod that is not a worker: %+v", s)
		}
	}
	if len(ev.Missing) != 1 || ev.Missing[0].Signal != "up" {
		t.Errorf("missing %v", ev.Missing)
	}
}

// First minutes are the baseline only if no source has data of the hour before. The evidence then
// lists this.
func TestHourBeforeIsPreferredToFirstMinutes(t *testing.T) {
	worker := state.Entity{Namespace: "llm", Pod: pod0, Model: "llama-70b"}
	reading := func(began time.Time, baseline float64) *fixed {
		s := sampleOf("kv_usage", worker, 0.9)
		s.Baseline = &baseline
		return &fixed{reading: Reading{Began: began, Samples: []state.Sample{s}}}
	}
	early, late := now.Add(-40*time.Minute), now.Add(-30*time.Minute)
	for name, c := range map[string]struct {
		prometheus, engines *fixed
		baseline            float64
		note                string
	}{
		"Prometheus has the hour": {reading(time.Time{}, 0.1), reading(late, 0.2), 0.1, ""},
		"the pages have the hour": {reading(late, 0.1), reading(time.Time{}, 0.2), 0.2, ""},
		"both have the beginning": {reading(early, 0.1), reading(late, 0.2), 0.1,
			"no history of the hour before the onset until 11:20:00 UTC; the first values serve as the baseline"},
		"one of two without a value": {&fixed{reading: Reading{Began: early, Samples: []state.Sample{sampleOf("kv_usage", worker, 0.9)}}},
			reading(late, 0.2), 0.2, "no history of the hour before the onset until 11:30:00 UTC; the first values serve as the baseline"},
	} {
		ev := gatherer(t, Cluster{Prometheus: c.prometheus, Engines: c.engines}).Gather(t.Context(), request("kv_usage"))
		note := ""
		for _, m := range ev.Missing {
			note += m.Reason
		}
		if len(ev.Samples) != 1 || ev.Samples[0].Baseline == nil || *ev.Samples[0].Baseline != c.baseline || note != c.note {
			t.Errorf("%s: %+v; %q", name, ev.Samples, note)
		}
	}
}

func TestSlowSourceLosesOnlyItsOwnSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := &fixed{reading: Reading{Samples: []state.Sample{sampleOf("pod_ready", state.Entity{Namespace: "llm", Pod: pod0,
			Pool: "vllm-llama"}, 1)}}}
		began := time.Now()
		ev := gatherer(t, Cluster{Prometheus: &fixed{slow: true}, Kubernetes: kube}).Gather(t.Context(), request("kv_usage", "pod_ready",
			"no_such"))
		if took := time.Since(began); took != DefaultDeadline {
			t.Errorf("took %s", took)
		}
		want := []state.Missing{{Signal: "kv_usage", Reason: "Prometheus: no answer in time"},
			{Signal: "no_such", Reason: "unknown signal"}}
		if d := cmp.Diff(want, ev.Missing); d != "" || len(ev.Samples) != 1 {
			t.Errorf("%s samples %v", d, ev.Samples)
		}
	})
}

// stuck is a source that ignores its context.
type stuck chan struct{}

func (s stuck) Read(context.Context, Query) Reading { <-s; return Reading{} }
func (s stuck) Ping(context.Context) error          { return nil }

func TestStuckSourceIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := make(stuck)
		defer close(never)
		prom := &fixed{reading: Reading{Samples: []state.Sample{sampleOf("kv_usage", state.Entity{Namespace: "llm", Pod: pod0,
			Pool: "vllm-llama", Model: "m"}, 0.9)}}}
		began := time.Now()
		ev := gatherer(t, Cluster{Prometheus: prom, Kubernetes: never}).Gather(t.Context(), request("kv_usage", "ttft_p95", "pod_age"))
		if took := time.Since(began); took != DefaultDeadline+grace {
			t.Errorf("took %s", took)
		}
		want := []state.Missing{{Signal: "pod_age", Reason: "kubernetes: no answer in time"},
			{Signal: "ttft_p95", Reason: "no series in this scope"}}
		if d := cmp.Diff(want, ev.Missing); d != "" || len(ev.Samples) != 1 {
			t.Errorf("%s samples %v", d, ev.Samples)
		}
	})
}

func TestUnknownClusterIsReported(t *testing.T) {
	ev := gatherer(t, Cluster{}).Gather(t.Context(), Request{Cluster: "mars", Now: now, Signals: []string{"kv_usage"}})
	if len(ev.Missing) != 1 || !strings.Contains(ev.Missing[0].Reason, "mars") {
		t.Errorf("%+v", ev.Missing)
	}
}

func TestIdentify(t *testing.T) {
	gpu, podSignal := signals.Signal{Per: signals.PerGPU}, signals.Signal{Per: signals.PerPod}
	for name, c := range map[string]struct {
		sig    signals.Signal
		engine string
		labels map[string]string
		want   state.Entity
	}{
		"the exporter's pod is not the workload": {gpu, "dcgm", map[string]string{"pod": "dcgm-exporter-x", "namespace": "gpu", "gpu": "3",
			"Hostname": "n"}, state.Entity{Node: "n", GPU: "3"}},
		"renamed workload labels": {gpu, "dcgm", map[string]string{"pod": "dcgm-exporter-x", "namespace": "gpu",
			"exported_pod": "p", "exported_namespace": "llm", "gpu": "0", "hostname": "n"}, state.Entity{Namespace: "llm", Pod: "p",
			Node: "n", GPU: "0"}},
		"honoured workload labels": {gpu, "dcgm", map[string]string{"pod": "p", "namespace": "llm", "UUID": "GPU-1",
			"Hostname": "n"}, state.Entity{Namespace: "llm", Pod: "p", Node: "n", GPU: "GPU-1"}},
		"kube-state-metrics": {podSignal, "kube_state", map[string]string{"pod": "ksm-0", "namespace": "monitoring",
			"exported_pod": "p", "exported_namespace": "llm"}, state.Entity{Namespace: "llm", Pod: "p"}},
		"namespace of a mesh gateway's backend": {signals.Signal{Per: signals.PerPool}, "ingress", map[string]string{"pod": "gw-0",
			"namespace": "istio-system", "destination_service_namespace": "llm"}, state.Entity{Namespace: "llm"}},
		"namespace of an ingress": {signals.Signal{Per: signals.PerPool}, "ingress", map[string]string{"pod": "nginx-0",
			"namespace": "ingress-nginx", "exported_namespace": "llm"}, state.Entity{Namespace: "llm"}},
		"engine": {podSignal, "vllm", map[string]string{"pod": "p", "namespace": "llm",
			"instance": "1.2.3.4:8000", "model_name": "m"}, state.Entity{Namespace: "llm", Pod: "p", Instance: "1.2.3.4:8000", Model: "m"}},
	} {
		if d := cmp.Diff(c.want, Identify("", c.sig, signals.Source{Engine: c.engine}, c.labels)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestErrorsHoldNoCredentials(t *testing.T) {
	for _, err := range []error{
		&url.Error{Op: "Post", URL: "http://user:hunter2@prom/api", Err: errors.New("connection refused")},
		errors.New("GET http://user:hunter2@prom failed"), errors.New("bad header Authorization: Bearer hunter2"),
	} {
		if text := Explain("Prometheus", err); strings.Contains(text, "hunter2") {
			t.Errorf("%s", text)
		}
	}
}

func TestErrorsHoldNoAddress(t *testing.T) {
	here, there := &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 41000}, &net.TCPAddr{IP: net.IPv4(10, 9, 8, 7), Port: 9090}
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Addr: there, Err: err} }
	noHost := &net.DNSError{Err: "no such host", Name: "prom.internal.corp.example", Server: "10.255.255.53:53", IsNotFound: true}
	noServer := &net.DNSError{Err: "server misbehaving", Name: "prom.internal.corp.example", Server: "10.255.255.53:53"}
	certificate := &x509.Certificate{DNSNames: []string{"other.corp.example"}}
	for _, c := range []struct {
		err  error
		want string
	}{
		{&url.Error{Op: "Post", URL: "http://prom.internal.corp.example", Err: &net.OpError{Op: "dial", Net: "tcp", Err: noHost}},
			"host name is not found"},
		{noServer, "host name cannot be looked up"},
		{dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), "connect: connection refused"},
		{&net.OpError{Op: "proxyconnect", Net: "tcp", Err: dial(syscall.EHOSTUNREACH)}, "no route to host"},
		{fmt.Errorf("page breaks off: %w", &net.OpError{Op: "read", Net: "tcp", Source: here, Addr: there, Err: syscall.ECONNRESET}),
			"page breaks off: connection reset by peer"},
		{&tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: certificate, Host: "prom.internal.corp.example"}},
			"tls: failed to verify certificate: the certificate is for another name"},
	} {
		if got := Explain("Prometheus", c.err); got != "Prometheus: "+c.want {
			t.Errorf("%v\n got %s\nwant Prometheus: %s", c.err, got, c.want)
		}
	}
}

// Going back to an older ReplicaSet creates none, so metrics do not show it.
func TestRolloutAgeTakesTheNewerSource(t *testing.T) {
	pool := state.Entity{Namespace: "llm", Pool: "vllm-llama"}
	for _, c := range []struct{ metrics, kubernetes, want float64 }{{18000, 120, 120}, {600, 600.4, 600}} {
		prom := &fixed{reading: Reading{Samples: []state.Sample{sampleOf("rollout_age", pool, c.metrics),
			sampleOf("kv_usage", state.Entity{Namespace: "llm", Pod: pod0, Model: "m"}, 0.9)}}}
		kube := &fixed{reading: Reading{Samples: []state.Sample{sampleOf("rollout_age", pool, c.kubernetes)}}}
		for _, s := range gatherer(t, Cluster{Prometheus: prom, Kubernetes: kube}).Gather(t.Context(), request("rollout_age",
			"kv_usage")).Samples {
			if s.Signal == "rollout_age" && s.Value != c.want {
				t.Errorf("%g s by metrics and %g s by Kubernetes are %g s", c.metrics, c.kubernetes, s.Value)
			}
		}
	}
}

// The engines of one pod may each serve a model. The worker's cache is as full as the fullest one,
// and it runs the requests of all.
func TestModelsOfOnePodAreCombined(t *testing.T) {
	a, b := state.Entity{Namespace: "llm", Pod: pod0, Model: "chat"}, state.Entity{Namespace: "llm", Pod: pod0, Model: "embed"}
	was := func(s state.Sample, v float64) state.Sample {
		s.Baseline = &v
		return s
	}
	samples := []state.Sample{was(sampleOf("kv_usage", a, 0.2), 0.1), was(sampleOf("kv_usage", b, 0.95), 0.5),
		was(sampleOf("requests_running", a, 5), 4), was(sampleOf("requests_running", b, 7), 6),
		sampleOf("ttft_p95", a, 3), sampleOf("ttft_p95", b, 1)}
	ev := gatherer(t, Cluster{Prometheus: &fixed{reading: Reading{Samples: samples}},
		Engines: &fixed{reading: Reading{Samples: samples}}}).Gather(t.Context(), request("kv_usage", "requests_running", "ttft_p95"))
	got := map[string]float64{}
	for _, s := range ev.Samples {
		got[s.Signal] += s.Value
		if s.Baseline != nil {
			got[s.Signal+" before"] += *s.Baseline
		}
	}
	want := map[string]float64{"kv_usage": 0.95, "kv_usage before": 0.5, "requests_running": 12, "requests_running before": 10,
		"ttft_p95": 3}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
