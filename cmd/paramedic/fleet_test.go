package main

import (
	"testing"

	"paramedic/rules"
	"paramedic/state"
)

// A hung engine's numbers may all be in bounds: the pool is as bad as what is open on it.
func TestAPoolIsAsBadAsItsOpenIncidents(t *testing.T) {
	on := func(pool string, severity state.Severity, status state.Status, cause state.Cause) state.Incident {
		return state.Incident{Cluster: "prod", Severity: severity, Status: status, Scope: state.Scope{Namespace: "llm", Pool: pool}, Diagnosis: state.Diagnosis{Cause: cause}}
	}
	incidents := []state.Incident{
		on("hung", state.Warning, state.StatusOpen, "engine_hang"), on("hung", state.Critical, state.StatusAcked, "engine_hang"),
		on("slow", state.Warning, state.StatusOpen, state.Unknown),
		on("fine", state.Critical, state.StatusResolved, "gpu_fault"), on("fine", state.Critical, state.StatusOpen, state.BenignAlert), on("", state.Critical, state.StatusOpen, state.Unknown),
	}
	for pool, want := range map[string]rules.HealthStatus{"hung": rules.HealthCritical, "slow": rules.HealthWarning, "fine": rules.HealthUnknown} {
		if got := openTrouble(incidents, rules.PoolHealth{Cluster: "prod", Namespace: "llm", Pool: pool}); got != want {
			t.Errorf("%s: %s, want %s", pool, got, want)
		}
	}
}
