package prometheus

import (
	"context"
	"slices"
	"time"

	"paramedic/rules/enrich"
	"paramedic/rules/enrich/prometheus/query"
	"paramedic/rules/signals"
	"paramedic/state"
)

// discover queries the engines, and the start of their samples if a signal is compared with the
// past. It reports whether the answer was complete. If the server refuses the query, it asks again
// for what it needs most: which engines there are.
func (c *Client) discover(ctx context.Context, q enrich.Query, out *enrich.Reading) (query.Discovery, bool) {
	search := query.Search{Scope: q.Scope, Running: q.Running, Jobs: q.Jobs, Onset: q.Onset, Now: q.Now}
	if comparing(q) {
		// Long enough to recognize engines that existed an hour before the onset, at the usual
		// scrape intervals.
		search.Past = time.Hour + beginning + 2*time.Minute
	}
	union := search.Union()
	if union.Text() == "" {
		return query.Discovery{}, true
	}
	got := c.ask(ctx, plannedQuery{union: union, at: q.Now})
	if got.err != nil && search.Past > 0 {
		out.Notes = append(out.Notes, state.Missing{Signal: string(baseline),
			Reason: "reading the oldest sample: " + enrich.Explain("Prometheus", got.err)})
		search.Past = 0
		again := c.ask(ctx, plannedQuery{union: search.Union(), at: q.Now})
		return search.Read(again.values()), false
	}
	return search.Read(got.values()), got.err == nil && !got.partial
}

// comparing reports whether a query includes signals that are compared with the past.
func comparing(q enrich.Query) bool {
	return !q.Fresh && slices.ContainsFunc(q.Signals, signals.Signal.Compared)
}
