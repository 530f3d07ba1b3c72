package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestLastErrorOfEngineCrashes(t *testing.T) {
	for _, c := range []struct{ want, text string }{
		{"no_kv_memory",
			"(EngineCore pid=110) ERROR 08-28 07:39:28 [core.py:1346] ValueError: To serve at least one request with the model's max seq len (40960), (4.38 GiB KV " +
				"cache is needed, which is larger than the available KV cache memory (1.0 GiB).\n" +
				"(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above."},
		{"no_kv_memory",
			"ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine."},
		{"no_kv_memory", "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."},
		{"cuda_oom", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB"},
		{"cuda_oom",
			"ValueError: Free memory on device cuda:0 (3.25/23.43 GiB) on startup is less than desired GPU memory utilization (0.96, 22.49 GiB)."},
		{"cuda_oom",
			"[TRT-LLM] [E] Executor creation failed due to insufficient GPU memory.\nRuntimeError: Executor worker died during initialization"},
		{"nccl_timeout",
			"[rank0]:[E1218 20:27:21.426415540 ProcessGroupNCCL.cpp:629] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=BROADCAST, " +
				"Timeout(ms)=600000) ran for 600043 milliseconds\nvllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue."},
		{"gpu_error",
			"torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered\nvllm.v1.engine.exceptions.EngineDeadError: " +
				"EngineCore encountered an issue."},
		{"gpu_error", "pynvml.NVMLError_GpuIsLost: GPU is lost"},
		{"engine_dead",
			"ERROR [async_llm.py:538] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause."},
		{"engine_dead",
			"[2026-03-29 18:56:25 TP0] Scheduler hit an exception: Traceback (most recent call last):\nRuntimeError: shape mismatch"},
		{"engine_dead", "RuntimeError: Executor worker died during initialization"},
		{"hub_denied",
			"huggingface_hub.errors.GatedRepoError: 403 Client Error.\n" +
				"Cannot access gated repo for url https://huggingface.co/meta-llama/Llama-3.1-8B/resolve/main/config.json."},
		{"hub_denied",
			"401 Client Error. Repository Not Found for url: https://huggingface.co/api/models/x/y.\n" +
				"OSError: x/y is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'"},
		{"hub_rate_limited",
			"HfHubHTTPError: 429 Client Error: Too Many Requests for url: https://huggingface.co/api/models/m\n" +
				"huggingface_hub.errors.LocalEntryNotFoundError: An error happened while trying to locate the file on the Hub"},
		{"weights_missing", "RuntimeError: Cannot find any model weights with `/mnt/models`"},
		{"weights_missing", "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer"},
		{"bad_argument", "vllm serve: error: unrecognized arguments: --max-num-seq=256"},
		{"bad_argument",
			"pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n" +
				"  Value error, User-specified max_model_len (65536) is greater than the derived max_model_len"},
		{"driver_mismatch", "RuntimeError: The NVIDIA driver on your system is too old (found version 12040)."},
		{"driver_mismatch", "Failed to initialize NVML: Driver/library version mismatch"},
		// The engine survived the earlier errors.
		{"cuda_oom",
			"WARNING 429 Client Error: Too Many Requests for url: https://huggingface.co; retrying\nINFO Loading weights took 31 s\n" +
				"torch.OutOfMemoryError: CUDA out of memory."},
		// The access log's lines about clients are not errors of the engine.
		{"", `INFO: 10.0.0.9:5123 - "POST /v1/chat/completions HTTP/1.1" 401 Unauthorized` + "\n" + `INFO: "POST /v1/completions HTTP/1.1" 429 Too Many Requests`},
		{"", "INFO Application shutdown complete."},
		{"", ""},
	} {
		if got := LastError(c.text); got != c.want {
			t.Errorf("%.70s…: %q, want %q", c.text, got, c.want)
		}
	}
}

// failedPod returns a pod whose engine ended with a message.
func failedPod(name, message string, ago time.Duration) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "llm"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "vllm", Image: "vllm/vllm-openai:v0.24.0"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "vllm", RestartCount: 3,
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 1,
				Message: message, FinishedAt: metav1.NewTime(now.Add(-ago))}}}}}}
}

