package topology

import "testing"

func TestPoolOf(t *testing.T) {
	for pod, want := range map[string]string{
		"vllm-llama-7d9f8b6c5-x2k4z": "vllm-llama", "vllm-llama-bcdfghjkl-x2k4z": "vllm-llama", "vllm-0": "vllm", "llama-3-0": "llama-3",
		"ring-0-1": "ring-0", "vllm-x7k2q": "vllm", "vllm-qwen3-x7k2q": "vllm-qwen3",
		"vllm-qwen3-xkqzb": "vllm-qwen3", "vllm-7d1-x2k1a": "vllm", "worker": "", "my-router": "",
	} {
		if got := PoolOf(pod); got != want {
			t.Errorf("%s: %q, want %q", pod, got, want)
		}
	}
}
