package topology

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

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

// The forms of pods' names, as regular expressions, which are too slow for every alert.
var (
	replicaSetPod = regexp.MustCompile(`^(.+)-([bcdfghjklmnpqrstvwxz0-9]{6,10}|[a-z0-9]*[0-9][a-z0-9]*)-[a-z0-9]{5}$`)
	ordinalPod    = regexp.MustCompile(`^(.+)-[0-9]{1,4}$`)
	suffixPod     = regexp.MustCompile(`^(.+)-[bcdfghjklmnpqrstvwxz2456789]{5}$`)
)

func poolByExpression(pod string) string {
	suffix := suffixPod.FindStringSubmatch(pod)
	if m := replicaSetPod.FindStringSubmatch(pod); m != nil {
		if suffix != nil && strings.ContainsAny(m[2], noHash) {
			return suffix[1]
		}
		return m[1]
	}
	if m := ordinalPod.FindStringSubmatch(pod); m != nil {
		return m[1]
	}
	if suffix != nil && strings.ContainsAny(pod[len(suffix[1]):], digits) {
		return suffix[1]
	}
	return ""
}

func TestPoolOfKnowsAllForms(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(from string, n int) string {
		var b strings.Builder
		for range n {
			b.WriteByte(from[r.IntN(len(from))])
		}
		return b.String()
	}
	found := 0
	for range 200_000 {
		var words []string
		for range r.IntN(5) {
			n := []int{0, 1, 4, 5, 6, 8, 10, 11}[r.IntN(8)]
			words = append(words, pick([]string{digits, lowerCase, hashLetters, hashLetters + digits, "bc24568", "aX.\xff013"}[r.IntN(6)], n))
		}
		pod := strings.Join(words, "-")
		got := PoolOf(pod)
		if want := poolByExpression(pod); got != want {
			t.Fatalf("%q: %q, want %q", pod, got, want)
		}
		if got != "" {
			found++
		}
	}
	if found < 10_000 {
		t.Errorf("only %d names had a pool", found)
	}
}

func BenchmarkPoolOf(b *testing.B) {
	for b.Loop() {
		PoolOf("vllm-llama-7d9f8b6c5-x2k4z")
	}
}
