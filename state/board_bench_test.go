package state

import (
	"fmt"
	"testing"
	"time"
)

// plainTriage is the least that a fold needs, so that what is measured is the fold's own: an
// incident for each pool.
type plainTriage struct{}

func (plainTriage) Classify(a Alert, cluster string) Sign {
	return Sign{Symptom: "slow", Severity: Critical, Entity: Entity{Cluster: cluster, Namespace: "llm", Pool: a.Labels["pool"], Pod: a.Labels["pod"]}}
}

func (plainTriage) Correlate(s Sign, _ []Worker, open []*Incident, _ time.Time) (IncidentID, bool) {
	for _, in := range open {
		if in.Scope.Pool == s.Entity.Pool {
			return in.ID, true
		}
	}
	return "", false
}

func (plainTriage) Diagnose(*Incident, *Evidence, time.Time) Diagnosis        { return Diagnosis{} }
func (plainTriage) Absorbs(*Incident, *Incident) bool                         { return false }
func (plainTriage) Aside(*Incident, []*AlertRecord, *Evidence) []*AlertRecord { return nil }
func (plainTriage) Channels(*Incident) []Channel                              { return []Channel{ChannelConsole} }

// benchBoard is a board with so many active alerts, perIncident of them about each pool.
func benchBoard(tb testing.TB, active, perIncident int) (fire func(), b *Board) {
	b = NewBoard()
	f := &Fold{Triage: plainTriage{}, Routing: plainTriage{}, Settings: DefaultSettings()}
	now, n := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC), 0
	fire = func() {
		pool := fmt.Sprintf("vllm-p%d", n/perIncident)
		a := Alert{Fingerprint: Fingerprint(fmt.Sprintf("%016x", n)), Status: Firing, StartsAt: now,
			Labels: map[string]string{"alertname": "Slow", "pool": pool, "pod": fmt.Sprintf("%s-%05d", pool, n%perIncident)}}
		n++
		now = now.Add(time.Millisecond)
		f.Apply(b, Input{Seq: uint64(n), At: now, Cluster: "default", Alerts: &AlertBatch{Alerts: []Alert{a}}})
		if _, _, err := b.Take(); err != nil {
			tb.Fatal(err)
		}
	}
	for range active {
		fire()
	}
	return fire, b
}

// BenchmarkFold is what one new alert costs the fold and the board, without rules.
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

// BenchmarkLoadBoard is what a start costs in memory: the records of so many alerts become a board
// again.
func BenchmarkLoadBoard(b *testing.B) {
	const active = 10_000
	_, board := benchBoard(b, active, 64)
	for fp := range board.alerts {
		board.touch(kindAlert, string(fp))
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

// BenchmarkKeeperReads is what the outbox and the pages ask of the keeper, by open incidents. Take
// gives out an effect and takes it back; it must not cost more with more effects that are due.
func BenchmarkKeeperReads(b *testing.B) {
	for _, incidents := range []int{100, 1_000, 25_000} {
		_, board := benchBoard(b, incidents*2, 2)
		k := &Keeper{parts: []*partition{partitionOf(0, board)}, agenda: newAgenda(), subs: map[chan Entry]bool{}}
		k.agenda.load(0, allMoves(board))
		late := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC) // everything is due
		b.Run(fmt.Sprintf("Take/incidents=%d", incidents), func(b *testing.B) {
			for b.Loop() {
				tasks, _ := k.Take(late, func(Lane) int { return 1 })
				for _, t := range tasks {
					k.Finished(t, false)
				}
			}
		})
		for name, q := range map[string]IncidentQuery{
			"all":    {},
			"page":   {Limit: 50},
			"urgent": {Urgent: true, Limit: 50},
			"last":   {Skip: incidents - 50, Limit: 50},
			"none":   {Limit: 50, Match: func(in *Incident) bool { return in.Status == StatusMitigating }},
		} {
			b.Run(fmt.Sprintf("Incidents/%s/incidents=%d", name, incidents), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					k.ListIncidents(q)
				}
			})
		}
	}
}
