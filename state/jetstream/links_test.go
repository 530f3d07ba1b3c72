package jetstream

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"paramedic/state"
	"paramedic/state/statetest"
)

// manyRecords returns records of one commit, more than one batch takes.
func manyRecords(prefix, value string) []state.Record {
	records := make([]state.Record, 2*MaxRecords+500)
	for i := range records {
		records[i] = state.Record{Key: fmt.Sprintf("%s.%d", prefix, i), Value: []byte(value)}
	}
	return records
}

// committer returns a function that commits to a store, with a first record at its place.
func committer(t *testing.T, s *Store) func(...state.Record) state.Fence {
	t.Helper()
	_, fence, err := s.Load(t.Context(), 0, statetest.Raw)
	if err != nil {
		t.Fatal(err)
	}
	commit := func(records ...state.Record) state.Fence {
		t.Helper()
		var err error
		if fence, err = s.Commit(t.Context(), 0, fence, fence.Position+1, records); err != nil {
			t.Fatal(err)
		}
		return fence
	}
	commit(state.Record{Key: "first.1", Value: []byte("x")})
	return commit
}

// placed returns how many records the partition has at their places, and in links and drafts.
func placed(t *testing.T, s *Store) (places, links int) {
	t.Helper()
	info, err := s.st.Info(t.Context(), natsjs.WithSubjectFilter(">"))
	if err != nil {
		t.Fatal(err)
	}
	for subject := range info.State.Subjects {
		switch {
		case strings.HasPrefix(subject, "paramedic.st."):
			places++
		case strings.HasPrefix(subject, "paramedic.draft."):
			links++
		}
	}
	return places, links
}

// A commit of any size is durable with its link and its position, and the next start reads it.
func TestLinkedCommitOutlivesItsBot(t *testing.T) {
	dir := t.TempDir()
	s := openIn(t, dir)
	commit := committer(t, s)
	commit(manyRecords("a", "old")...)
	fence := commit(manyRecords("a", "new")[:MaxRecords+7]...)
	if places, links := placed(t, s); places != 1 || links != 2 {
		t.Errorf("%d records are at their places, and %d links are there", places, links)
	}
	closeIt(t, s)
	s = openIn(t, dir)
	defer closeIt(t, s)
	values, at, err := s.Load(t.Context(), 0, statetest.Raw)
	if err != nil || at != fence || len(values) != 2*MaxRecords+501 {
		t.Fatalf("loaded %d records at %+v, %v", len(values), at, err)
	}
	newer := 0
	for _, v := range values {
		if r := v.(state.Record); string(r.Value) == "new" {
			newer++
		}
	}
	if newer != MaxRecords+7 {
		t.Errorf("%d records have their newest value", newer)
	}
}

// A link that is lost before its records are at their places is damage.
func TestLostLinkIsDamage(t *testing.T) {
	s := openIn(t, t.TempDir())
	defer closeIt(t, s)
	commit := committer(t, s)
	commit(manyRecords("a", "x")...)
	lost := s.waitlists[0].Load().links[0]
	if err := s.st.DeleteMsg(t.Context(), lost.Seq); err != nil {
		t.Fatal(err)
	}
	_, _, err := s.Load(t.Context(), 0, statetest.Raw)
	var damage *state.DamagedError
	if !errors.As(err, &damage) || !strings.Contains(damage.Wrong, fmt.Sprintf("the %d records of a commit cannot be read", lost.Records)) {
		t.Errorf("load: %v", err)
	}
}

// A record that changed in many commits is decoded once, also if it is at its place.
func TestLoadDecodesNewestValuesOnly(t *testing.T) {
	s := openIn(t, t.TempDir())
	defer closeIt(t, s)
	commit := committer(t, s)
	s.limits = limits{}
	commit(state.Record{Key: "a.1", Value: []byte("placed")})
	s.limits = limits{links: linkBytes}
	for i := range 9 {
		commit(state.Record{Key: "a.1", Value: fmt.Append(nil, i)}, state.Record{Key: fmt.Sprint("b.", i), Value: []byte("x")},
			state.Record{Key: fmt.Sprint("b.", i-1)})
	}
	var mu sync.Mutex
	decoded := map[string]int{}
	if _, _, err := s.Load(t.Context(), 0, func(r state.Record) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		decoded[r.Key+"="+string(r.Value)]++
		return r, nil
	}); err != nil {
		t.Fatal(err)
	}
	if decoded["a.1=8"] != 1 || decoded["a.1=7"] != 0 || decoded["a.1=placed"] != 0 || decoded["b.8=x"] != 1 || decoded["b.7=x"] != 0 {
		t.Errorf("decoded %v", decoded)
	}
}

