package tune

import (
	"fmt"
	"strings"
)

// mostRanks is the largest tensor-parallel group in advice.
const mostRanks = 64

// divides reports whether the given number of GPUs can share the model. Each GPU needs the same
// number of attention heads. It also needs the same number of KV heads, or one KV head that the
// same number of GPUs keep. Sources: vLLM's ModelConfig.verify_with_parallel_config and
// QKVParallelLinear; SGLang does the same.
func (m Model) divides(tensorParallel int) bool {
	if m.Heads%tensorParallel != 0 { // not known: 0
		return false
	}
	return m.Latent > 0 || m.KVHeads%tensorParallel == 0 || tensorParallel%m.KVHeads == 0
}

// grouped returns an error unless the attention heads divide evenly among the KV heads.
func (m Model) grouped() error {
	if m.Latent > 0 || m.Heads == 0 || m.KVHeads == 0 || m.Heads%m.KVHeads == 0 {
		return nil
	}
	return fmt.Errorf("%d attention heads are not a multiple of %d KV heads: check "+
		"num_attention_heads and num_key_value_heads (--kv-heads)", m.Heads, m.KVHeads)
}

// ranks returns the sizes of tensor-parallel groups that can share the model, up to most.
func (m Model) ranks(most int) []int {
	var out []int
	for n := 1; n <= most; n++ {
		if m.divides(n) {
			out = append(out, n)
		}
	}
	return out
}

// parallel returns an error for a tensor-parallel group that engines refuse.
func (m Model) parallel(tensorParallel int) error {
	if m.divides(tensorParallel) {
		return nil
	}
	var fit []string
	for _, n := range m.ranks(mostRanks) {
		fit = append(fit, fmt.Sprint(n))
	}
	what := fmt.Sprintf("%d KV heads are neither a multiple nor a divisor of it", m.KVHeads)
	if m.Heads%tensorParallel != 0 {
		what = fmt.Sprintf("it does not divide the model's %d attention heads", m.Heads)
	}
	return fmt.Errorf("--tensor-parallel %d: %s, so engines refuse to start; use %s", tensorParallel, what,
		strings.Join(fit, ", "))
}

// inOneMachine is the usual number of GPUs of a machine. Advice does not exceed it.
const inOneMachine = 8

// wider returns the smallest larger group within one machine for which holds is true, or 0.
func (h Hardware) wider(m Model, holds func(Hardware) bool) int {
	for _, n := range m.ranks(inOneMachine) {
		if n <= h.TensorParallel {
			continue
		}
		h.TensorParallel = n
		if holds(h) {
			return n
		}
	}
	return 0
}
