package prometheus

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
		for _, scope := range []scopeFilter{{}, {Scope: pool, pods: "pool-.*"}} {
			for _, m := range compile(sig, scope) {
				for _, expr := range m.exprs() {
					if err := promql.ParsePromQL(expr); err != nil {
						out = append(out, fmt.Errorf("signal %s, metric %s: %w", sig.ID, m.source.Metric, err))
					}
				}
			}
		}
	}
	return out
}