// A placedMsg is a message with a record at its place.
type placedMsg struct {
	natsjs.Msg
	key, value string
}

func (m placedMsg) Subject() string      { return recordSubject(0, m.key) }
func (m placedMsg) Data() []byte         { return []byte(m.value) }
func (m placedMsg) Headers() nats.Header { return nil }

// A commit during a load may write a record to its place that waited before.
func TestLoadKeepsRecordsPlacedMeanwhile(t *testing.T) {
	l := newLoading(statetest.Raw)
	l.set, l.rev, l.waits = &liveSet{}, 10, map[uint64]bool{maphash.String(l.seed, "a.1"): true}
	l.take([]arrived{{placedMsg{key: "a.1", value: "before it waited"}, 9}})
	if len(l.placed) > 0 {
		t.Errorf("the load has decoded %v", l.placed)
	}
	l.take([]arrived{{placedMsg{key: "a.1", value: "placed"}, 11}})
	if r, _ := l.placed["a.1"].value.(state.Record); string(r.Value) != "placed" || l.read != 2 {
		t.Errorf("the load has %s of %d records", r.Value, l.read)
	}
}

// Beyond their limit, the oldest links are written to their places, without the records that wait
// again. At the end no link is left on disk.
func TestOldestLinksArePlaced(t *testing.T) {
	s := openIn(t, t.TempDir())
	defer closeIt(t, s)
	s.limits = limits{links: 1}
	commit := committer(t, s)
	commit(state.Record{Key: "a.1", Value: []byte("x")}, state.Record{Key: "a.2", Value: []byte("x")})
	if places, links := placed(t, s); places != 3 || links != 0 {
		t.Errorf("beyond the limit %d records are at their places, and %d links are there", places, links)
	}
	s.limits.links = linkBytes
	for range 3 {
		commit(state.Record{Key: "a.3", Value: []byte("x")}, state.Record{Key: "a.4", Value: []byte("x")})
	}
	if places, links := placed(t, s); places != 3 || links != 3 {
		t.Errorf("below the limit %d records are at their places, and %d links are there", places, links)
	}
	s.limits.links = 1
	before, err := s.st.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	commit(state.Record{Key: "a.1"})
	after, err := s.st.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The new link, the newest a.3 and a.4, the deleted a.1, and the position.
	if wrote := after.State.LastSeq - before.State.LastSeq; wrote != 5 {
		t.Errorf("the commit wrote %d messages", wrote)
	}
	s.limits.links = linkBytes
	commit(state.Record{Key: "a.5", Value: []byte("x")})
	for i := range s.waitlists[0].Load().links {
		s.waitlists[0].Load().links[i].Since = time.Now().Add(-linkTime)
	}
	commit()
	if places, links := placed(t, s); places != 6 || links != 0 { // a.1 is a tombstone
		t.Errorf("after an hour %d records are at their places, and %d links are there", places, links)
	}
	if values, _, err := s.Load(t.Context(), 0, statetest.Raw); err != nil || len(values) != 5 {
		t.Errorf("loaded %d records, %v", len(values), err)
	}
}

// A link that no position names, because the process died in between, changes nothing and is
// removed with the others.
func TestUnnamedLinkIsIgnored(t *testing.T) {
	s := openIn(t, t.TempDir())
	defer closeIt(t, s)
	commit := committer(t, s)
	if _, err := s.writeLinks(t.Context(), 0, []state.Record{{Key: "first.1", Value: []byte("y")}}); err != nil {
		t.Fatal(err)
	}
	if values, _, err := s.Load(t.Context(), 0, statetest.Raw); err != nil || string(values[0].(state.Record).Value) != "x" {
		t.Errorf("loaded %v, %v", values, err)
	}
	s.limits = limits{links: 1}
	commit(state.Record{Key: "a.1", Value: []byte("x")})
	if _, links := placed(t, s); links != 0 {
		t.Errorf("%d links are left", links)
	}
}

