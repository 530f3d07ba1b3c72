package enrich

import (
	"maps"
	"slices"
	"strings"

	"paramedic/state"
)

// nodeSilent is the signal that silentNodes computes.
const nodeSilent = "node_silent"

// A nodeAnswers holds what answers on a node.
type nodeAnswers struct {
	workers       int
	answers       bool // a worker, an exporter or the kubelet
	gpus, hadGPUs bool // its GPU exporter reports now, or has reported in the last hours
}

// silentNodes adds node_silent for each node whose GPU exporter reported in the last hours: 1 if no
// worker, no exporter and no kubelet on it answers while those of other nodes do, and else 0. A
// worker that crashes leaves the exporter, and an exporter that crashes leaves the workers. Without
// the Kubernetes API this is how a machine that lost its power or its network looks.
func silentNodes(ev *state.Evidence) {
	nodes := map[string]*nodeAnswers{}
	for i := range ev.Samples {
		s := &ev.Samples[i]
		if s.Entity.Node == "" {
			continue
		}
		n := nodes[s.Entity.Node]
		if n == nil {
			n = &nodeAnswers{}
			nodes[s.Entity.Node] = n
		}
		switch {
		case s.Signal == "up":
			n.answers = n.answers || s.Value >= 1
			if s.Entity.Pod != "" {
				n.workers++
			}
		case s.Signal == "gpu_util" || s.Signal == "gpu_temp" || s.Signal == "gpu_fb_used":
			n.gpus = true
		case strings.HasPrefix(s.Signal, "gpu_"):
			n.hadGPUs = true
		}
	}
	elsewhere := func(is func(*nodeAnswers) bool) bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(nodes)), is)
	}
	if !elsewhere(func(n *nodeAnswers) bool { return n.gpus }) ||
		!elsewhere(func(n *nodeAnswers) bool { return n.workers > 0 && n.answers }) {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		n := nodes[name]
		if n.workers == 0 || !n.gpus && !n.hadGPUs {
			continue
		}
		value := 0.0
		if !n.answers && !n.gpus {
			value = 1
		}
		ev.Samples = append(ev.Samples, state.Sample{Signal: nodeSilent, Entity: state.Entity{Node: name}, Value: value, At: ev.At})
	}
}
