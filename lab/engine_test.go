package lab

import (
	"testing"
	"time"

	"paramedic/lab/metrics/metricstest"
)

func TestHungEngineLooksAlive(t *testing.T) {
	f := broken(t, Config{Seed: 7}, Fault{Name: EngineHang}, 13*time.Minute)
	a := f.Pods()[1]
	f.Advance(f.Start().Add(14 * time.Minute))
	b := f.Pods()[1]
	if !b.Ready || b.Running == 0 || a.GeneratedTokens != b.GeneratedTokens {
		t.Errorf("%+v then %+v", a, b)
	}
	gpu := func(name string) float64 { return metricstest.Sum(pages(f, "dcgm"), name, "UUID", b.GPUs[0]) }
	util, power, tensor := gpu("DCGM_FI_DEV_GPU_UTIL"), gpu("DCGM_FI_DEV_POWER_USAGE"), gpu("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE")
	if util < 95 || power > 250 || tensor > 0.05 {
		t.Errorf("its GPU: util %.0f, power %.0f W, tensor %.2f", util, power, tensor)
	}
}

func TestMemoryIsReservedHealthyOrNot(t *testing.T) {
	f := newFleet(t, Config{Seed: 1})
	for _, uuid := range f.Nodes()[0].GPUs {
		used := metricstest.Sum(pages(f, "dcgm"), "DCGM_FI_DEV_FB_USED", "UUID", uuid)
		free := metricstest.Sum(pages(f, "dcgm"), "DCGM_FI_DEV_FB_FREE", "UUID", uuid)
		if r := used / (used + free); r < 0.92 || r > 0.95 {
			t.Errorf("FB_USED is %.3f of the memory", r)
		}
	}
}
