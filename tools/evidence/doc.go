// Package evidence measures how long it takes to gather the evidence of an incident from a real
// Prometheus of a real fleet's size.
//
// The history that Prometheus holds is the lab's: the pages of a pool of 64 workers, scraped for an
// hour and a quarter of simulated time, and the same under other names until there are 100,000
// series. It is a module of its own because the writer of Prometheus' blocks brings dependencies
// that the product has no use for, as Prometheus itself does, which is built from its own source.
//
// A test proves against the same Prometheus that fresh values have the time of their scrape.
package evidence
