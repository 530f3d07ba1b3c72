package kubernetes

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"paramedic/rules/enrich"
	"paramedic/rules/enrich/ray/raytest"
)

// A rayWorld is a RayService, its pods and the dashboard of its head.
type rayWorld struct {
	*raytest.Dashboard
	client  *Client
	cluster *fake.Clientset
	query   enrich.Query
	t       *testing.T
}

// newRayWorld returns a head and workers w1, w2 … with four GPUs each at 10.1.0.1, 10.1.0.2 …; the
// tests connect only to the dashboard.
func newRayWorld(t *testing.T, workers int, args string) *rayWorld {
	t.Helper()
	w := &rayWorld{Dashboard: &raytest.Dashboard{}, t: t, query: query(t)}
	srv := httptest.NewServer(w.Dashboard)
	t.Cleanup(func() {
		srv.Close()
		for _, p := range w.Problems() {
			t.Errorf("Ray refuses %s", p)
		}
	})
	at, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(at.Port())
	if err != nil {
		t.Fatal(err)
	}
	head := rayPod("head", "head", at.Hostname())
	head.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "dashboard", ContainerPort: int32(port)}}
	objects := []runtime.Object{head}
	for i := range workers {
		objects = append(objects, rayPod(fmt.Sprint("w", i+1), "worker", ip(i+1)))
	}
	w.cluster = fake.NewClientset(objects...)
	w.client = New(w.cluster,
		customClient(written(t,
			"apiVersion: ray.io/v1\nkind: RayCluster\n"+
				"metadata: {name: chat-x7k2p, labels: {ray.io/originated-from-crd: RayService, ray.io/originated-from-cr-name: chat}}\n---\n"+
				"apiVersion: ray.io/v1\nkind: RayService\nmetadata: {name: chat}\nspec:\n  serveConfigV2: |\n    applications:\n    - name: llms\n      args:\n"+args)...))
	return w
}

func ip(worker int) string { return fmt.Sprint("10.1.0.", worker) }

func rayPod(name, kind, ip string) *corev1.Pod {
	p := enginePod(name, tags{rayCluster: "chat-x7k2p", rayNode: kind, rayGroup: kind + "s"}, owned("RayCluster", "chat-x7k2p"),
		"ray", "start")
	p.Spec.Containers[0].Image, p.Status.PodIP = "rayproject/ray-llm:2.52.0-py311-cu128", ip
	if kind == "worker" {
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4")}
	}
	return p
}

// workersAndNotes returns one line for each worker, and the notes.
func (w *rayWorld) workersAndNotes() (workers, notes string) {
	r := w.client.Read(w.t.Context(), w.query)
	var lines, reasons []string
	for _, x := range r.Workers {
		lines = append(lines, x.Pod+strings.TrimPrefix(seen(x), "RayService/chat"))
	}
	for _, n := range r.Notes {
		reasons = append(reasons, n.Reason)
	}
	return strings.Join(lines, "\n"), strings.Join(reasons, "\n")
}

// engineOn returns a replica of a deployment with a GPU on each of the given workers.
func engineOn(name string, workers ...int) raytest.Replica {
	r := raytest.Replica{Name: "SERVE_REPLICA::llms#" + name}
	for _, n := range workers {
		r.Bundles = append(r.Bundles, raytest.Bundle{GPUs: 1, IP: ip(n)})
	}
	return r
}

const (
	oneModel  = "        llm_configs:\n        - {model_loading_config: {model_id: deepseek}, engine_kwargs: {tensor_parallel_size: 4, pipeline_parallel_size: 2}}\n"
	byHand    = "        llm_configs:\n        - {model_loading_config: {model_id: deepseek}, placement_group_config: {bundles: [{GPU: 1}, {GPU: 1}]}}\n"
	twoModels = "        llm_configs:\n        - {model_loading_config: {model_id: deepseek-ai/V3.1}, engine_kwargs: {tensor_parallel_size: 8, max_num_seqs: 32}}\n" +
		"        - {model_loading_config: {model_id: qwen-7b}, engine_kwargs: {max_num_seqs: 256}}\n"
	apart = "        prefill_config: {model_loading_config: {model_id: qwen-7b}}\n" +
		"        decode_config: {model_loading_config: {model_id: qwen-7b}, engine_kwargs: {tensor_parallel_size: 8}}\n"
	ranks = "        llm_config: {model_loading_config: {model_id: moe}, engine_kwargs: {data_parallel_size: 2}}\n"
	named = "        llm_configs:\n        - {model_loading_config: {model_id: deepseek}, deployment_config: {name: mine}}\n" +
		"        - {model_loading_config: {model_id: qwen-7b}}\n"
	inFiles = "        llm_configs: [/configs/a.yaml, /configs/b.yaml]\n"
)

