// Package metrics holds what an exporter writes and what a scrape makes of it: histograms and pages
// in Prometheus' format, the labels of relabelling, and the errors of monitoring.
//
// A page is a copy. It does not change while the counters behind it continue.
package metrics