// A record that is deleted before it was ever at its place leaves no tombstone, which the server
// would have to expire and sync. One that was there before does, also if it came back meanwhile.
func TestUnplacedRecordLeavesNoTombstone(t *testing.T) {
	s := openIn(t, t.TempDir())
	defer closeIt(t, s)
	commit := committer(t, s)
	x := []byte("x")
	s.limits = limits{links: linkBytes}
	commit(state.Record{Key: "short.1", Value: x}, state.Record{Key: "first.1"})
	commit(state.Record{Key: "short.1"}, state.Record{Key: "first.1", Value: x})
	commit(state.Record{Key: "first.1"})
	s.limits.links = 1
	commit(state.Record{Key: "short.2", Value: x})
	commit(state.Record{Key: "short.2"}, state.Record{Key: "short.3", Value: x})
	tombstones := map[string]bool{}
	info, err := s.st.Info(t.Context(), natsjs.WithSubjectFilter("paramedic.st.>"))
	if err != nil {
		t.Fatal(err)
	}
	for subject := range info.State.Subjects {
		m, err := s.st.GetLastMsgForSubject(t.Context(), subject)
		if err != nil {
			t.Fatal(err)
		}
		tombstones[recordKey(subject)] = m.Header.Get(deletedHeader) != ""
	}
	if want := map[string]bool{"first.1": true, "short.2": true, "short.3": false}; !maps.Equal(tombstones, want) {
		t.Errorf("the places have %v, want %v", tombstones, want)
	}
	values, _, err := s.Load(t.Context(), 0, statetest.Raw)
	if err != nil || len(values) != 1 || values[0].(state.Record).Key != "short.3" {
		t.Errorf("loaded %v, %v", values, err)
	}
}

// The largest record that the store takes waits in a link, too.
func TestLargestRecordIsLinked(t *testing.T) {
	s := openIn(t, t.TempDir())
	defer closeIt(t, s)
	commit := committer(t, s)
	value := make([]byte, MaxValue)
	_, _ = rand.NewChaCha8([32]byte{}).Read(value) // it never fails
	commit(state.Record{Key: "a.1", Value: value})
	if _, links := placed(t, s); links != 1 {
		t.Errorf("%d links are there", links)
	}
	values, _, err := s.Load(t.Context(), 0, statetest.Raw)
	if err != nil || len(values) != 2 {
		t.Fatalf("loaded %d records, %v", len(values), err)
	}
	for _, v := range values {
		if r := v.(state.Record); r.Key == "a.1" && !bytes.Equal(r.Value, value) {
			t.Error("the record has changed")
		}
	}
}

// Each position names all links, so there are few.
func TestLinksAreFew(t *testing.T) {
	s := openIn(t, t.TempDir())
	defer closeIt(t, s)
	commit := committer(t, s)
	s.limits = limits{links: linkBytes}
	for i := range maxLinks + 10 {
		commit(state.Record{Key: fmt.Sprintf("a.%d", i), Value: []byte("x")})
	}
	if n := len(s.waitlists[0].Load().links); n > maxLinks {
		t.Errorf("%d links wait", n)
	}
}

// A record that came back after its tombstone had expired, and was deleted again while it waited,
// stays deleted although a killed server brings its first value back.
func TestUnplacedRecordStaysDeleted(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the server's own clock")
	}
	t.Parallel()
	dir := t.TempDir()
	s := openIn(t, dir)
	defer closeIt(t, s)
	s.tombstones, s.limits = time.Second, limits{}
	commit := committer(t, s)
	commit(state.Record{Key: "a.1", Value: []byte("old")})
	commit(state.Record{Key: "a.1"})
	awaitMessages(t, s, recordSubject(0, ">"), 1) // its tombstone has expired
	s.limits.links = linkBytes
	commit(state.Record{Key: "a.1", Value: []byte("new")})
	if err := s.saveLive(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	commit(state.Record{Key: "a.1"})
	s.limits.links = 1
	fence := commit(state.Record{Key: "b.1", Value: []byte("x")})
	killed := openIn(t, copyOf(t, dir))
	defer closeIt(t, killed)
	if values, at, err := killed.Load(t.Context(), 0, statetest.Raw); err != nil || at != fence || len(values) != 2 {
		t.Errorf("loaded %v at %v, %v", values, at, err)
	}
}

