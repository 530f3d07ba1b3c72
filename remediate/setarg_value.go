package remediate

import (
	"fmt"
	"slices"

	"paramedic/remediate/guard"
)

// KVFill is the share of the KV cache that a safe max_num_seqs plans for. The rest is for requests
// that are longer than the average. The tuning formula of the source articles has it.
const KVFill = .85

// compute returns the new value, and the reason for it. That is the safe value. If it is unknown,
// it is half of the present value, or for raising the value by the cache's use. It returns an error
// if the result is against the remedy's direction, or if the cache's use is unknown for raising. It
// keeps the limits, and rounds down to a multiple of eight, for which engines capture graphs.
func compute(s *guard.Scene, from int, direction string) (int, string, error) {
	safe, how := safe(s)
	bound := "" // the limit that changed the wanted value
	to, why := from/2, fmt.Sprintf("half of %d, for the safe value cannot be computed: %s", from, how)
	if safe > 0 {
		to, why = safe, how
	}
	if direction == "lower" {
		if safe >= from {
			to, why = from/2, fmt.Sprintf("half of %d: the formula allows more (%s), but the cache is exhausted", from,
				how)
		}
		if least := int(float64(from) / s.Rule.MaxFactor); to < least {
			bound = fmt.Sprintf("%d is as low as one step goes from %d (max_factor %g); wanted was %d, %s", least/8*8,
				from, s.Rule.MaxFactor, to, why)
			to = least
		}
	} else {
		if safe <= 0 {
			if to, why = safeByUse(s); to <= 0 {
				return 0, "", fmt.Errorf("how much the KV cache has left is not known, so raising is not safe: %s", why)
			}
		}
		if most := int(float64(from) * min(2, s.Rule.MaxFactor)); to > most {
			bound = fmt.Sprintf("%d is as high as one step goes from %d; the cache allows %d, %s", most/8*8, from, to,
				why)
			to = most
		}
	}
	wanted := to
	to = to / 8 * 8
	if s.Rule.Floor > s.Rule.Ceiling {
		return 0, "", fmt.Errorf("the limits allow no value: the floor is %d and the ceiling %d", s.Rule.Floor,
			s.Rule.Ceiling)
	}
	if low, high := s.Rule.Floor, s.Rule.Ceiling; to < low || to > high {
		bound = fmt.Sprintf("%d is the nearest that floor %d and ceiling %d allow; wanted was %d, %s",
			min(max(to, low), high), low, high, wanted, why)
		to = min(max(to, low), high)
	}
	if direction == "lower" && to >= from {
		return 0, "", fmt.Errorf("%d is as low as it may go (floor %d)", from, s.Rule.Floor)
	}
	if direction == "raise" && to <= from {
		return 0, "", fmt.Errorf("more than %d would not be safe: %s (ceiling %d)", from, why, s.Rule.Ceiling)
	}
	if bound != "" {
		return to, bound + ".", nil
	}
	return to, fmt.Sprintf("%d is %s.", to, why), nil
}

// safe returns the max_num_seqs at which the KV cache suffices, and how that was computed. It
// returns 0 if it is unknown.
//
// It is the smaller of two numbers. One goes by tokens: as many requests of the mean length as the
// cache has blocks for. It is right only if every block keeps its tokens for all layers. In a model
// with windows, chunks or states in some layers, each group of layers has blocks of its own, and a
// request takes several times as many. Engines do not export which model it is. So the other number
// goes by the cache that the running requests hold, for any kind of layer.
func safe(s *guard.Scene) (int, string) {
	n, how := safeByTokens(s)
	if held, text := safeByUse(s); n > 0 && held < n {
		return held, text
	}
	return n, how
}

// safeByUse goes by the cache that the running requests hold, over the pool. The result is for one
// worker, because all have one template.
func safeByUse(s *guard.Scene) (int, string) {
	var used, running float64
	for _, p := range s.Pods {
		u, ok1 := s.Newest("kv_usage", p.Name)
		r, ok2 := s.Newest("requests_running", p.Name)
		if ok1 && ok2 {
			used, running = used+u.Value, running+r.Value
		}
	}
	if used <= 0 || running <= 0 {
		return 0, "it takes kv_usage and requests_running of a worker that runs something"
	}
	return int(KVFill * running / used),
		fmt.Sprintf("what 85 %% of the KV cache hold, of which a running request holds %.2g %%", 100*used/running)
}

// safeByTokens goes by the cache's size and the present lengths.
func safeByTokens(s *guard.Scene) (int, string) {
	mean := func(signal string) float64 {
		v := s.Of(signal)
		if len(v) == 0 {
			return 0
		}
		var total float64
		for _, x := range v {
			total += x
		}
		return total / float64(len(v))
	}
	blocks, size := s.Of("kv_blocks_total"), mean("kv_block_size")
	prompt, output := mean("prompt_length_mean"), mean("output_length_mean")
	if len(blocks) == 0 || size <= 0 || prompt <= 0 || output <= 0 {
		return 0, "it takes kv_blocks_total, kv_block_size, prompt_length_mean and output_length_mean"
	}
	length := prompt + output
	cache := fmt.Sprintf("%.0f blocks of %.0f tokens", slices.Min(blocks), size)
	if size == 1 { // SGLang counts its cache in tokens
		cache = fmt.Sprintf("%.0f tokens of KV cache", slices.Min(blocks))
	}
	return int(slices.Min(blocks) * KVFill / (length / size)),
		fmt.Sprintf("what 85 %% of %s hold at %.0f tokens a sequence", cache, length)
}
