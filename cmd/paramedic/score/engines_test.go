package score

import (
	"testing"
	"time"

	"paramedic/lab"
	"paramedic/lab/engine"
)

// Causes are diagnosed on every engine, even if their evidence comes from other metrics there, or
// is missing.
func TestCoreCausesAreDiagnosedOnEveryEngine(t *testing.T) {
	for kind, faults := range map[engine.Kind][]string{
		engine.SGLang: {lab.KVExhaustion, lab.KVLeak, lab.ConcurrencyCap, lab.PrefillStarvation, lab.PrefixCacheCollapse, lab.EngineHang,
			lab.RetryStorm, lab.GatewayFailure, lab.BadRollout},
		engine.TRTLLM: {lab.KVExhaustion, lab.PrefillStarvation, lab.RoutingSkew, lab.EngineHang, lab.ClientCancellations, lab.ConcurrencyCap,
			lab.BadRollout},
		engine.Dynamo: {lab.KVExhaustion, lab.RoutingSkew, lab.EngineHang, lab.ClientCancellations, lab.GatewayFailure, lab.BadRollout,
			lab.MonitoringGap},
	} {
		for _, fault := range faults {
			t.Run(string(kind)+" "+fault, func(t *testing.T) {
				t.Parallel()
				run, err := newTrialOf(kindFault, fault, 8, Options{Kind: kind})
				if err != nil {
					t.Fatal(err)
				}
				run.enough = time.Minute
				p, err := run.play(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if p.Outcome != "right" || len(p.Misled) > 0 || p.Incidents != 1 || p.ToDiagnosis > 6*time.Minute || len(p.Harmful) > 0 {
					t.Errorf("%s after %s, %d incidents, on the way %v\n%s", p.Outcome, p.ToDiagnosis, p.Incidents, p.Misled, p.trace)
				}
			})
		}
	}
}
