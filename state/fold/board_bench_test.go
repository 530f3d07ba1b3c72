package fold

import (
	"fmt"
	"testing"
	"time"

	"paramedic/state"
)

// plainTriage does the least that a fold needs, so that a benchmark measures the fold. Each pool is
// an incident.
type plainTriage struct{}

func (plainTriage) Classify(a state.Alert, cluster string) state.Sign {
	return state.Sign{Symptom: "slow", Severity: state.Critical, Entity: state.Entity{Cluster: cluster, Namespace: "llm",
		Pool: a.Labels["pool"], Pod: a.Labels["pod"]}}
}

func (plainTriage) Correlate(s state.Sign, _ []state.Worker, open []*state.Incident, _ time.Time) (state.IncidentID, bool) {
	for _, in := range open {
		if in.Scope.Pool == s.Entity.Pool {
			return in.ID, true
		}
	}
	return "", false
}

func (plainTriage) Diagnose(*state.Incident, *state.Evidence, time.Time) state.Diagnosis {
	return state.Diagnosis{}
}
func (plainTriage) Absorbs(*state.Incident, *state.Incident) bool { return false }
func (plainTriage) SplitOff(*state.Incident, func() []*state.AlertRecord, *state.Evidence) []*state.AlertRecord {
	return nil
}
func (plainTriage) Channels(*state.Incident) []state.Channel {
	return []state.Channel{state.ChannelConsole}
}

// benchBoard returns a board with active alerts, perIncident of them about each pool.
func benchBoard(tb testing.TB, active, perIncident int) (fire func(), b *Board) {
	b = NewBoard()
	f := &Fold{Triage: plainTriage{}, Routing: plainTriage{}, Settings: state.DefaultSettings()}
	now, n := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC), 0
	fire = func() {
		pool := fmt.Sprintf("vllm-p%d", n/perIncident)
		a := state.Alert{Fingerprint: state.Fingerprint(fmt.Sprintf("%016x", n)), Status: state.Firing, StartsAt: now,
			Labels: map[string]string{"alertname": "Slow", "pool": pool, "pod": fmt.Sprintf("%s-%05d", pool, n%perIncident)}}
		n++
		now = now.Add(time.Millisecond)
		f.Apply(b, state.Input{Seq: uint64(n), At: now, Cluster: "default", Alerts: &state.AlertBatch{Alerts: []state.Alert{a}}})
		if _, _, err := b.Take(); err != nil {
			tb.Fatal(err)
		}
	}
	for range active {
		fire()
	}
	return fire, b
}

// BenchmarkFold measures one new alert in the fold and the board, without rules.
func BenchmarkFold(b *testing.B) {
	for _, active := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprintf("active=%d", active), func(b *testing.B) {
			fire, _ := benchBoard(b, active, 64)
			b.ReportAllocs()
			for b.Loop() {
				fire()
			}
		})
	}
}

// BenchmarkVanished measures an answer of Alertmanager that lacks ten alerts, beside many active
// ones. The ten were reported since, so that they stay active.
func BenchmarkVanished(b *testing.B) {
	for _, active := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("active=%d", active), func(b *testing.B) {
			fire, board := benchBoard(b, active, 64)
			f := &Fold{Triage: plainTriage{}, Routing: plainTriage{}, Settings: state.DefaultSettings()}
			v := state.Vanished{At: time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)}
			for n := range 10 {
				v.Fingerprints = append(v.Fingerprints, state.Fingerprint(fmt.Sprintf("%016x", n)))
			}
			fire()
			for b.Loop() {
				f.Apply(board, state.Input{At: v.At, Cluster: "default", Vanished: &v})
			}
		})
	}
}

// BenchmarkLoadBoard measures a start: the records of 10,000 alerts become a board again.
func BenchmarkLoadBoard(b *testing.B) {
	const active = 10_000
	_, board := benchBoard(b, active, 64)
	for a := range board.alerts.All() {
		board.touch(kindAlert, string(a.Fingerprint()))
	}
	for id := range board.incidents {
		board.touch(kindIncident, string(id))
	}
	for id := range board.effects {
		board.touch(kindEffect, string(id))
	}
	records, _, err := board.Take()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		loadBoard(b, records)
	}
}
