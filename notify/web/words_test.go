package web

import (
	"fmt"
	"strings"
	"testing"

	"paramedic/state"
)

func withTitles(c *Config) {
	c.Titles = map[string]string{"preemption_rate": "Preemptions", "kv_usage": "KV cache in use", "gpu_fb_slope": "GPU memory growth",
		"max_num_seqs": "Concurrency cap", "error_rate": "Failed requests (5xx)", "symptom:ttft_high": "Time to first token is high",
		"symptom:aborts": "Requests are aborted"}
}

func TestIDsInTextBecomeTitles(t *testing.T) {
	h := handler(t, fixture(), withTitles)
	for text, want := range map[string]string{
		"better: preemption_rate 9.6/s → 0/s, kv_usage 99.9 % → 59.2 %": "better: preemptions 9.6/s → 0/s, KV cache in use 99.9 % → 59.2 %",
		"preemption_rate 9.6/s":                 "Preemptions 9.6/s",
		"not measured: no gpu_fb_slope.":        "not measured: no GPU memory growth.",
		"max_num_seqs 256 → 64: rolled_back: x": "max_num_seqs 256 → 64: rolled back: x",
		"pod a-kv_usage-1, path /kv_usage":      "pod a-kv_usage-1, path /kv_usage",
		"(symptom:ttft_high)":                   "(time to first token is high)",
		"same: peers:kv_usage 0.1 → 0.1":        "same: KV cache in use, other workers 0.1 → 0.1",
		"next is kv_exhaustion (3 %)":           "next is kv exhaustion (3 %)",
		"":                                      "", "…": "…", "no IDs — at all": "no IDs — at all",
	} {
		if got := h.prose(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
	for want, e := range map[string]state.Entry{
		"Requests are aborted: VLLMAborts":                       {Kind: "symptom", Text: "aborts: VLLMAborts"},
		"opened by alert VLLMTTFT (time to first token is high)": {Kind: "opened", Text: "opened by alert VLLMTTFT (ttft_high)"},
		"opened by a page":                                       {Kind: "opened", Text: "opened by a page"},
	} {
		if got := h.told(e); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestManyMissingSignalsFoldByReason(t *testing.T) {
	v := fixture()
	in := &v.incidents[slicesIndex(v.incidents, 44)]
	in.Diagnosis.Missing = []string{"gpu_fb_slope (no series for it in this scope)"}
	h := handler(t, v, withTitles)
	_, body := get(t, h, everyPage[3], nil)
	contains(t, body, "1 signal missing", `<li>GPU memory growth <span class="dim">no series for it in this scope</span></li>`)
	in.Diagnosis.Missing = []string{"prefill_time_p95"}
	for i := range 35 {
		in.Diagnosis.Missing = append(in.Diagnosis.Missing, fmt.Sprintf("dcgm_%02d (DCGM is not scraped)", i))
	}
	_, body = get(t, h, everyPage[3], nil)
	contains(t, body, "36 signals missing", `<details id="missing-0"><summary>35 signals <span class="dim">DCGM is not scraped</span></summary>dcgm 00, dcgm 01`,
		`<li>prefill time p95 <span class="dim">Prometheus timed out after 5 s</span></li>`)
	if n := strings.Count(body, `<details id="missing-`); n != 1 {
		t.Errorf("%d folds, want 1", n)
	}
}

func TestResolvedIncidentBeginsWithOutcome(t *testing.T) {
	v := fixture()
	in := &v.incidents[slicesIndex(v.incidents, 40)]
	in.Actions = nil
	h := handler(t, v, nil)
	_, body := get(t, h, everyPage[4], nil)
	outcome, diagnosis := strings.Index(body, "Resolved after 30 min. The alerts ended; Paramedic took no action."), strings.Index(body, "The diagnosis.")
	if outcome < 0 || diagnosis < outcome {
		t.Errorf("the outcome is at %d, the diagnosis at %d", outcome, diagnosis)
	}
	for _, present := range []string{"Why we believe it", "Do now", "What else it could be."} {
		if strings.Contains(body, present) {
			t.Errorf("a resolved incident says %q", present)
		}
	}
	_, index := get(t, h, "/", nil)
	if strings.Contains(index, "took no action") {
		t.Error("the list repeats that nothing was done")
	}
}
