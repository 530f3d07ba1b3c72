package prometheus

import (
	"context"

	"paramedic/rules/enrich"
	"paramedic/rules/enrich/prometheus/query"
	"paramedic/rules/topology"
	"paramedic/state"
)

// maxAbout limits the series of the expressions of an incident's alerts. More series are those of a
// whole cluster, and place nothing.
const maxAbout = 500

// about returns the entities of the series that the query's alerts are about, as of the onset. It
// sends one query of its own: people write these expressions, and one that the server refuses must
// not cost other evidence. Without an answer the alerts have no place, as before.
func (c *Client) about(ctx context.Context, q enrich.Query) []state.Entity {
	if len(q.Series) == 0 || q.Fresh {
		return nil
	}
	got := c.ask(ctx, plannedQuery{union: query.Placed(q.Series), at: q.Onset})
	if got.err != nil || len(got.series) > maxAbout {
		return nil
	}
	var out []state.Entity
	for _, s := range got.series {
		out = append(out, topology.EntityOf(state.Alert{Labels: s.labels}, q.Cluster, topology.Source{})) // as if an alert had them
	}
	return out
}
