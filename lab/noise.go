package lab

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"path"
	"slices"

	dto "github.com/prometheus/client_model/go"
)

// Noise holds the errors of monitoring. They depend on the seed, the target and the moment only, so
// all readers of one moment see the same errors.
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

func (f *Fleet) draw(t Target) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s %.1f", f.cfg.Seed, t.Path, f.now)
	return rand.New(rand.NewPCG(h.Sum64(), 5))
}

// disturb returns a page with the noise of now, or nil if the scrape fails.
func (f *Fleet) disturb(t Target, families []*dto.MetricFamily) []*dto.MetricFamily {
	n := f.cfg.Noise
	if families == nil || n == (Noise{}) {
		return families
	}
	rng := f.draw(t)
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

// hides reports whether a metric is excluded by Config.Only or Config.Without.
func (c *Config) hides(metric string) bool {
	return c.Only != nil && !c.Only(metric) || slices.ContainsFunc(c.Without, func(pattern string) bool {
		ok, err := path.Match(pattern, metric)
		return err == nil && ok
	})
}
