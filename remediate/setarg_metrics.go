package remediate

import (
	"paramedic/remediate/verify"
)

func (setEngineArg) Metrics() []verify.Metric {
	return []verify.Metric{
		{Signal: "preemption_rate", Unit: "1/s", Agg: verify.AggSum, Direction: "lower", MustEnd: true,
			Better: 0.2, Worse: 1.5, Noise: 0.05},
		{Signal: "preemption_rate", Unit: "1/s", Agg: verify.AggSum, Direction: "raise", Guardrail: true, Worse: 1.5, Noise: 0.2},
		{Signal: "kv_usage", Unit: "ratio", Agg: verify.AggMax, Direction: "lower", Better: 0.93, Worse: 1.1, Noise: 0.02},
		{Signal: "requests_waiting", Unit: "requests", Agg: verify.AggSum, Direction: "raise", Better: 0.7, Worse: 1.5, Noise: 2},
		{Signal: "ttft_p95", Unit: "s", Agg: verify.AggMax, Direction: "raise", Better: 0.7, Worse: 1.3, Noise: 0.25},
		// A lower cap moves requests from the cache to the queue. First tokens are late until that
		// queue is drained, which is harm only if users wait twice as long. But if late first
		// tokens are a symptom of the incident, they have to end.
		{Signal: "ttft_p95", Unit: "s", Agg: verify.AggMax, Direction: "lower", Guardrail: true, Drains: true,
			Better: 0.7, Worse: 2, Noise: 1},
		{Signal: "error_rate", Unit: "ratio", Agg: verify.AggMax, Guardrail: true, Worse: 1.5, Noise: 0.02,
			Rolling: verify.Rolling{Worse: 2, Noise: 0.1}},
		{Signal: readySignal, Unit: "pods", Agg: verify.AggReady, Guardrail: true, Higher: true, Worse: 0.99,
			Rolling: verify.Rolling{Worse: 0.99}},
	}
}
