package score

import (
	"context"

	"paramedic/lab"
	"paramedic/rules/enrich"
	"paramedic/rules/enrich/kubernetes"
	"paramedic/state"
)

// LastWords reads the last log lines of terminated containers in simulated fleets, which a real API
// server keeps in their status. The fleets' pages have everything else that an API server would
// return.
type LastWords func() []*lab.Fleet

// Read implements enrich.Source.
func (fleets LastWords) Read(_ context.Context, q enrich.Query) enrich.Reading {
	var out enrich.Reading
	for _, s := range q.Signals {
		if s.ID != "pod_last_error" {
			continue
		}
		for _, fleet := range fleets() {
			for _, p := range fleet.Pods() {
				if class := kubernetes.LastError(p.LastWords); class != "" {
					out.Samples = append(out.Samples, state.Sample{Signal: s.ID, Value: 1, Text: class, Unit: s.Unit,
						At:     q.Now,
						Entity: state.Entity{Cluster: q.Cluster, Namespace: p.Namespace, Pod: p.Name, Node: p.Node}})
				}
			}
		}
	}
	return out
}

// Ping implements enrich.Source.
func (LastWords) Ping(context.Context) error { return nil }
