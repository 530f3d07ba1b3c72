package promql

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSeriesOfAnExpression(t *testing.T) {
	for expr, want := range map[string][]string{
		`absent(vllm:kv_cache_usage_perc{namespace="llm"})`: {`max_over_time(vllm:kv_cache_usage_perc{namespace="llm"}[6h])`},
		`sum(rate(istio_requests_total{response_code=~"5.."}[10m])) / sum(rate(istio_requests_total[10m])) > 0.03`: {
			`rate(istio_requests_total{response_code=~"5.."}[5m]) > 0`},
		`sum(vllm:num_requests_waiting offset 5m) > 20 or max(sglang:num_queue_reqs) > 20`: {
			`max_over_time(vllm:num_requests_waiting[6h])`, `max_over_time(sglang:num_queue_reqs[6h])`},
		`0.9 < max_over_time(vllm:kv_cache_usage_perc[5m])`: {`max_over_time(vllm:kv_cache_usage_perc[6h])`},
		`histogram_quantile(0.9, sum by (le) (rate(vllm:e2e_request_latency_seconds_bucket[5m]))) > 5 and on () hour() > 8`: {
			`rate(vllm:e2e_request_latency_seconds_bucket[5m]) > 0`},
		`count({job="vllm"}) < 3`: nil, // every metric of the job
		`count({__name__=~".+"})`: nil,
		`vector(1)`:               nil,
		`sum(rate(`:               nil,
		``:                        nil,
	} {
		if diff := cmp.Diff(want, SeriesOf(expr)); diff != "" {
			t.Errorf("%s: %s", expr, diff)
		}
	}
}