func TestRayPodsAreGroupedByEngine(t *testing.T) {
	for name, c := range map[string]struct {
		args    string
		workers int
		engines []raytest.Replica
		dead    string
		want    string
	}{
		"two engines of two pods each": {oneModel, 4, []raytest.Replica{engineOn("LLMServer:deepseek#a", 1, 3, 1, 3),
			engineOn("LLMServer:deepseek#b", 2, 4)}, "",
			"w1 group a model deepseek\nw2 group b model deepseek\nw3 group a model deepseek\nw4 group b model deepseek"},
		"an engine on a pod, and a spare one": {oneModel, 2, []raytest.Replica{engineOn("LLMServer:deepseek#a", 1, 1, 1, 1)}, "",
			"w1 model deepseek\nw2 model deepseek"},
		"GPUs bundled by hand": {byHand, 3, []raytest.Replica{engineOn("LLMServer:deepseek#a", 1, 2), engineOn("LLMServer:deepseek#b",
			3, 3)}, "",
			"w1 group a model deepseek\nw2 group a model deepseek\nw3 model deepseek"},
		"two models": {twoModels, 4, []raytest.Replica{engineOn("LLMServer:deepseek-ai--V3_1#a", 1, 2), engineOn("LLMServer:qwen-7b#b", 3),
			engineOn("LLMServer:qwen-7b#c", 3), engineOn("LLMServer:qwen-7b#d", 4)}, "",
			"w1 group a model deepseek-ai/V3.1\nw2 group a model deepseek-ai/V3.1\nw3 model qwen-7b\nw4 model qwen-7b"},
		"two models on one pod": {twoModels, 2, []raytest.Replica{engineOn("LLMServer:deepseek-ai--V3_1#a", 1, 2),
			engineOn("LLMServer:qwen-7b#b", 2)}, "",
			"w1 group a model deepseek-ai/V3.1\nw2 group a"},
		"two models in files, and a deployment with a name of its own": {inFiles, 3, []raytest.Replica{engineOn("mine#a", 1, 2),
			engineOn("LLMServer:qwen-7b#b", 3)}, "",
			"w1 group a\nw2 group a\nw3"},
		"an upgrade from another model": {twoModels, 3, []raytest.Replica{engineOn("LLMServer:llama-8b#a", 1, 2),
			engineOn("LLMServer:qwen-7b#b", 3)}, "",
			"w1 group a\nw2 group a\nw3 model qwen-7b"},
		"a deployment with a name of its own": {named, 2, []raytest.Replica{engineOn("LLMServer:mine#a", 1),
			engineOn("LLMServer:qwen-7b#b", 2)}, "",
			"w1 model deepseek\nw2 model qwen-7b"},
		"prefill and decode apart": {apart, 3, []raytest.Replica{engineOn("Prefill:qwen-7b#a", 1), engineOn("Decode:qwen-7b#b", 2, 3)}, "",
			"w1 role prefill model qwen-7b\nw2 group b role decode model qwen-7b\nw3 group b role decode model qwen-7b"},
		"prefill and decode on one pod": {apart, 2, []raytest.Replica{engineOn("Prefill:qwen-7b#a", 1), engineOn("Decode:qwen-7b#b", 1)},
			"",
			"w1 model qwen-7b\nw2 model qwen-7b"},
		"engines that share a pod": {oneModel, 4, []raytest.Replica{engineOn("LLMServer:deepseek#c", 1, 2), engineOn("LLMServer:deepseek#b",
			3, 4), engineOn("LLMServer:deepseek#d", 2, 3)}, "",
			"w1 group b model deepseek\nw2 group b model deepseek\nw3 group b model deepseek\nw4 group b model deepseek"},
		"an engine that lost a node": {oneModel, 3, []raytest.Replica{engineOn("LLMServer:deepseek#a", 1, 2),
			engineOn("LLMServer:deepseek#b", 3, 9)}, ip(9),
			"w1 group a model deepseek\nw2 group a model deepseek\nw3 group b model deepseek"},
		"a gang of data-parallel ranks": {ranks, 3, []raytest.Replica{{Name: "SERVE_GANG::llms_DPServer:moe_0_0a", Bundles: engineOn("", 1,
			2).Bundles}}, "",
			"w1 group 0000000000000000000000000000000101000000 model moe\nw2 group 0000000000000000000000000000000101000000 model moe\nw3 model moe"},
		"reserved by other programs": {oneModel, 2, []raytest.Replica{{Name: "train", Bundles: engineOn("", 1, 2).Bundles},
			{Name: "SERVE_REPLICA::llms#LLMServer:deepseek#a", State: "REMOVED", Bundles: engineOn("", 1, 2).Bundles}}, "",
			"w1 model deepseek\nw2 model deepseek"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRayWorld(t, c.workers, c.args)
			w.Set(c.engines...)
			w.Kill(c.dead)
			got, notes := w.workersAndNotes()
			if got != c.want || notes != "" {
				t.Errorf("%s\nwant\n%s\nnotes %s", got, c.want, notes)
			}
		})
	}
}

