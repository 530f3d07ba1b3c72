package fold

import (
	"slices"
	"testing"
	"time"

	"paramedic/state"
)

// drawn returns a gathering with one pod's cache usage of each minute from one time to another.
func drawn(pod string, from, to time.Time) *state.Evidence {
	s := state.Sample{Signal: "kv_usage", Unit: "ratio", Entity: state.Entity{Namespace: "llm", Pool: "vllm", Pod: pod}, At: to, Value: 0.4}
	for at := from; !at.After(to); at = at.Add(time.Minute) {
		s.Series = append(s.Series, state.Point{At: at, Value: 0.4})
	}
	return &state.Evidence{At: to, Samples: []state.Sample{s}}
}

func TestResolvedIncidentKeepsOnlyCurves(t *testing.T) {
	onset := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	after := func(minutes int) time.Time { return onset.Add(time.Duration(minutes) * time.Minute) }
	b := NewBoard()
	f := &Fold{Triage: plainTriage{}, Routing: plainTriage{}, Settings: state.DefaultSettings()}
	alert := func(seq uint64, at time.Time, status state.AlertStatus) {
		f.Apply(b, state.Input{Seq: seq, At: at, Cluster: "default",
			Alerts: &state.AlertBatch{Alerts: []state.Alert{{Fingerprint: "f", Status: status, StartsAt: onset,
				Labels: map[string]string{"alertname": "Slow", "pool": "vllm"}}}}})
	}
	alert(1, onset, state.Firing)
	id := b.Incidents()[0].ID
	for i, ev := range []*state.Evidence{drawn("old-a", after(-60), after(5)), drawn("new-a", after(10), after(20))} {
		ev.Incident = id
		f.Apply(b, state.Input{Seq: uint64(2 + i), At: ev.At, Cluster: "default", Evidence: ev})
	}
	alert(4, after(21), state.Resolved)
	f.Apply(b, state.Input{Seq: 5, At: after(30), Cluster: "default"})
	ev := b.evidence[id]
	if b.incidents[id].Open() || len(ev.Samples) != 1 || ev.Samples[0].Series != nil || ev.Samples[0].Value != 0.4 {
		t.Fatalf("status %s, samples %+v", b.incidents[id].Status, ev.Samples)
	}
	for _, pod := range []string{"old-a", "new-a"} {
		if !slices.ContainsFunc(ev.Curves, func(c state.Curve) bool { return c.Entity.Pod == pod && len(c.Points()) > 5 }) {
			t.Errorf("%s is not drawn any more", pod)
		}
	}
}
