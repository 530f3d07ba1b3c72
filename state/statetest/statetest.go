// Package statetest is the conformance suite of [state.Store]: its contract as tests that every
// implementation passes. It also has a plain [Triage] and [Routing], and fake listings, for the
// tests of other packages.
package statetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"paramedic/state"
)

// A Backend is one place that keeps state for the length of one test.
type Backend interface {
	// Open opens a store on the backend, which is empty at first. A test closes one store before it
	// opens the next, unless Shared is set.
	Open(t *testing.T) Store
	// Shared reports whether several stores may be open at a time, as for several bots on one
	// cluster.
	Shared() bool
}

// A Store is a store that can be closed.
type Store interface {
	state.Store
	Close(ctx context.Context) error
}

// MaxRecords is the most records that JetStream takes in one batch. A commit may have more.
const MaxRecords = 999

// patience is the timeout for what should happen at once, on a busy machine.
const patience = 30 * time.Second

// Run runs the suite. Each test gets a backend of its own.
func Run(t *testing.T, backend func(t *testing.T) Backend) {
	tests := []struct {
		name string
		test func(t *testing.T, b Backend)
	}{
		{"an empty partition loads as nothing", emptyLoad},
		{"inputs and records survive a reopen", survivesReopen},
		{"a partition's inputs are read in the order of appending", readsInOrder},
		{"one append spans partitions", spansPartitions},
		{"a large append is all or nothing", appendsManyAtOnce},
		{"concurrent appends all arrive once", appendsConcurrently},
		{"an append with an ended context keeps nothing", refusesEndedContext},
		{"a large payload passes and a huge one is refused for good", takesLargePayloads},
		{"a reader blocks and wakes", readerWakes},
		{"a reader counts what waits in the log", readerCountsWhatWaits},
		{"a reader ends with its context and when closed", readerEnds},
		{"a commit of many records is read back whole", commitsMany},
		{"a commit of more records than a batch takes is whole or refused", commitsLarge},
		{"a commit with a bad record writes nothing", commitsNothingBad},
		{"a stale fence is refused and writes nothing", fencesStale},
		{"an overtaken reader is fenced by another store", fencesAcrossStores},
		{"deleted records are gone", deletes},
		{"a replaced partition has only its new records", replaces},
		{"timelines are listed and not loaded", listsTimelines},
		{"a rewritten record keeps its place in the list", keepsPlace},
		{"partitions do not see each other", separatesPartitions},
		{"a closed store is unavailable", closedIsUnavailable},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.test(t, backend(t)) })
	}
}

func open(t *testing.T, b Backend) Store {
	t.Helper()
	s := b.Open(t)
	t.Cleanup(func() { shut(t, s) })
	return s
}

func shut(t *testing.T, s Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Errorf("closing: %v", err)
	}
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func input(cluster, id string) state.Input {
	return state.Input{ID: id, Cluster: cluster, At: time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC),
		Command: &state.Command{Verb: state.VerbAck, Reason: "because of " + id}}
}

func appendAll(t *testing.T, s state.Store, inputs ...state.Input) {
	t.Helper()
	if err := s.Append(within(t), inputs...); err != nil {
		t.Fatalf("append: %v", err)
	}
}

// readN reads n inputs and checks that their sequences rise.
func readN(t *testing.T, s state.Store, partition int, after uint64, n int) []state.Input {
	t.Helper()
	ctx := within(t)
	r, err := s.Inputs(ctx, partition, after)
	if err != nil {
		t.Fatalf("inputs: %v", err)
	}
	defer r.Close()
	var got []state.Input
	last, more := state.Input{Seq: after}, false
	for len(got) < n {
		in, err := r.Next(ctx)
		if err != nil {
			t.Fatalf("input %d of %d: %v", len(got)+1, n, err)
		}
		follows := in.Seq > last.Seq && in.Part == 0 && !more
		if more {
			follows = in.Seq == last.Seq && in.Part == last.Part+1
		}
		if !follows {
			t.Fatalf("input %q has sequence %d.%d, after %d.%d", in.ID, in.Seq, in.Part, last.Seq, last.Part)
		}
		last, more = in, in.More
		got = append(got, in)
	}
	return got
}

func ids(inputs []state.Input) string {
	var b strings.Builder
	for _, in := range inputs {
		b.WriteString(in.ID + " ")
	}
	return strings.TrimSpace(b.String())
}