// Each engine has the limit of its own model.
func TestEnginesOfTwoModelsHaveTheirOwnLimits(t *testing.T) {
	w := newRayWorld(t, 3, twoModels)
	w.Set(engineOn("LLMServer:deepseek-ai--V3_1#a", 1, 2), engineOn("LLMServer:qwen-7b#b", 3))
	got := map[string]float64{}
	for _, s := range w.client.Read(t.Context(), w.query).Samples {
		if s.Signal == "max_num_seqs" {
			got[s.Entity.Pod] = s.Value
		}
	}
	if want := map[string]float64{"w1": 32, "w2": 32, "w3": 256}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("limits %v, want %v", got, want)
	}
}

// While the head is down, its last answer holds for the pods that existed then. A note gives the
// time of the answer.
func TestLastRayAnswerHoldsDuringOutage(t *testing.T) {
	w := newRayWorld(t, 4, oneModel)
	w.Set(engineOn("LLMServer:deepseek#a", 1, 2), engineOn("LLMServer:deepseek#b", 3, 4))
	const known = "w1 group a model deepseek\nw2 group a model deepseek\nw3 group b model deepseek\nw4 group b model deepseek"
	if got, notes := w.workersAndNotes(); got != known || notes != "" {
		t.Fatalf("%s\nnotes %s", got, notes)
	}
	w.Answer(http.StatusServiceUnavailable)
	asked := len(w.Asked())
	w.query.Now = w.query.Now.Add(rayFresh - time.Second)
	if got, notes := w.workersAndNotes(); got != known || notes != "" || len(w.Asked()) != asked {
		t.Errorf("a moment later, with %d more requests:\n%s\nnotes %s", len(w.Asked())-asked, got, notes)
	}

	w.query.Now = w.query.Now.Add(rayKept - time.Minute)
	w.replace("w4", w.query.Now.Add(-time.Minute)) // a new pod with the address of a deleted one
	got, notes := w.workersAndNotes()
	if want := strings.TrimSuffix(known, "w4 group b model deepseek") + "w4 model deepseek"; got != want {
		t.Errorf("while Ray is away:\n%s\nwant\n%s", got, want)
	}
	if want := "Ray of llm/chat-x7k2p: its dashboard answers 503 to /api/v0/placement_groups; the bot groups its pods as of 12:00:00 UTC"; notes != want {
		t.Errorf("notes %q, want %q", notes, want)
	}

	w.query.Now = w.query.Now.Add(2 * time.Minute)
	if got, notes := w.workersAndNotes(); strings.Contains(got, "group") || !strings.HasSuffix(notes, "by their Kubernetes objects alone") {
		t.Errorf("after an hour:\n%s\nnotes %s", got, notes)
	}
	w.Answer(0)
	w.query.Now = w.query.Now.Add(rayFresh)
	if got, notes := w.workersAndNotes(); got != known || notes != "" {
		t.Errorf("Ray is back:\n%s\nnotes %s", got, notes)
	}
}

