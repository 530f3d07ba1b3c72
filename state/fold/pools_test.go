package fold

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/state/statetest"
)

// sharedTriage merges incidents of a cause that pools share, as the rules do.
type sharedTriage struct{ statetest.Triage }

func (sharedTriage) Absorbs(a, b *state.Incident) bool {
	return a.ID != b.ID && a.Cluster == b.Cluster && a.Cause() == b.Cause() && a.Cause().IsShared() &&
		b.StartedAt.Sub(a.StartedAt).Abs() <= 15*time.Minute && cmp.Or(a.OpenedAt.Compare(b.OpenedAt), cmp.Compare(a.ID, b.ID)) < 0
}

// newGateway returns a story in which a gateway fails for the pool a, and its incident.
func newGateway(t *testing.T) (*story, *state.Incident) {
	s := newStory(t)
	s.fold.Triage = sharedTriage{}
	a := s.diagnosed("A", "x", "a", "gateway_failure")
	s.wait(time.Minute)
	return s, a
}

func expectPools(t *testing.T, in *state.Incident, want ...string) {
	t.Helper()
	if got := in.PoolNames(); !slices.Equal(got, want) || in.Place().Pool != "" {
		t.Errorf("%s shows in %v, want %v; it is at %+v", in.ID, got, want, in.Place())
	}
}

func TestOlderIncidentTakesAllPools(t *testing.T) {
	s := newStory(t)
	s.fold.Triage = sharedTriage{}
	s.alert(state.Firing, "D", "x", "critical", "d") // its verdict comes last
	d := s.onlyIncident()
	s.wait(time.Minute)
	s.diagnosed("A", "x", "a", "gateway_failure")
	s.diagnosed("B", "x", "b", "gateway_failure")
	s.evidence(d, "gateway_failure")
	expectPools(t, d, "llm/a", "llm/b", "llm/d")
}

// The end of a silence is news: people have silenced one pool.
func TestAnotherPoolEndsASilence(t *testing.T) {
	s, a := newGateway(t)
	s.silence(a)
	s.diagnosed("B", "x", "b", "gateway_failure")
	expectPools(t, a, "llm/a", "llm/b")
	if !a.SilencedUntil.IsZero() {
		t.Errorf("silenced until %v", a.SilencedUntil)
	}
}

func TestSharedCauseStaysForOtherPools(t *testing.T) {
	s, a := newGateway(t)
	s.diagnosed("B", "x", "b", "gateway_failure")
	s.evidence(a, "kv_exhaustion")
	expectPools(t, a, "llm/a", "llm/b")
	if a.Cause() != state.GatewayFailure {
		t.Errorf("the verdict is %s by the evidence of one pool", a.Cause())
	}
}

func TestFlappingGatewayIsOneIncident(t *testing.T) {
	s, a := newGateway(t)
	s.diagnosed("B", "x", "b", "gateway_failure")
	s.wait(20 * time.Minute)
	for name, pool := range map[string]string{"A": "a", "B": "b"} {
		s.alert(state.Resolved, name, "x", "critical", pool)
	}
	s.wait(s.fold.Settings.ResolveHold + time.Minute)
	if a.Open() {
		t.Fatal("still open")
	}
	for _, pool := range []string{"b", "a"} {
		s.alert(state.Firing, "Again", "x", "critical", pool)
		for _, in := range s.board.incidents {
			if in.Open() && in.DiagnosedAt.IsZero() {
				s.evidence(in, "gateway_failure")
			}
		}
	}
	open := 0
	for _, in := range s.board.incidents {
		if in.Open() {
			open++
		}
	}
	if open != 1 || !a.Open() {
		t.Errorf("%d open incidents, the first one is %s", open, a.Status)
	}
}

// Pools stay known after the record of a merged incident was erased.
func TestPoolsOutliveRetention(t *testing.T) {
	s, a := newGateway(t)
	b := s.diagnosed("B", "x", "b", "gateway_failure")
	s.fold.Settings.StaleAfter, s.fold.Settings.Retain = 0, time.Hour
	s.alert(state.Resolved, "B", "x", "critical", "b")
	for range 10 {
		s.wait(time.Hour)
		s.alert(state.Firing, "A", "x", "critical", "a")
	}
	s.evidence(a, "gateway_failure")
	expectPools(t, a, "llm/a", "llm/b")
	if s.board.incidents[b.ID] != nil {
		t.Log("the merged incident is still stored")
	}
}

func TestOtherClustersHideNoPool(t *testing.T) {
	s := newStory(t)
	s.fold.Triage = sharedTriage{}
	fire := func(cluster, pool string) *state.Incident {
		s.now = s.now.Add(time.Second)
		a := s.newAlert(state.Firing, "A"+cluster, "x", "critical", pool)
		s.apply(state.Input{Cluster: cluster, Alerts: &state.AlertBatch{Alerts: []state.Alert{a}}})
		for _, in := range s.board.incidents {
			if in.Cluster == cluster && in.Scope.Pool == pool {
				s.apply(state.Input{Cluster: cluster, Evidence: &state.Evidence{Incident: in.ID, At: s.now,
					Samples: []state.Sample{{Signal: "verdict", Text: "gateway_failure"}}}})
				return in
			}
		}
		return nil
	}
	a := fire("prod", "a")
	for i := range 64 {
		fire(fmt.Sprint("cluster-", i), fmt.Sprint("pool-", i))
	}
	fire("prod", "b")
	expectPools(t, a, "llm/a", "llm/b")
}

// Without a verdict nothing is known to be broken, so the alerts' pool stays.
func TestUnknownNamesItsPool(t *testing.T) {
	s := newStory(t)
	in := &state.Incident{Cluster: "prod", Scope: state.Scope{Cluster: "prod", Namespace: "llm", Pool: "a", Nodes: []string{"n1"}},
		Diagnosis: state.Diagnosis{Cause: state.Unknown, Scope: state.Scope{Nodes: []string{"n1"}}}, Symptoms: []state.SymptomCount{{}}}
	for _, pool := range []string{"a", "b"} {
		w := state.Worker{Namespace: "llm", Pod: pool + "-0", Pool: pool, Node: "n1"}
		s.board.putWorker(&workerRecord{Cluster: "prod", At: s.now, Worker: w})
		in.Symptoms[0].Entities = append(in.Symptoms[0].Entities, state.Entity{Cluster: "prod", Namespace: "llm", Pod: w.Pod})
	}
	if pools := s.board.poolsOf(in, nil); pools != nil {
		t.Errorf("pools %v", pools)
	}
	if in.Diagnosis.Cause = "node_failure"; len(s.board.poolsOf(in, nil)) != 2 {
		t.Error("a broken node of two pools names one")
	}
}
