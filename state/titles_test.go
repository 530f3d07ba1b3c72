package state

import "testing"

func TestTextsShowTitlesOfSignals(t *testing.T) {
	titles := Titles{Signals: map[string]string{"kv_usage": "KV cache in use", "preemption_rate": "Preemptions",
		"max_num_seqs": "Limit of running requests"}}
	for text, want := range map[string]string{
		"kv_usage 99 %, preemption_rate 2/s": "KV cache in use 99 %, preemptions 2/s",
		"lower max_num_seqs":                 "lower max_num_seqs",
		"pod vllm-kv_usage-0 at /x/kv_usage": "pod vllm-kv_usage-0 at /x/kv_usage",
		"no preemption_rate.":                "no preemptions.",
		"some_flag stays":                    "some_flag stays",
	} {
		if got := titles.Text(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