// Raw is the decoder that returns a copy of the record.
func Raw(r state.Record) (any, error) {
	return state.Record{Key: r.Key, Value: bytes.Clone(r.Value)}, nil
}

func load(t *testing.T, s state.Store, partition int) (map[string]string, state.Fence) {
	t.Helper()
	values, fence, err := s.Load(within(t), partition, Raw)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	got := map[string]string{}
	for _, v := range values {
		r := v.(state.Record)
		if _, twice := got[r.Key]; twice {
			t.Errorf("record %s was loaded twice", r.Key)
		}
		got[r.Key] = string(r.Value)
	}
	return got, fence
}

func commit(t *testing.T, s state.Store, partition int, fence state.Fence, to uint64,
	records ...state.Record) state.Fence {
	t.Helper()
	next, err := s.Commit(within(t), partition, fence, to, records)
	if err != nil {
		t.Fatalf("commit: %v", err)
	}
	if next.Position != to || next.Rev == fence.Rev {
		t.Fatalf("commit gave the fence %+v after %+v, want position %d and a new revision", next, fence, to)
	}
	return next
}

func rec(key, value string) state.Record { return state.Record{Key: key, Value: []byte(value)} }

func sequence(prefix string, n int) []state.Input {
	inputs := make([]state.Input, n)
	for i := range inputs {
		inputs[i] = input("prod", fmt.Sprintf("%s%d", prefix, i))
	}
	return inputs
}

func unavailable(t *testing.T, doing string, err error) {
	t.Helper()
	if !errors.Is(err, state.ErrUnavailable) {
		t.Errorf("%s: error %v, want ErrUnavailable", doing, err)
	}
}

func emptyLoad(t *testing.T, b Backend) {
	s := open(t, b)
	for p := range s.Partitions() {
		if got, fence := load(t, s, p); len(got) != 0 || fence != (state.Fence{}) {
			t.Errorf("partition %d of an empty store has %v, %+v", p, got, fence)
		}
	}
	if err := s.Ready(within(t)); err != nil {
		t.Errorf("ready: %v", err)
	}
	if p := s.Partition("prod"); p < 0 || p >= s.Partitions() || p != s.Partition("prod") {
		t.Errorf("partition of a cluster is %d of %d", p, s.Partitions())
	}
	if _, _, err := s.Load(within(t), s.Partitions(), Raw); err == nil {
		t.Error("loaded a partition that does not exist")
	}
}

func survivesReopen(t *testing.T, b Backend) {
	s := b.Open(t)
	p := s.Partition("prod")
	want := input("prod", "a")
	want.Alerts = &state.AlertBatch{Alerts: []state.Alert{{Fingerprint: "f",
		Labels: map[string]string{"alertname": "X", "odd": "<b>\u2028\"\\"}}}}
	appendAll(t, s, want)
	appendAll(t, s, input("prod", "b"))
	first := readN(t, s, p, 0, 2)
	fence := commit(t, s, p, state.Fence{}, first[0].Seq, rec("incident.INC-1", `{"n":1}`), rec("empty", ""))
	shut(t, s)

	s = open(t, b)
	got, again := load(t, s, p)
	if len(got) != 2 || got["incident.INC-1"] != `{"n":1}` || again != fence {
		t.Fatalf("after a reopen: %v, %+v; want what was committed, %+v", got, again, fence)
	}
	all := readN(t, s, p, 0, 2)
	if ids(all) != "a b" || all[0].Alerts.Alerts[0].Labels["odd"] != "<b>\u2028\"\\" || !all[0].At.Equal(want.At) {
		t.Errorf("after a reopen the inputs are %+v", all)
	}
	if rest := readN(t, s, p, fence.Position, 1); rest[0].ID != "b" {
		t.Errorf("after the position comes %q, want b", rest[0].ID)
	}
	commit(t, s, p, again, all[1].Seq, rec("incident.INC-1", `{"n":2}`))
}

func readsInOrder(t *testing.T, b Backend) {
	s := open(t, b)
	var want []state.Input
	for i := range 40 {
		group := sequence(fmt.Sprintf("%d-", i), 1+i%3)
		appendAll(t, s, group...)
		want = append(want, group...)
	}
	if got := readN(t, s, s.Partition("prod"), 0, len(want)); ids(got) != ids(want) {
		t.Errorf("read %s\nwant %s", ids(got), ids(want))
	}
}

