package prometheus

import (
	"fmt"

	"paramedic/rules"
	"paramedic/state"
)

// Check compiles every signal as a gathering would, for a whole cluster and for one pool, and gives
// what is not valid PromQL.
func Check(signals []rules.Signal) []error {
	var out []error
	for _, sig := range signals {
		for _, scope := range []narrow{{}, {Scope: state.Scope{Namespace: `llm"\`, Pool: "pool", Model: "model"}, pods: "pool-.*"}} {
			for _, m := range compile(sig, scope) {
				for _, expr := range m.exprs() {
					if err := rules.ParsePromQL(expr); err != nil {
						out = append(out, fmt.Errorf("signal %s, metric %s: %w", sig.ID, m.source.Metric, err))
					}
				}
			}
		}
	}
	return out
}
