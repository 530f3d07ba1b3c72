// Package enrich gathers the evidence on an incident: current values of engines, GPUs and
// Kubernetes, and their values an hour before the onset, a day and a week ago. It also finds which
// pod belongs to which pool, and which engine it runs. A signal that follows the traffic is
// compared with the whole hour before, not with one moment.
//
// A gathering always returns in time, and never fails. It reads the sources in parallel, with one
// deadline. If a source cannot be read, the evidence lists the missing signals, each with a reason
// that an engineer can act on. A missing value is never a zero. The package only reads.
//
// The sources are the packages below: prometheus, engine (scrapes /metrics directly), kubernetes,
// and traces (Tempo or Jaeger). All of them read the signals that the catalogue declares, and use
// [Identify] to find the entity of a series. If two sources have the same signal of the same
// entity, the first of these wins: Prometheus, engines, Kubernetes. For the placement of pods in
// pools and on nodes, Kubernetes wins over labels. Traces have signals of their own.
package enrich
