package fold

import (
	"fmt"
	"testing"
	"time"

	"paramedic/state"
)

// endedLongAgo returns a board whose incidents ended before the retention.
func endedLongAgo(tb testing.TB, incidents int) *story {
	s := newStory(tb)
	s.fold.Settings.Retain = time.Hour
	for i := range incidents {
		s.alert(state.Firing, fmt.Sprintf("A%d", i), "oom", "warning", fmt.Sprintf("pool-%d", i))
		s.alert(state.Resolved, fmt.Sprintf("A%d", i), "oom", "warning", fmt.Sprintf("pool-%d", i))
	}
	s.wait(10 * time.Minute)
	if got := len(s.board.incidents); got != incidents {
		tb.Fatalf("%d incidents were opened, want %d", got, incidents)
	}
	s.now = s.now.Add(2 * time.Hour)
	return s
}

// Each sweep reads every incident, so it erases several. Its commit still has to be small.
func TestSweepErasesSeveralIncidents(t *testing.T) {
	const incidents = 150
	s := endedLongAgo(t, incidents)
	for left := incidents; left > 0; left = len(s.board.incidents) {
		s.apply(state.Input{})
		if erased := left - len(s.board.incidents); erased < min(left, 10) || erased > maxForgotten {
			t.Fatalf("a sweep erased %d of %d incidents", erased, left)
		}
	}
	if left := s.alertCount(); left != 0 {
		t.Errorf("%d alerts of erased incidents are still there", left)
	}
}

// BenchmarkRetention applies inputs until all incidents past retention are erased. The time is that
// of one incident.
func BenchmarkRetention(b *testing.B) {
	for _, incidents := range []int{1_000, 25_000} {
		b.Run(fmt.Sprint(incidents), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				_, board := benchBoard(b, incidents, 1)
				f := &Fold{Triage: plainTriage{}, Routing: plainTriage{}, Settings: state.DefaultSettings()}
				now := time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC)
				for _, in := range board.incidents {
					in.Status, in.ResolvedAt, in.ResolvedBy = state.StatusResolved, now, byAlerts
				}
				for a := range board.alerts.All() {
					a.Resolve(now)
				}
				now = now.Add(f.Settings.Retain + time.Hour)
				b.StartTimer()
				for seq := uint64(incidents + 1); len(board.incidents) > 0; seq++ {
					f.Apply(board, state.Input{Seq: seq, At: now, Cluster: "default"})
					if _, _, err := board.Take(); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*incidents), "us/incident")
		})
	}
}
