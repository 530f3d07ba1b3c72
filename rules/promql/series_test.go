package promql

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSeriesOfAnExpression(t *testing.T) {
	gauge := func(sel string) string { return fmt.Sprintf("(%[1]s or %[1]s offset 15m or %[1]s offset 1h)", sel) }
	for expr, want := range map[string][]string{
		`absent(vllm:kv_cache_usage_perc{namespace="llm"})`: {gauge(`vllm:kv_cache_usage_perc{namespace="llm"}`)},
		`sum(rate(istio_requests_total{response_code=~"5.."}[10m])) / sum(rate(istio_requests_total[10m])) > 0.03`: {
			`rate(istio_requests_total{response_code=~"5.."}[5m]) > 0`},
		`sum(vllm:num_requests_waiting offset 5m) > 20 or max(sglang:num_queue_reqs) > 20`: {
			gauge(`vllm:num_requests_waiting`), gauge(`sglang:num_queue_reqs`)},
		`0.9 < max_over_time(vllm:kv_cache_usage_perc[5m])`: {gauge(`vllm:kv_cache_usage_perc`)},
		`histogram_quantile(0.9, sum by (le) (rate(vllm:e2e_request_latency_seconds_bucket[5m]))) > 5 and on () hour() > 8`: {
			`rate(vllm:e2e_request_latency_seconds_bucket[5m]) > 0`},
		`sum(vllm:num_requests_waiting) > 9 and on () sum(up{job="redis"}) > 0`: {gauge(`vllm:num_requests_waiting`)},
		`count({job="vllm"}) < 3`: nil, // every metric of the job
		`count({__name__=~".+"})`: nil,
		`vector(1)`:               nil,
		`sum(rate(`:               nil,
		``:                        nil,
	} {
		if diff := cmp.Diff(want, SeriesOf(UsesOf(expr))); diff != "" {
			t.Errorf("%s: %s", expr, diff)
		}
	}
}
