package metrics

import (
	"math"
	"math/rand/v2"

	dto "github.com/prometheus/client_model/go"
)

// Noise holds the errors of monitoring. The zero value makes none.
type Noise struct {
	Missing float64 // share of scrapes that fail
	Gauges  float64 // relative standard deviation of the GPUs' sensors: utilization, power, temperature, clock
}

// sensors lists the gauges that are measured. Others are counted exactly.
var sensors = map[string]bool{
	"DCGM_FI_DEV_GPU_UTIL": true, "DCGM_FI_DEV_MEM_COPY_UTIL": true, "DCGM_FI_DEV_POWER_USAGE": true, "DCGM_FI_DEV_GPU_TEMP": true,
	"DCGM_FI_DEV_MEMORY_TEMP": true, "DCGM_FI_DEV_SM_CLOCK": true, "DCGM_FI_PROF_GR_ENGINE_ACTIVE": true,
	"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": true, "DCGM_FI_PROF_DRAM_ACTIVE": true,
}

// Disturb returns a page with noise drawn from rng, or nil if the scrape fails. It changes the
// families in place. A page that is nil already stays nil.
func (n Noise) Disturb(families []*dto.MetricFamily, rng *rand.Rand) []*dto.MetricFamily {
	if families == nil {
		return nil
	}
	if rng.Float64() < n.Missing {
		return nil
	}
	if n.Gauges == 0 {
		return families
	}
	for _, family := range families {
		if !sensors[family.GetName()] {
			continue
		}
		for _, m := range family.Metric {
			v := max(0, m.Gauge.GetValue()*(1+n.Gauges*rng.NormFloat64()))
			switch family.GetName() {
			case "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_MEM_COPY_UTIL":
				v = min(100, math.Round(v))
			case "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_DRAM_ACTIVE":
				v = min(1, v)
			}
			m.Gauge = &dto.Gauge{Value: &v}
		}
	}
	return families
}
