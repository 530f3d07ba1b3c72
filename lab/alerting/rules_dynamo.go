package alerting

import "time"

// dynamoRules are the rules on Dynamo's frontend: those of deploy/prometheus/dynamo.yml. A rule
// that compares with the past looks back minutes instead of hours. The frontend counts a request
// that its client cancelled as an error, and so do the rules.
func dynamoRules() []Rule {
	pool := []string{"namespace", "model"}
	const by = "by (namespace, model)"
	ttft := frontQuantile("dynamo_frontend_time_to_first_token_seconds")
	itl := frontQuantile("dynamo_frontend_inter_token_latency_seconds")
	const failed = `sum by (namespace, model) ` +
		`(rate(dynamo_frontend_requests_total{status="error",error_type!~"validation|not_found|cancelled"}[5m])) / ` +
		`sum by (namespace, model) (rate(dynamo_frontend_requests_total[5m]))`
	failing := func(h *history) vector {
		all := h.rate("dynamo_frontend_requests_total", 300, 0)
		return all.with("status", "error").sum(pool...).per(all.sum(pool...), pool...)
	}
	tokens := func(h *history, window, offset float64) vector {
		return h.rate("dynamo_frontend_output_tokens_total", window, offset).sum(pool...)
	}
	return []Rule{
		{"DynamoTTFTHigh", ttft.expr("0.95") + " > 2.2",
			2 * time.Minute, "warning", "p95 time to first token of {{ $labels.model }} is over 2.2 s",
			func(h *history) vector { return ttft.of(h, .95).above(2.2) }},
		{"DynamoTTFTCritical", ttft.expr("0.95") + " > 4.7",
			5 * time.Minute, "critical", "p95 time to first token of {{ $labels.model }} is over 4.7 s",
			func(h *history) vector { return ttft.of(h, .95).above(4.7) }},
		{"DynamoInterTokenLatencyCritical", itl.expr("0.95") + " > 0.16",
			3 * time.Minute, "critical", "p95 inter-token latency of {{ $labels.model }} is over 160 ms",
			func(h *history) vector { return itl.of(h, .95).above(.16) }},
		{"DynamoErrorRateHigh", failed + " > 0.05",
			10 * time.Minute, "warning", "More than 5% of the requests to {{ $labels.model }} fail",
			func(h *history) vector { return failing(h).above(.05) }},
		{"DynamoErrorRateCritical", failed + " > 0.20",
			3 * time.Minute, "critical", "More than 20% of the requests to {{ $labels.model }} fail",
			func(h *history) vector { return failing(h).above(.20) }},
		{"DynamoStalled",
			"sum " + by + " (rate(dynamo_frontend_output_tokens_total[3m])) == 0 and max " + by +
				" (dynamo_frontend_inflight_requests) > 0",
			2 * time.Minute, "critical", "{{ $labels.model }} has requests in flight and answers nothing",
			func(h *history) vector {
				flat := tokens(h, 180, 0).equal(0)
				return flat.and(h.now("dynamo_frontend_inflight_requests").largest(pool...).above(0), pool...)
			}},
		{"DynamoQueueBuildup", "sum " + by + " (dynamo_frontend_queued_requests) > 50",
			2 * time.Minute, "warning", "More than 50 requests to {{ $labels.model }} wait for their first token",
			func(h *history) vector { return h.now("dynamo_frontend_queued_requests").sum(pool...).above(50) }},
		{"DynamoThroughputDrop",
			"sum " + by + " (rate(dynamo_frontend_output_tokens_total[2m])) / sum " + by +
				" (rate(dynamo_frontend_output_tokens_total[5m] offset 5m)) < 0.5 and sum " + by +
				" (dynamo_frontend_inflight_requests) > 4",
			2 * time.Minute, "warning", "{{ $labels.model }} generates less than half of what it did",
			func(h *history) vector {
				r := tokens(h, 120, 0).per(tokens(h, 300, 300), pool...)
				return r.below(.5).and(h.now("dynamo_frontend_inflight_requests").sum(pool...).above(4), pool...)
			}},
	}
}

func frontQuantile(metric string) poolQuantile {
	return poolQuantile{metric: metric, labels: []string{"namespace", "model"}, by: "le, namespace, model"}
}
