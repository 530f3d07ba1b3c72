package alerting

// The labels by which most rules aggregate, as Go and as PromQL.
var (
	podLabels  = []string{"namespace", "model_name", "pod"}
	poolLabels = []string{"namespace", "model_name"}
)

const (
	byPod  = "by (namespace, model_name, pod)"
	byPool = "by (namespace, model_name)"
)

// A poolQuantile computes a quantile of a histogram over a pool, as PromQL and as Go.
type poolQuantile struct {
	metric string
	labels []string
	by     string
}

// usualQuantile returns a poolQuantile of a metric whose pools differ in poolLabels.
func usualQuantile(metric string) poolQuantile {
	return poolQuantile{metric: metric, labels: poolLabels, by: "le, namespace, model_name"}
}

// expr returns the quantile over five minutes as PromQL.
func (p poolQuantile) expr(q string) string {
	return "histogram_quantile(" + q + ", sum by (" + p.by + ") (rate(" + p.metric + "_bucket[5m])))"
}

// of evaluates the expression.
func (p poolQuantile) of(h *history, q float64) vector {
	return h.quantile(q, p.metric, 300, p.labels...)
}

// ratio divides the rates of two counters over five minutes, summed over each pool.
func (h *history) ratio(part, whole string) vector {
	all := h.rate(whole, 300, 0).sum(poolLabels...)
	return h.rate(part, 300, 0).sum(poolLabels...).per(all, poolLabels...)
}

// trend divides a counter's rate over the last two minutes by its rate five to ten minutes ago.
func (h *history) trend(counter string, by ...string) vector {
	before := h.rate(counter, 300, 300).sum(by...)
	return h.rate(counter, 120, 0).sum(by...).per(before, by...)
}

// asBusy returns the PromQL condition that about as many requests run as five minutes before. A
// worker with fewer requests generates less and is healthy.
func asBusy(by, running string) string {
	return "sum " + by + " (avg_over_time(" + running + "[2m])) >= 0.9 * sum " + by + " (avg_over_time(" + running +
		"[5m] offset 5m)) > 0"
}

// asBusy evaluates the condition of the function asBusy.
func (h *history) asBusy(running string, by ...string) vector {
	now, before := h.average(running, 120, 0).sum(by...), h.average(running, 300, 300).sum(by...)
	return now.per(before, by...).where(func(x float64) bool { return x >= .9 })
}
