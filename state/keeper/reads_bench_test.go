package keeper

import (
	"fmt"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/state/fold"
	"paramedic/state/keeper/agenda"
)

// BenchmarkKeeperReads measures the queries of the outbox and the pages, by the number of open
// incidents. Take hands out an effect and takes it back. Its cost must not grow with the number of
// due effects.
func BenchmarkKeeperReads(b *testing.B) {
	for _, incidents := range []int{100, 1_000, 25_000} {
		board, f, now := fold.NewBoard(), simpleFold(), time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
		for n := range 2 * incidents {
			a := alertOf(fmt.Sprintf("vllm-p%d", n/2))
			a.Fingerprint, a.StartsAt = state.Fingerprint(fmt.Sprintf("%016x", n)), now
			now = now.Add(time.Millisecond)
			f.Apply(board, state.Input{Seq: uint64(n + 1), At: now, Cluster: "default",
				Alerts: &state.AlertBatch{Alerts: []state.Alert{a}}})
			if _, _, err := board.Take(); err != nil {
				b.Fatal(err)
			}
		}
		k := &Keeper{parts: []*partition{partitionOf(0, board)}, agenda: agenda.New(), subs: map[chan state.Entry]bool{}}
		k.agenda.Load(0, agenda.All(board))
		late := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC) // everything is due
		b.Run(fmt.Sprintf("Take/incidents=%d", incidents), func(b *testing.B) {
			for b.Loop() {
				tasks, _ := k.Take(late, func(agenda.Lane) int { return 1 })
				for _, t := range tasks {
					k.Finished(t, false)
				}
			}
		})
		b.Run(fmt.Sprintf("Walk/incidents=%d", incidents), func(b *testing.B) { // as /api/v1/stats reads
			for b.Loop() {
				q := state.IncidentQuery{Limit: 200}
				for more := true; more; more = q.After != nil {
					page := k.ListIncidents(q)
					for i := range page.Incidents {
						k.ActionsOf(page.Incidents[i].ID)
					}
					q.After = page.Next
				}
			}
		})
		b.Run(fmt.Sprintf("Scrape/incidents=%d", incidents), func(b *testing.B) { // as /metrics reads
			for b.Loop() {
				k.Tally()
				k.BegunActions()
			}
		})
		for name, q := range map[string]state.IncidentQuery{
			"all":    {},
			"page":   {Limit: 50},
			"urgent": {Urgent: true, Limit: 50},
			"last":   {Skip: incidents - 50, Limit: 50},
			"none":   {Limit: 50, Match: func(in *state.Incident) bool { return in.Status == state.StatusMitigating }},
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
