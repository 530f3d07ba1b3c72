package query

import (
	"fmt"

	"paramedic/rules/promql"
	"paramedic/rules/signals"
	"paramedic/state"
)

// Check compiles every signal as a gathering does, for a whole cluster and for one pool. It returns
// an error for each expression that is not valid PromQL.
func Check(declared []signals.Signal) []error {
	var out []error
	pool := state.Scope{Namespace: `llm"\`, Pool: "pool", Model: "model"}
	for _, sig := range declared {
		for _, filter := range []Filter{{}, {of: pool, pods: "pool-.*"}} {
			for _, m := range Compile(sig, filter) {
				for _, expr := range m.exprs() {
					if err := promql.ParsePromQL(expr); err != nil {
						out = append(out, fmt.Errorf("signal %s, metric %s: %w", sig.ID, m.Source.Metric, err))
					}
				}
			}
		}
	}
	return out
}
