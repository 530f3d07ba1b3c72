// Package scrape serves the pages of fleets over HTTP, as engines and exporters do, and lists them
// for the service discovery of a real Prometheus.
//
// A direct scrape has no relabelling, so a page alone does not identify its pod. [Handler] can add
// the labels of a scrape configuration. As in Prometheus, a label of the page with the same name
// becomes exported_<name>, unless the target's job honors labels.
package scrape