// logServer is an API server with pods and their logs. All other lists are empty.
type logServer struct {
	pods []corev1.Pod
	logs map[string]string
	deny bool

	mu    sync.Mutex
	asked []string
}

func (s *logServer) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := func(code int, v any) (*http.Response, error) {
		b, err := json.Marshal(v)
		return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(string(b)))}, err
	}
	pod, isLog := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/llm/pods/"), "/log")
	switch {
	case isLog && s.deny:
		denied := apierrors.NewForbidden(schema.GroupResource{Resource: "pods/log"}, pod, errors.New("no")).Status()
		denied.Kind, denied.APIVersion = "Status", "v1"
		return answer(http.StatusForbidden, denied)
	case isLog:
		s.mu.Lock()
		s.asked = append(s.asked, pod+"?"+r.URL.RawQuery)
		s.mu.Unlock()
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(s.logs[pod]))}, nil
	case strings.HasSuffix(r.URL.Path, "/pods"):
		return answer(http.StatusOK, corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: s.pods})
	}
	return answer(http.StatusOK, map[string]any{"kind": "List", "apiVersion": "v1", "items": []any{}})
}

func read(t *testing.T, s *logServer) (map[string]string, []string) {
	t.Helper()
	api, err := kubernetes.NewForConfig(&rest.Config{Host: "http://api", Transport: s})
	if err != nil {
		t.Fatal(err)
	}
	r := New(api, nil).Read(context.Background(), query(t))
	lastErrors, notes := map[string]string{}, []string{}
	for _, x := range r.Samples {
		if x.Signal == "pod_last_error" {
			lastErrors[x.Entity.Pod] = x.Text
		}
	}
	for _, n := range r.Notes {
		notes = append(notes, n.Signal+": "+n.Reason)
	}
	return lastErrors, notes
}

func TestLastErrorComesFromStatusThenLog(t *testing.T) {
	s := &logServer{logs: map[string]string{"b": "secret prompt of a user\nEngineDeadError: EngineCore encountered an issue."},
		pods: []corev1.Pod{
			*failedPod("a", "torch.OutOfMemoryError: CUDA out of memory.", time.Minute), *failedPod("b", "", time.Minute),
			*failedPod("old", "", 9*time.Hour)}}
	for i := range 6 {
		s.pods = append(s.pods, *failedPod(fmt.Sprintf("quiet-%d", i), "", time.Duration(10+i)*time.Minute))
	}
	killed := failedPod("killed", "", time.Minute)
	killed.Status.ContainerStatuses[0].LastTerminationState.Terminated.Reason = "OOMKilled"
	s.pods = append(s.pods, *killed)
	lastErrors, notes := read(t, s)
	if len(lastErrors) != 2 || lastErrors["a"] != "cuda_oom" || lastErrors["b"] != "engine_dead" || len(notes) != 0 {
		t.Errorf("said %v, notes %v", lastErrors, notes)
	}
	if len(s.asked) != logPods {
		t.Errorf("%d logs were read: %v", len(s.asked), s.asked)
	}
	for _, q := range s.asked {
		if strings.HasPrefix(q, "old") || strings.HasPrefix(q, "killed") || strings.HasPrefix(q, "a?") {
			t.Errorf("the log of %s was read", q)
		}
		if !strings.Contains(q, "previous=true") || !strings.Contains(q, "limitBytes=65536") || !strings.Contains(q, "tailLines=") {
			t.Errorf("the read is not bounded: %s", q)
		}
	}
}

func TestDeniedLogIsANote(t *testing.T) {
	s := &logServer{deny: true, pods: []corev1.Pod{*failedPod("a", "torch.OutOfMemoryError: CUDA out of memory.", time.Minute),
		*failedPod("b", "", time.Minute)}}
	lastErrors, notes := read(t, s)
	if lastErrors["a"] != "cuda_oom" || len(lastErrors) != 1 {
		t.Errorf("said %v", lastErrors)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "pod_last_error") || !strings.Contains(notes[0], "forbidden") {
		t.Errorf("notes %v", notes)
	}
}
