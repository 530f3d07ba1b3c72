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
// if the result is against the remedy's direction, if the number of ranks cannot be read, or if the
// cache's use is unknown for raising. It keeps the limits, and rounds down to a multiple of eight,
// for which engines capture graphs.
func compute(s *guard.Scene, from int, direction string) (int, string, error) {
	ranks, together, err := s.Ranks()
	if err != nil {
		return 0, "", err
	}
	safe, how := safe(s, ranks, together)
	bound := "" // the limit that changed the wanted value
	to, why := from/2, fmt.Sprintf("%d is half of %d, because the safe value is unknown: %s", from/2, from, how)
	if safe > 0 {
		to, why = safe, how
	}
	if direction == "lower" {
		if safe >= from {
			to, why = from/2, fmt.Sprintf("%d is half of %d: the KV cache is exhausted, although %s", from/2, from, how)
		}
		if least := int(float64(from) / s.Rule.MaxFactor); to < least {
			bound = fmt.Sprintf("One step from %d does not go below %d (max_factor %g). ", from, least/8*8, s.Rule.MaxFactor)
			to = least
		}
	} else {
		if safe <= 0 {
			if to, why = safeByUse(s, ranks, together); to <= 0 {
				return 0, "", fmt.Errorf("a higher value is not safe, because the free part of the KV cache is unknown: %s", why)
			}
		}
		if most := int(float64(from) * min(2, s.Rule.MaxFactor)); to > most {
			bound = fmt.Sprintf("One step from %d does not go above %d. ", from, most/8*8)
			to = most
		}
	}
	wanted := to
	to = to / 8 * 8
	if s.Rule.Floor > s.Rule.Ceiling {
		return 0, "", fmt.Errorf("the limits allow no value: the floor of %d is above the ceiling of %d", s.Rule.Floor,
			s.Rule.Ceiling)
	}
	if low, high := s.Rule.Floor, s.Rule.Ceiling; to < low || to > high {
		bound = fmt.Sprintf("The limits allow %d to %d (floor, ceiling), and %d was wanted. ", low, high, wanted)
		to = min(max(to, low), high)
	}
	if direction == "lower" && to >= from {
		return 0, "", fmt.Errorf("the limits allow no value below %d (floor %d)", from, s.Rule.Floor)
	}
	if direction == "raise" && to <= from {
		return 0, "", fmt.Errorf("a value above %d is not safe (ceiling %d): %s", from, s.Rule.Ceiling, why)
	}
	if bound == "" && to != wanted {
		why += fmt.Sprintf(", rounded down to %d", to)
	}
	return to, bound + why + ".", nil
}

// outdated returns an error if the limits no longer allow the planned value, or if it is a higher
// one that is no longer safe. A run may be held for hours, in which limits and requests change. As
// in a plan, a difference of a quarter does not count. A lower value is safe with any requests.
func outdated(s *guard.Scene, from, to int) error {
	within := func(v float64) int { return min(max(int(v)/8*8, s.Rule.Floor), s.Rule.Ceiling) }
	least, most := within(float64(from)/s.Rule.MaxFactor), within(float64(from)*min(2, s.Rule.MaxFactor))
	if to < least || to > most {
		return fmt.Errorf("%d was planned, and the limits allow %d to %d now (floor, ceiling, max_factor)", to, least, most)
	}
	if s.Action.Params["direction"] != "raise" {
		return nil
	}
	now, why, err := compute(s, from, "raise")
	if err == nil && 4*now < 3*to {
		err = fmt.Errorf("%d was planned, and %d is safe now: %s", to, now, why)
	}
	return err
}

// safe returns the max_num_seqs at which the KV cache suffices, and how that was computed. It
// returns 0 if it is unknown.
//
// It is the smaller of two numbers. One goes by tokens: as many requests of the mean length as the
// cache has blocks for. It is right only if every block keeps its tokens for all layers. In a model
// with windows, chunks or states in some layers, each group of layers has blocks of its own, and a
// request takes several times as many. Engines do not export which model it is. So the other number
// goes by the cache that the running requests hold, for any kind of layer.
func safe(s *guard.Scene, ranks int, together bool) (int, string) {
	n, how := safeByTokens(s, ranks, together)
	if held, text := safeByUse(s, ranks, together); n > 0 && held < n {
		return held, text
	}
	return n, how
}

// safeByUse goes by the cache that the running requests hold, over the pool. The result is for one
// worker, because all have one template.
func safeByUse(s *guard.Scene, ranks int, together bool) (int, string) {
	var used, running float64
	for _, p := range s.Pods {
		u, ok1 := s.Newest("kv_usage", p.Name)
		r, ok2 := s.Newest("requests_running", p.Name)
		if ok1 && ok2 {
			used, running = used+u.Value, running+r.Value
		}
	}
	if used <= 0 || running <= 0 {
		return 0, s.Site.Titles.Of("kv_usage") + " or " + s.Site.Titles.Of("requests_running") + " is missing or zero"
	}
	n := int(KVFill * running / used)
	if ranks == 1 || together {
		return n, fmt.Sprintf("85 %% of the KV cache holds %d requests of %.2g %% each", n, 100*used/running)
	}
	return n / ranks, fmt.Sprintf("85 %% of the KV cache of %d ranks holds %d requests of %.2g %% each, and each rank has the limit for "+
		"itself", ranks, n, 100*used/running)
}

// safeByTokens goes by the cache's size and the present lengths.
func safeByTokens(s *guard.Scene, ranks int, together bool) (int, string) {
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
		return 0, "the formula needs " + s.Site.Titles.List([]string{"kv_blocks_total", "kv_block_size", "prompt_length_mean",
			"output_length_mean"})
	}
	length := prompt + output
	cache := fmt.Sprintf("%.0f KV blocks of %.0f tokens", slices.Min(blocks), size)
	if size == 1 { // SGLang counts its cache in tokens
		cache = fmt.Sprintf("%.0f tokens of KV cache", slices.Min(blocks))
	}
	n := int(slices.Min(blocks) * KVFill / (length / size))
	if together { // each rank has such a cache, and all share the limit
		n *= ranks
		cache += fmt.Sprintf(" on each of %d ranks", ranks)
	}
	return n, fmt.Sprintf("85 %% of %s hold %d requests of %.0f tokens", cache, n, length)
}
