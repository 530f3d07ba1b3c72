package remediate

func (setEngineArg) Metrics() []metric {
	return []metric{
		{signal: "preemption_rate", unit: "1/s", agg: aggSum, direction: "lower", ends: true, better: 0.2, worse: 1.5, noise: 0.05},
		{signal: "preemption_rate", unit: "1/s", agg: aggSum, direction: "raise", guardrail: true, worse: 1.5, noise: 0.2},
		{signal: "kv_usage", unit: "ratio", agg: aggMax, direction: "lower", better: 0.93, worse: 1.1, noise: 0.02},
		{signal: "requests_waiting", unit: "requests", agg: aggSum, direction: "raise", better: 0.7, worse: 1.5, noise: 2},
		{signal: "ttft_p95", unit: "s", agg: aggMax, direction: "raise", better: 0.7, worse: 1.3, noise: 0.25},
		// A lower cap moves requests from the cache to the queue. While the queue that the trouble
		// left drains, first tokens are late; that is harm only if users wait twice as long. But if
		// late first tokens are part of the trouble, they have to end.
		{signal: "ttft_p95", unit: "s", agg: aggMax, direction: "lower", guardrail: true, better: 0.7, worse: 2, noise: 1},
		{signal: "error_rate", unit: "ratio", agg: aggMax, guardrail: true, worse: 1.5, noise: 0.02, rolling: rolling{worse: 2, noise: 0.1}},
		{signal: "replicas_ready", unit: "pods", agg: aggReady, guardrail: true, higher: true, worse: 0.99, rolling: rolling{worse: 0.99}},
	}
}
