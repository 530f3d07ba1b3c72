package index

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"paramedic/state"
)

// plainCandidates finds the candidates by a scan of all open incidents.
func plainCandidates(x *Index, all []*state.Incident, keys []Key) (out []*state.Incident) {
	nowhere := slices.Contains(keys, Nowhere)
	rank := func(in *state.Incident) int {
		own, listed := x.keys[in.ID]
		shares := func(place bool) bool {
			return slices.ContainsFunc(keys, func(k Key) bool { return slices.Contains(own, k) && k.NamesPlace() == place })
		}
		switch {
		case shares(true):
			return 0
		case shares(false) || slices.Contains(own, Nowhere):
			return 1
		case nowhere && listed:
			return 2
		}
		return 3
	}
	for _, in := range all {
		if in.Open() && rank(in) < 3 {
			out = append(out, in)
		}
	}
	slices.SortFunc(out, func(a, b *state.Incident) int { return cmp.Or(rank(a)-rank(b), ByOpening(b, a)) })
	return out[:min(len(out), MaxCandidates)]
}

// randomKeys returns index keys. The keys with small numbers are on most incidents.
func randomKeys(r *rand.Rand) (keys []Key) {
	for _, kind := range []string{"pod", "model", "rule", "job"} {
		of := PlaceKey
		if kind == "rule" || kind == "job" {
			of = OtherKey
		}
		if r.IntN(2) == 0 {
			keys = append(keys, of(kind, fmt.Sprint(r.IntN(1+r.IntN(60)))))
		}
	}
	if !slices.ContainsFunc(keys, Key.NamesPlace) {
		keys = append(keys, Nowhere)
	}
	return keys
}

// On random boards the candidates are those that a scan of all incidents finds, in the same order.
func TestCandidatesEqualThoseOfAScan(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 1))
		x, start := New(), time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
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
			x.Add(in, randomKeys(r))
			other := all[r.IntN(n+1)]
			switch r.IntN(4) {
			case 0: // resolved, and dropped from the index
				other.Status = state.StatusResolved
				x.Remove(other)
			case 1: // a later alert of an open incident
				if other.Open() {
					x.Add(other, randomKeys(r))
				}
			case 2: // resolved in this input
				if r.IntN(20) == 0 {
					other.Status = state.StatusResolved
				}
			}
			if n%23 == 0 {
				comparedWithScan(t, x, all, randomKeys(r))
			}
		}
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for n, in := range all {
			x.Remove(in)
			in.Status = state.StatusResolved
			if n%23 == 0 {
				comparedWithScan(t, x, all, randomKeys(r))
			}
		}
		if !x.open.isEmpty() || len(x.byKey)+len(x.keys) > 0 {
			t.Fatalf("seed %d: the empty index has %d open, %d keys", seed, x.Len(), len(x.byKey))
		}
	}
}

func comparedWithScan(t *testing.T, x *Index, all []*state.Incident, keys []Key) {
	t.Helper()
	if got, want := x.AppendCandidates(nil, keys), plainCandidates(x, all, keys); !slices.Equal(got, want) {
		t.Fatalf("of %d incidents, the candidates for %d are\n%s, a scan finds\n%s", x.Len(), keys, ids(got), ids(want))
	}
	for i, block := range x.open.blocks() {
		if len(block) == 0 || len(block) > maxBlock {
			t.Fatalf("block %d of %d has %d incidents", i, len(x.open.blocks()), len(block))
		}
	}
}

func ids(list []*state.Incident) (out []state.IncidentID) {
	for _, in := range list {
		out = append(out, in.ID)
	}
	return out
}

// A storm of alerts asks for candidates beside very many open incidents.
func TestCandidatesAllocateNothing(t *testing.T) {
	x, r := New(), rand.New(rand.NewPCG(1, 1))
	for n := range 5000 {
		in := &state.Incident{ID: state.IncidentID(fmt.Sprintf("INC-%04d", n)), Status: state.StatusOpen}
		x.Add(in, randomKeys(r))
	}
	var near []*state.Incident
	for _, keys := range [][]Key{{PlaceKey("model", "0"), PlaceKey("pod", "1"), OtherKey("rule", "0")}, {OtherKey("rule", "1"), Nowhere}} {
		if n := testing.AllocsPerRun(100, func() { near = x.AppendCandidates(near[:0], keys) }); n > 0 {
			t.Errorf("%v allocations for %d candidates", n, len(near))
		}
	}
}

// Keys are stored nowhere, but two copies of a board must find the same incidents.
func TestKeyIsTheSameEverywhere(t *testing.T) {
	if got := PlaceKey("pool", "Llama-70B"); got != PlaceKey("pool", "llama-70b") || got != 0xa8295331e3aacef {
		t.Errorf("the key is %#x", uint64(got))
	}
	if PlaceKey("pool", "a") == PlaceKey("pod", "a") || OtherKey("rule", "a").NamesPlace() || !PlaceKey("pod", "a").NamesPlace() {
		t.Error("the kind of a name does not count")
	}
}

// BenchmarkCandidates measures the index beside open incidents of one model, and the change of its
// lists by an incident in the middle.
func BenchmarkCandidates(b *testing.B) {
	for _, open := range []int{1_000, 100_000} {
		x, at := New(), time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
		model, pool := PlaceKey("model", "llama"), PlaceKey("pool", "7")
		var middle *state.Incident
		for n := range open {
			in := &state.Incident{ID: state.IncidentID(fmt.Sprintf("INC-%06d", n)), Status: state.StatusOpen,
				OpenedAt: at.Add(time.Duration(n) * time.Second)}
			x.Add(in, []Key{model, PlaceKey("pool", fmt.Sprint(n))})
			if n == open/2 {
				middle = in
			}
		}
		var near []*state.Incident
		b.Run(fmt.Sprintf("read/open=%d", open), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				near = x.AppendCandidates(near[:0], []Key{model, pool})
			}
		})
		b.Run(fmt.Sprintf("resolve/open=%d", open), func(b *testing.B) {
			for b.Loop() {
				x.Remove(middle)
				x.Add(middle, []Key{model, pool})
			}
		})
	}
}
