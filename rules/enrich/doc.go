// Package enrich gathers the live context of an incident: what engines, GPUs and Kubernetes say
// now, what they said an hour before the onset, a day and a week ago, which pod belongs to which
// pool, and which engine it runs. What swings with the traffic is compared with what it was at any
// time of the hour before, not with one moment of it.
//
// It promises to answer in time and never to fail: sources are read in parallel under one deadline,
// whatever could not be read is named in the evidence with a reason that a person can act on, and
// what is missing is never a zero. It only reads.
//
// The sources are adapters in packages below: prometheus, engine (direct scrapes of /metrics),
// kubernetes and traces (Tempo or Jaeger). All of them answer for the signals that package rules
// declares, and put a value to an entity by the same rules ([Identify]). Where two sources have the
// same signal of the same entity, the first in this order wins: Prometheus, engines, Kubernetes for
// metrics; what Kubernetes says about which pod is in which pool on which node wins over labels.
// Traces have signals of their own.
package enrich
