package main

import (
	"slices"

	"paramedic/lab"
	"paramedic/lab/engine"
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
	lab.MonitoringGap:       {"kubernetes", "gpu", "gateway"},
}

// ofStories overrides the witnesses of single stories. Without an exit, no other worker and no log
// tells of a GPU whose driver waits. A policy that hides the workers hides their gateway, too.
var ofStories = map[string][]string{"gpu_fault/silent-firmware": {"gpu"}, "monitoring_gap/network-policy": {"kubernetes", "gpu"}}

// hasWitness reports whether the fleet of a run measures what distinguishes the true cause.
func (r *result) hasWitness() bool {
	of := witnesses[r.truth()]
	if story, ok := ofStories[r.Told]; ok {
		of = story
	}
	return len(of) == 0 || slices.ContainsFunc(of, r.isWitness)
}

// isWitness reports whether an exporter is there and its series can be matched with what they are
// about.
func (r *result) isWitness(d string) bool {
	c := r.Convention
	v, vanished := c[d], r.truth() == lab.MonitoringGap
	switch {
	case v == "none":
		return false
	case d == "kubernetes":
		return true
	case vanished && (v == "unmapped" || c["target"] == "address"):
		// Its target must name a worker that is not scraped, and so must the other exporter.
		return false
	case d == "gateway": // the bot reads no page of a proxy by itself
		return v == "picker" || c["source"] == "promql" || c["engine"] == string(engine.Dynamo)
	}
	return true
}
