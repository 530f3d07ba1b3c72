package main

import (
	"maps"

	"paramedic/cmd/paramedic/score"
)

// severities maps the lab's severities to other names for them.
var severities = map[string]map[string]string{
	"team": {"critical": "P1", "warning": "P3", "info": "P5"},
	"page": {"critical": "page", "warning": "ticket", "info": "none"},
}

// added holds the labels that a Prometheus or its rules add to every alert.
var added = map[string]map[string]string{
	"team": {"team": "ml-serving", "env": "prod"},
	"page": {"prometheus": "monitoring/k8s", "prometheus_replica": "prometheus-k8s-0", "region": "eu-west-1"},
}

// dresser returns the function that gives an alert's labels the names of the convention. Every
// third Prometheus has no cluster label.
func dresser(c convention, seed uint64) func(labels map[string]string) {
	kind := c["labels"]
	return func(labels map[string]string) {
		if seed%3 != 0 {
			labels["cluster"] = score.Cluster
		}
		if name, ok := severities[kind][labels["severity"]]; ok {
			labels["severity"] = name
		}
		if kind == "bare" {
			delete(labels, "namespace")
			delete(labels, "severity")
		}
		maps.Copy(labels, added[kind])
	}
}
