// Package evidence measures the time to gather an incident's evidence from a real Prometheus with a
// large fleet.
//
// The lab makes the history: the pages of a pool of 64 workers, scraped for 75 simulated minutes,
// and copies under other names up to 100,000 series. It is a module of its own, because Prometheus
// and its block writer have dependencies that the product does not need. Prometheus is built from
// source.
//
// A test checks against the same Prometheus that fresh values carry the time of their scrape.
package evidence