// Ray knows a pod by one of its addresses, which need not be the first. Pods with the same address
// cannot be distinguished.
func TestPodsAreFoundByAnyUniqueAddress(t *testing.T) {
	w := newRayWorld(t, 4, oneModel)
	w.Set(engineOn("LLMServer:deepseek#a", 1, 2), engineOn("LLMServer:deepseek#b", 3, 4))
	w.change("w1", func(p *corev1.Pod) {
		p.Status.PodIP, p.Status.PodIPs = "fd00::1", []corev1.PodIP{{IP: "fd00::1"}, {IP: ip(1)}}
	})
	const known = "w1 group a model deepseek\nw2 group a model deepseek\n"
	if got, notes := w.workersAndNotes(); got != known+"w3 group b model deepseek\nw4 group b model deepseek" || notes != "" {
		t.Errorf("of two families:\n%s\nnotes %s", got, notes)
	}
	w.change("w3", func(p *corev1.Pod) { p.Status.PodIP = ip(4) })
	got, notes := w.workersAndNotes()
	want := "Ray of llm/chat-x7k2p runs engines at 2 addresses that no pod has, or several pods have; " +
		"the bot cannot group these pods"
	if got != known+"w3 model deepseek\nw4 model deepseek" || notes != want {
		t.Errorf("two on one node's network:\n%s\nnotes %q, want %q", got, notes, want)
	}
}

// replace recreates a pod with the same name and address.
func (w *rayWorld) replace(name string, at time.Time) {
	w.t.Helper()
	w.change(name, func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(at) })
}

func (w *rayWorld) change(name string, how func(*corev1.Pod)) {
	w.t.Helper()
	pods := w.cluster.CoreV1().Pods("llm")
	p, err := pods.Get(w.t.Context(), name, metav1.GetOptions{})
	if err == nil {
		how(p)
		_, err = pods.Update(w.t.Context(), p, metav1.UpdateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestRayIsQueriedOnlyIfNeeded(t *testing.T) {
	const single = "        llm_configs:\n        - {model_loading_config: {model_id: qwen-7b}}\n"
	for name, c := range map[string]struct {
		args    string
		workers int
		want    bool
	}{
		"engines of one GPU each":   {single, 3, false},
		"one pod":                   {oneModel, 1, false},
		"not a language model":      {"        threshold: 0.5\n", 3, false},
		"engines that may span":     {oneModel, 2, true},
		"several models":            {twoModels, 2, true},
		"data-parallel ranks":       {ranks, 2, true},
		"an unknown number in each": {inFiles, 2, true},
		"SGLang's name for several": {"        llm_configs:\n        - {model_loading_config: {model_id: qwen-7b}, server_cls: 'ray.llm:SGLangServer', engine_kwargs: " +
			"{tp_size: 8}}\n", 2, true},
		"SGLang's gangs": {"        llm_configs:\n        - {model_loading_config: {model_id: qwen-7b}, server_cls: 'ray.llm:SGLangDPServer', " +
			"engine_kwargs: {moe_dp_size: 2}}\n", 2, true},
		"a model and none": {single + "        llm_config: null\n        decode_config: ~\n", 3, false},
	} {
		w := newRayWorld(t, c.workers, c.args)
		if w.workersAndNotes(); (len(w.Asked()) > 0) != c.want {
			t.Errorf("%s: asked for %v", name, w.Asked())
		}
	}
}

func TestRayHeadThatRequiresTokenIsReported(t *testing.T) {
	w := newRayWorld(t, 4, oneModel)
	w.Protect("secret")
	got, notes := w.workersAndNotes()
	if strings.Contains(got, "group") || !strings.Contains(notes, "Ray of llm/chat-x7k2p: it requires a token, and the bot has none") {
		t.Errorf("%s\nnotes %s", got, notes)
	}
}
