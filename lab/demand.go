package lab

import (
	"time"

	"paramedic/lab/traffic"
)

// The faults in the clients' requests, cancellations and retries.
const (
	TrafficSurge        = "traffic_surge"
	RetryStorm          = "retry_storm"
	LongContextBurst    = "long_context_burst"
	DecodeSaturation    = "decode_saturation"
	ClientCancellations = "client_cancellations"
)

var demandFaults = []string{TrafficSurge, RetryStorm, LongContextBurst, DecodeSaturation, ClientCancellations}

// shapeDemand changes the traffic if the fault is one of demandFaults.
func (a *activeFault) shapeDemand(w *traffic.Workload, level float64) {
	switch a.Name {
	case TrafficSurge:
		w.Rate *= 1 + 3.4*level
	case RetryStorm:
		if level > 0 {
			w.Timeout = min(w.Timeout, 14*time.Second)
			w.Retries = max(w.Retries, int(9*level))
		}
	case LongContextBurst:
		w.LongShare = min(1, 0.16*level)
		w.Long = traffic.Lengths{Mean: 24000, Sigma: 0.05}
	case DecodeSaturation:
		w.Output.Mean *= 1 + 4.5*level
	case ClientCancellations:
		w.CancelShare = min(1, w.CancelShare+0.85*level)
	}
}
