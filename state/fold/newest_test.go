package fold

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"paramedic/state"
)

// plainCandidates finds the candidates by a scan of all open incidents.
func plainCandidates(b *Board, keys []string) (out []*state.Incident) {
	nowhere := slices.Contains(keys, noPlaceKey)
	rank := func(in *state.Incident) int {
		own := b.keysOf[in.ID]
		shares := func(place bool) bool {
			return slices.ContainsFunc(keys, func(k string) bool { return slices.Contains(own, k) && namesPlace(k) == place })
		}
		switch {
		case shares(true):
			return 0
		case shares(false) || slices.Contains(own, noPlaceKey):
			return 1
		case nowhere:
			return 2
		}
		return 3
	}
	for _, in := range b.incidents {
		if in.Open() && rank(in) < 3 {
			out = append(out, in)
		}
	}
	slices.SortFunc(out, func(x, y *state.Incident) int {
		if d := rank(x) - rank(y); d != 0 {
			return d
		}
		return byOpening(y, x)
	})
	return out[:min(len(out), maxCandidates)]
}

// randomKeys returns index keys. The keys with small numbers are on most incidents.
func randomKeys(r *rand.Rand) (keys []string) {
	for _, kind := range []string{"pod", "model", ruleKey, jobKey} {
		if r.IntN(2) == 0 {
			keys = append(keys, fmt.Sprint(kind, ":", r.IntN(1+r.IntN(60))))
		}
	}
	if !slices.ContainsFunc(keys, namesPlace) {
		keys = append(keys, noPlaceKey)
	}
	return keys
}

// On random boards the candidates are those that a scan of all incidents finds, in the same order.
func TestCandidatesEqualThoseOfAScan(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 1))
		b, start := NewBoard(), time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
		var all []*state.Incident
		for n := range 100 << r.IntN(5) {
			in := &state.Incident{ID: state.IncidentID(fmt.Sprintf("INC-%04d", n)), Status: state.StatusOpen,
				OpenedAt: start.Add(time.Duration(n/3) * time.Second)}
			all = append(all, in)
		}
		if seed%2 == 0 {
			r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		}
		for n, in := range all {
			b.incidents[in.ID] = in
			b.index(in, randomKeys(r))
			other := all[r.IntN(n+1)]
			switch r.IntN(4) {
			case 0: // resolved, and dropped from the index
				other.Status = state.StatusResolved
				b.unindex(other)
			case 1: // a later alert of an open incident
				if other.Open() {
					b.index(other, randomKeys(r))
				}
			case 2: // resolved in this input
				if r.IntN(20) == 0 {
					other.Status = state.StatusResolved
				}
			}
			if n%23 == 0 {
				comparedWithScan(t, b, randomKeys(r))
			}
		}
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for n, in := range all {
			b.unindex(in)
			delete(b.incidents, in.ID)
			if n%23 == 0 {
				comparedWithScan(t, b, randomKeys(r))
			}
		}
		if !b.open.isEmpty() || len(b.byKey)+len(b.keysOf) > 0 {
			t.Fatalf("seed %d: the index of an empty board has %d open, %d keys", seed, b.open.size(), len(b.byKey))
		}
	}
}

func comparedWithScan(t *testing.T, b *Board, keys []string) {
	t.Helper()
	if got, want := b.appendCandidates(nil, keys), plainCandidates(b, keys); !slices.Equal(got, want) {
		t.Fatalf("of %d incidents, the candidates for %q are\n%s, a scan finds\n%s", len(b.incidents), keys, ids(got), ids(want))
	}
	for i, block := range b.open.blocks {
		if len(block) == 0 || len(block) > maxBlock {
			t.Fatalf("block %d of %d has %d incidents", i, len(b.open.blocks), len(block))
		}
	}
}

// all returns the incidents of the list, the oldest first.
func (l incidentList) all() []*state.Incident {
	if l.only != nil {
		return []*state.Incident{l.only}
	}
	return slices.Concat(l.blocks...)
}

func ids(list []*state.Incident) (out []state.IncidentID) {
	for _, in := range list {
		out = append(out, in.ID)
	}
	return out
}

// A storm of alerts asks for candidates beside very many open incidents.
func TestCandidatesAllocateNothing(t *testing.T) {
	b, r := NewBoard(), rand.New(rand.NewPCG(1, 1))
	for n := range 5000 {
		in := &state.Incident{ID: state.IncidentID(fmt.Sprintf("INC-%04d", n)), Status: state.StatusOpen}
		b.index(in, randomKeys(r))
	}
	for _, keys := range [][]string{{"model:0", "pod:1", "rule:0"}, {"rule:1", noPlaceKey}} {
		if n := testing.AllocsPerRun(100, func() { b.near = b.appendCandidates(b.near[:0], keys) }); n > 0 {
			t.Errorf("%q: %v allocations for %d candidates", keys, n, len(b.near))
		}
	}
}

// BenchmarkCandidates measures the index beside open incidents of one model, and the change of its
// lists by an incident in the middle.
func BenchmarkCandidates(b *testing.B) {
	for _, open := range []int{1_000, 100_000} {
		board, at := NewBoard(), time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
		var middle *state.Incident
		for n := range open {
			in := &state.Incident{ID: state.IncidentID(fmt.Sprintf("INC-%06d", n)), Status: state.StatusOpen,
				OpenedAt: at.Add(time.Duration(n) * time.Second)}
			board.index(in, []string{"model:llama", fmt.Sprint("pool:", n)})
			if n == open/2 {
				middle = in
			}
		}
		b.Run(fmt.Sprintf("read/open=%d", open), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				board.near = board.appendCandidates(board.near[:0], []string{"model:llama", "pool:7"})
			}
		})
		b.Run(fmt.Sprintf("resolve/open=%d", open), func(b *testing.B) {
			for b.Loop() {
				board.unindex(middle)
				board.index(middle, []string{"model:llama", "pool:7"})
			}
		})
	}
}