// elsewhere is a cluster in another partition than prod.
func elsewhere(t *testing.T, s state.Store) string {
	t.Helper()
	for i := range 1000 {
		if c := fmt.Sprintf("cluster-%d", i); s.Partition(c) != s.Partition("prod") {
			return c
		}
	}
	t.Skip("the store has one partition")
	return ""
}

func spansPartitions(t *testing.T, b Backend) {
	s := open(t, b)
	other := elsewhere(t, s)
	appendAll(t, s, input("prod", "a"), input(other, "b"), input("prod", "c"))
	if got := ids(readN(t, s, s.Partition("prod"), 0, 2)); got != "a c" {
		t.Errorf("prod reads %q", got)
	}
	if got := ids(readN(t, s, s.Partition(other), 0, 1)); got != "b" {
		t.Errorf("%s reads %q", other, got)
	}
}

func appendsManyAtOnce(t *testing.T, b Backend) {
	s := open(t, b)
	appendAll(t, s, sequence("i", 1000)...)
	if err := s.Append(within(t), sequence("x", 1001)...); err == nil || errors.Is(err, state.ErrUnavailable) {
		t.Errorf("appending more than fits: %v, want a refusal for good", err)
	}
	appendAll(t, s, input("prod", "last"))
	got := readN(t, s, s.Partition("prod"), 0, 1001)
	if got[999].ID != "i999" || got[1000].ID != "last" {
		t.Errorf("inputs 1000 and 1001 are %s and %s", got[999].ID, got[1000].ID)
	}
}

func appendsConcurrently(t *testing.T, b Backend) {
	s := open(t, b)
	const writers, each = 32, 25
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				group := []state.Input{input("prod", fmt.Sprintf("%d.%d.0", w, i)),
					input("prod", fmt.Sprintf("%d.%d.1", w, i))}[:1+w%2]
				if err := s.Append(t.Context(), group...); err != nil {
					t.Errorf("append: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	got := readN(t, s, s.Partition("prod"), 0, writers/2*each+writers/2*each*2)
	next := map[int]int{}
	for k, in := range got {
		var w, i, part int
		if _, err := fmt.Sscanf(in.ID, "%d.%d.%d", &w, &i, &part); err != nil {
			t.Fatalf("input %q is none of ours: %v", in.ID, err)
		}
		if next[w] != i*2+part {
			t.Fatalf("writer %d: input %s came out of turn", w, in.ID)
		}
		next[w]++
		if w%2 == 0 {
			next[w]++
		} else if part == 1 && got[k-1].ID != fmt.Sprintf("%d.%d.0", w, i) {
			t.Errorf("%s does not follow its fellow", in.ID)
		}
	}
}

func refusesEndedContext(t *testing.T, b Backend) {
	s := open(t, b)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := s.Append(ctx, input("prod", "never"))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("append with an ended context: %v", err)
	}
	appendAll(t, s, input("prod", "kept"))
	if got := readN(t, s, s.Partition("prod"), 0, 1); got[0].ID != "kept" {
		t.Errorf("the log begins with %q", got[0].ID)
	}
}

func takesLargePayloads(t *testing.T, b Backend) {
	s := open(t, b)
	big := input("prod", "big")
	big.Command.Reason = strings.Repeat("x", 4<<20)
	appendAll(t, s, big)
	if got := readN(t, s, s.Partition("prod"), 0, 1); got[0].Command.Reason != big.Command.Reason {
		t.Error("a large input came back changed")
	}
	huge := input("prod", "huge")
	huge.Command.Reason = strings.Repeat("x", 16<<20)
	if err := s.Append(within(t), huge); err == nil || errors.Is(err, state.ErrUnavailable) ||
		!strings.Contains(err.Error(), "huge") {
		t.Errorf("a huge input: %v, want a refusal for good that names it", err)
	}
	value := bytes.Repeat([]byte{0, 1, 2, 255}, 1<<20)
	commit(t, s, 0, state.Fence{}, 0, state.Record{Key: "evidence.INC-1", Value: value})
	if got, _ := load(t, s, 0); got["evidence.INC-1"] != string(value) {
		t.Error("a large record came back changed")
	}
}