// Under steady load some links always wait. Those that were placed do not stay on disk.
func TestPlacedLinksAreRemoved(t *testing.T) {
	s := openIn(t, t.TempDir())
	defer closeIt(t, s)
	commit := committer(t, s)
	s.limits = limits{links: 64 << 10}
	noise := rand.NewChaCha8([32]byte{})
	most := 0
	for i := range 60 {
		var records []state.Record
		for k := range MaxRecords - 10 {
			value := make([]byte, 16)
			_, _ = noise.Read(value) // it never fails
			records = append(records, state.Record{Key: fmt.Sprintf("a.%d", (i*1000+k)%3000), Value: value})
		}
		commit(records...)
		_, links := placed(t, s)
		most = max(most, links)
	}
	if most > 10 {
		t.Errorf("%d links were on disk", most)
	}
}

// A process that ends leaves placed links on disk. The next one removes them.
func TestRestartRemovesPlacedLinks(t *testing.T) {
	dir := t.TempDir()
	s := openIn(t, dir)
	s.limits = limits{links: 20_000}
	commit, noise := committer(t, s), rand.NewChaCha8([32]byte{})
	value := make([]byte, 15_000)
	_, _ = noise.Read(value) // it never fails
	commit(state.Record{Key: "a.1", Value: value})
	var many []state.Record // too many for the batch that writes the first
	for i := range MaxRecords + 1 {
		many = append(many, state.Record{Key: fmt.Sprint("b.", i), Value: value[10*i : 10*i+8]})
	}
	commit(many...)
	if _, links := placed(t, s); links != 2 {
		t.Fatalf("%d links are on disk", links)
	}
	since := s.waitlists[0].Load().links[0].Since
	closeIt(t, s)
	s = openIn(t, dir)
	defer closeIt(t, s)
	s.limits = limits{links: 20_000}
	_, fence, err := s.Load(t.Context(), 0, statetest.Raw)
	if err != nil {
		t.Fatal(err)
	}
	if again := s.waitlists[0].Load().links[0].Since; again.Sub(since).Abs() > time.Second {
		t.Errorf("the link waits since %s, after a restart since %s", since, again)
	}
	if _, err := s.Commit(t.Context(), 0, fence, fence.Position+1, nil); err != nil {
		t.Fatal(err)
	}
	if _, links := placed(t, s); links != 1 {
		t.Errorf("%d links are on disk", links)
	}
}

// A timeline record that is written again while it waits keeps its place in the order.
func TestWaitingTimelineKeepsItsOrder(t *testing.T) {
	s := openIn(t, t.TempDir())
	defer closeIt(t, s)
	commit := committer(t, s)
	s.limits = limits{links: linkBytes}
	commit(state.Record{Key: "timeline.i.1", Value: []byte("x")}, state.Record{Key: "timeline.i.2", Value: []byte("x")})
	commit(state.Record{Key: "timeline.i.1", Value: []byte("y")})
	check := func(when string) {
		t.Helper()
		list, err := s.List(t.Context(), 0, "timeline.i")
		if err != nil || len(list) != 2 || list[0].Key != "timeline.i.1" || string(list[0].Value) != "y" {
			t.Errorf("%s: %s, %v", when, list, err)
		}
	}
	check("both wait")
	s.waitlists[0].Load().links[0].Since = time.Now().Add(-linkTime)
	s.limits.links = s.waitlists[0].Load().links[1].Bytes + 1000
	commit(manyRecords("a", "x")...)
	check("the first is placed")
	s.limits.links = 1
	commit(state.Record{Key: "z.1", Value: []byte("x")})
	check("both are placed")
}
