package remediate_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"paramedic/remediate/cluster"
	"paramedic/remediate/policy"
	"paramedic/state"
)

// blip is a reader that fails while it is down.
type blip struct {
	cluster.Cluster
	down *bool
}

func (b blip) Workload(ctx context.Context, ref cluster.Ref) (cluster.Workload, error) {
	if *b.down {
		return cluster.Workload{}, errLost
	}
	return b.Cluster.Workload(ctx, ref)
}

func TestSecondBlipEndsNoRollback(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	w.cluster.StartDelay = 15 * time.Minute
	w.sick = harmed
	down := false
	w.cfg.Clusters["prod"] = blip{w.cluster, &down}
	w.plan()
	w.approve(sre)
	w.until(state.RollbackIntent)
	down = true
	w.step()
	down = false
	began := w.clock.now
	for w.clock.now.Sub(began) < 12*time.Minute {
		if a := w.step(); a.State != state.RollbackIntent {
			t.Fatalf("%s: %s", a.State, a.Reason)
		}
	}
	down = true
	if a := w.step(); a.State != state.RollbackIntent {
		t.Errorf("one read failed: %s: %s", a.State, a.Reason)
	}
	down = false
	w.until(state.RolledBack)
}

func TestRollbackThatFailsForLongNeedsHuman(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	w.sick = harmed
	w.plan()
	w.approve(sre)
	w.until(state.RollbackIntent)
	w.cluster.Before = func(string, string) error { return errors.New("etcdserver: request timed out") }
	began := w.clock.now
	w.until(state.NeedsHuman)
	if took := w.clock.now.Sub(began); took < 10*time.Minute || took > 13*time.Minute {
		t.Errorf("given up after %s", took)
	}
}
