package demo

import (
	"context"

	"paramedic/cmd/paramedic/score"
	"paramedic/lab"
	"paramedic/rules/enrich"
	"paramedic/state"
)

// An apiServer stands in for the API server that the bot reads: the pool's pods with their UIDs,
// and the last log lines of terminated containers. First aid refuses a pod that no API server
// lists.
type apiServer struct {
	score.LastWords
	fleet *lab.Fleet
}

func newAPIServer(fleet *lab.Fleet) apiServer {
	return apiServer{func() []*lab.Fleet { return []*lab.Fleet{fleet} }, fleet}
}

// Read implements enrich.Source.
func (s apiServer) Read(ctx context.Context, q enrich.Query) enrich.Reading {
	out := s.LastWords.Read(ctx, q)
	pool := s.fleet.Deployment()
	for _, p := range s.fleet.Pods() {
		out.Workers = append(out.Workers, state.Worker{Namespace: p.Namespace, Pod: p.Name, UID: p.UID,
			Pool: pool.Name, PoolKind: "Deployment", Node: p.Node, Ready: p.Ready})
	}
	return out
}
