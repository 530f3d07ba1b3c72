package engine

import (
	"time"

	"paramedic/lab/metrics"
)

// A Process holds what a page tells of an engine's process besides the engine's own counters.
type Process struct {
	Model   string    // the served name
	PID     int       // of SGLang's scheduler
	Started time.Time // the process
	Loaded  time.Time // the model
	Uptime  float64   // seconds since Started
	RSS     float64   // bytes of the API server's process
}

// created returns the value of the Python client's _created gauges.
func (p Process) created() float64 { return float64(p.Loaded.UnixMilli()) / 1000 }

// Page returns the engine's /metrics without the metrics that hides selects.
func (e *Engine) Page(of Process, hides func(metric string) bool) *metrics.Page {
	p := metrics.NewPage(hides)
	switch e.kind {
	case SGLang:
		e.sglangPage(p, of)
	case TRTLLM:
		e.trtllmPage(p, of)
	default:
		e.vllmPage(p, of)
	}
	return p
}
