package main

import (
	"slices"

	"paramedic/lab"
)

// witnesses names for a cause the dimensions whose exporter measures what distinguishes it. One of
// them is enough. Without any, unknown is the best verdict.
var witnesses = map[string][]string{
	lab.OOMKilled:           {"kubernetes"},
	lab.HostMemoryLeak:      {"kubernetes"},
	lab.CUDAOOM:             {"kubernetes"},
	lab.BadRollout:          {"kubernetes"},
	lab.ColdStart:           {"kubernetes"},
	lab.ModelLoadFailure:    {"kubernetes"},
	lab.NodeFailure:         {"kubernetes"},
	lab.GPUThrottle:         {"gpu"},
	lab.GPUMemoryLeak:       {"gpu"},
	lab.GPUFault:            {"gpu", "kubernetes"},
	lab.GPUUnderutilization: {"gpu", "kubernetes"},
	lab.GatewayFailure:      {"gateway"},
}

// ofStories overrides the witnesses of single stories. Without an exit, no other worker and no log
// tells of a GPU whose driver waits.
var ofStories = map[string][]string{"gpu_fault/silent-firmware": {"gpu"}}

// hasWitness reports whether the fleet of a run measures what distinguishes the true cause. The bot
// reads no page of a proxy by itself.
func (r *result) hasWitness() bool {
	of := witnesses[r.truth()]
	if story, ok := ofStories[r.Told]; ok {
		of = story
	}
	return len(of) == 0 || slices.ContainsFunc(of, func(d string) bool {
		v := r.Convention[d]
		return v != "none" && (d != "gateway" || v == "picker" || r.Convention["source"] == "promql" ||
			r.Convention["engine"] == string(lab.Dynamo))
	})
}
