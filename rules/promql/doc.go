// Package promql finds the metrics that a PromQL expression uses, and how it uses them: within
// which functions, compared with which bounds, and under which names. It also maps the names that
// Ray gives to vLLM's metrics back to vLLM's own.
package promql
