package machine

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"paramedic/lab/metrics"
)

// xidText holds the exporter's text for each code. Xid 154 has one text for all recovery actions.
var xidText = map[int]string{0: "No Error", 13: "Graphics Engine Exception", 31: "GPU memory page fault", 43: "GPU stopped processing",
	45: "Preemptive cleanup, due to previous errors -- Most likely to see when running multiple cuda", 48: "Double Bit ECC Error",
	63: "ECC page retirement or row remapping recording event", 64: "ECC page retirement or row remapper recording failure",
	74: "NVLINK Error",
	79: "GPU has fallen off the bus", 92: "High single-bit ECC error rate", 94: "Contained ECC error", 95: "Uncontained ECC error",
	119: "GSP RPC Timeout",
	120: "GSP Error", 154: "GPU Recovery Action Changed"}

// DCGM describes the GPU exporter's version and counters. The zero value is an old version with the
// DCGM_EXP_* counters on; {Labels: true, Uncounted: true} is a new version with its defaults.
type DCGM struct {
	Labels    bool // err_code and err_msg on the gauge of the last Xid, so that a new code is a new series
	Uncounted bool // no DCGM_EXP_* counters, the exporter's default
}

// Fill adds dcgm-exporter's samples of a node at a time since the fleet's start: the default
// counters, and the DCGM_EXP_* counters unless they are off. A GPU's owner runs in the container of
// the namespace.
func (d DCGM) Fill(p *metrics.Page, n *Node, namespace, container string, now float64) {
	for _, g := range n.GPUs {
		labels := []string{
			"gpu", strconv.Itoa(g.index), "UUID", g.UUID, "pci_bus_id", fmt.Sprintf("00000000:%02X:00.0", 0x18+g.index*0x11), "device",
			fmt.Sprintf("nvidia%d", g.index),
			"modelName", "NVIDIA H100 80GB HBM3", "Hostname", n.Name,
		}
		if g.Owner != nil {
			labels = append(labels, "pod", g.Owner.Name(), "namespace", namespace, "container", container)
		}
		gauge := func(name, help string, v float64, more ...string) {
			p.Gauge(name, help, v, append(append([]string{}, labels...), more...)...)
		}
		used := float64(int(g.usedMiB()))
		gauge("DCGM_FI_DEV_SM_CLOCK", "SM clock frequency (in MHz).", g.clock)
		gauge("DCGM_FI_DEV_MEM_CLOCK", "Memory clock frequency (in MHz).", 2619)
		gauge("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", float64(int(g.temp)))
		gauge("DCGM_FI_DEV_MEMORY_TEMP", "Memory temperature (in C).", float64(int(g.temp+6)))
		gauge("DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", g.power)
		p.Counter("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "Total energy consumption since boot (in mJ).", float64(int64(g.energy)),
			labels...)
		gauge("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", float64(int(g.util+0.5)))
		gauge("DCGM_FI_DEV_MEM_COPY_UTIL", "Memory utilization (in %).", float64(int(g.dram*100)))
		var code []string
		if d.Labels {
			text := xidText[g.xid]
			if text == "" {
				text = "Unknown Error"
			}
			code = []string{"err_code", strconv.Itoa(g.xid), "err_msg", text}
		}
		gauge("DCGM_FI_DEV_XID_ERRORS", "Value of the last XID error encountered.", float64(g.xid), code...)
		counted := g.counted(now)
		for _, code := range slices.Sorted(maps.Keys(counted)) {
			if !d.Uncounted {
				gauge("DCGM_EXP_XID_ERRORS_COUNT", "Count of XID Errors within user-specified time window (see xid-count-window-size "+
					"param).", counted[code], "xid", strconv.Itoa(code), "window_size_in_ms", "300000")
			}
		}
		if n := len(g.slowed); n > 0 && !d.Uncounted {
			events := []string{"hw_slowdown", "hw_thermal"} // the driver raises the one with the other
			if g.Brake {
				events[1] = "hw_power_brake"
			}
			for _, event := range events {
				gauge("DCGM_EXP_CLOCK_EVENTS_COUNT", "Count of clock events within the user-specified time window (see "+
					"clock-events-count-window-size param).", float64(n), "clock_event", event, "window_size_in_ms", "300000")
			}
		}
		gauge("DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB).", memoryMiB-used)
		gauge("DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).", used)
		gauge("DCGM_FI_DEV_FB_RESERVED", "Framebuffer memory reserved (in MiB).", 551)
		p.Counter("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "Number of remapped rows for uncorrectable errors", 0, labels...)
		p.Counter("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "Number of remapped rows for correctable errors", 0, labels...)
		gauge("DCGM_FI_DEV_ROW_REMAP_FAILURE", "Whether remapping of rows has failed", metrics.Bool(g.xid == 64))
		gauge("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "Ratio of time the graphics engine is active.", g.util/100)
		gauge("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "Ratio of cycles the tensor (HMMA) pipe is active.", g.tensor)
		gauge("DCGM_FI_PROF_DRAM_ACTIVE", "Ratio of cycles the device memory interface is active sending or receiving data.", g.dram)
	}
}
