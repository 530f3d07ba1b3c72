// Package alerting monitors simulated fleets. It has alert rules, the [Ruler] that scrapes a fleet
// and evaluates them, and the [Alertmanager] that groups alerts and posts version 4 webhooks. A
// [World] runs all of it for the fleets of one cluster.
//
// Each rule exists twice: as PromQL for a real Prometheus and as Go for the Ruler. A test compares
// the two with Prometheus's own engine.
package alerting
