package tracestest

import (
	"fmt"
	"time"
)

// Times holds the duration of each phase of a request.
type Times struct{ Queue, Prefill, Decode time.Duration }

func (t Times) whole() time.Duration { return t.Queue + t.Prefill + t.Decode }

// A Request describes one request, from which the functions below make an engine's spans.
type Request struct {
	N        int // unique number
	End      time.Time
	Times    Times
	Prompt   int64
	Output   int64
	Resource map[string]any
}

func (r Request) trace() string { return fmt.Sprintf("4bf92f3577b34da6a3ce9%011x", r.N) }

// VLLM returns the span that vLLM V1 writes.
func VLLM(r Request) []Span {
	return []Span{{Trace: r.trace(), Name: "llm_request", Start: r.End.Add(-r.Times.whole()), Duration: r.Times.whole(),
		Resource: r.Resource, Attributes: map[string]any{
			"gen_ai.request.id": fmt.Sprintf("chatcmpl-%d", r.N), "gen_ai.usage.prompt_tokens": r.Prompt,
			"gen_ai.usage.completion_tokens":         r.Output,
			"gen_ai.latency.time_in_queue":           r.Times.Queue.Seconds(),
			"gen_ai.latency.time_in_model_prefill":   r.Times.Prefill.Seconds(),
			"gen_ai.latency.time_in_model_decode":    r.Times.Decode.Seconds(),
			"gen_ai.latency.time_in_model_inference": (r.Times.Prefill + r.Times.Decode).Seconds(),
			"gen_ai.latency.time_to_first_token":     (r.Times.Queue + r.Times.Prefill).Seconds(),
			"gen_ai.latency.e2e":                     r.Times.whole().Seconds()}}}
}

// VLLMV0 returns the span that vLLM V0 writes.
func VLLMV0(r Request, model string) []Span {
	s := VLLM(r)
	for _, key := range []string{"time_in_model_prefill", "time_in_model_decode", "time_in_model_inference"} {
		delete(s[0].Attributes, "gen_ai.latency."+key)
	}
	s[0].Attributes["gen_ai.response.model"] = model
	return s
}

// SGLang returns the spans that SGLang writes on the given number of ranks. Its prefill attribute
// includes the queue.
func SGLang(r Request, model string, cached int64, ranks int) []Span {
	begin := r.End.Add(-r.Times.whole())
	root := Span{Trace: r.trace(), Name: fmt.Sprintf(" Req %08x", r.N), Start: begin, Duration: r.Times.whole(),
		Resource: r.Resource, Attributes: map[string]any{
			"rid": fmt.Sprintf("%032x", r.N), "module": "sglang::request", "gen_ai.response.model": model,
			"gen_ai.usage.prompt_tokens":     r.Prompt,
			"gen_ai.usage.completion_tokens": r.Output, "gen_ai.usage.cached_tokens": cached,
			"gen_ai.latency.time_to_first_token":   (r.Times.Queue + r.Times.Prefill).Seconds(),
			"gen_ai.latency.e2e":                   r.Times.whole().Seconds(),
			"gen_ai.latency.time_in_model_decode":  r.Times.Decode.Seconds(),
			"gen_ai.latency.time_in_model_prefill": (r.Times.Queue + r.Times.Prefill).Seconds()}}
	out := []Span{root}
	for range ranks {
		out = append(out,
			Span{Trace: root.Trace, Name: "prefill_waiting", Start: begin, Duration: r.Times.Queue,
				Resource: r.Resource},
			Span{Trace: root.Trace, Name: "prefill_forward", Start: begin.Add(r.Times.Queue), Duration: r.Times.Prefill,
				Resource: r.Resource},
			Span{Trace: root.Trace, Name: "decode_forward", Start: r.End.Add(-r.Times.Decode), Duration: r.Times.Decode,
				Resource: r.Resource})
	}
	return out
}

// Routed returns the span of Dynamo's router in the trace of a request.
func Routed(r Request, took time.Duration) Span {
	return Span{Trace: r.trace(), Name: "kv_router.select_worker", Start: r.End.Add(-r.Times.whole() - took),
		Duration: took,
		Resource: map[string]any{"service.name": "dynamo-frontend"}}
}
