package prometheus

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paramedic/rules/enrich"
	"paramedic/rules/enrich/prometheus/query"
	"paramedic/rules/signals"
	"paramedic/state"
)

// past is the fleet of historic. Tests only read it.
var past struct {
	sync.Once
	*store
}

// historic returns a fleet with gauges and counters a day and a week ago, and after now.
func historic(t *testing.T) *store {
	t.Helper()
	past.Do(func() { past.store = makeHistory(t) })
	return past.store
}

func makeHistory(t *testing.T) *store {
	t.Helper()
	s := &store{}
	onset := now.Add(-10 * time.Minute)
	for _, ago := range []time.Duration{7 * 24 * time.Hour, 24 * time.Hour, 0} {
		from, to := onset.Add(-ago-80*time.Minute), onset.Add(15*time.Minute-ago)
		for at := from; !at.After(to); at = at.Add(15 * time.Second) {
			n := int(at.Sub(onset)/(15*time.Second)) + 100_000
			for i := range 2 {
				ingest(t, s, workerPage(i, n), map[string]string{"pod": fmt.Sprintf("vllm-llama-7d9f8b6c5-aaaa%d", i), "namespace": "llm",
					"instance": fmt.Sprintf("10.0.0.%d:8000", i), "job": "vllm"}, at)
			}
		}
	}
	return s
}

// gatherAt reads an incident's evidence and returns the queries.
func gatherAt(t *testing.T, c *Client, f *fakeAPI, onset, at time.Time) (enrich.Reading, []url.Values) {
	t.Helper()
	f.mu.Lock()
	f.asked = nil
	f.mu.Unlock()
	r := c.Read(t.Context(), queryAll(t, state.Scope{Namespace: "llm", Pool: "vllm-llama"}, onset, at))
	return r, f.asked
}

func fresh(t *testing.T, f *fakeAPI) *Client {
	t.Helper()
	c, err := New(Config{URL: f.serve().URL, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The number of queries of a gathering with an empty cache, and of one with the past in the cache.
// The first query of both discovers the engines.
const (
	queriesUncached = 1 + unionsRange + unionsNow + unionsBefore + unionsDistant
	queriesCached   = 1 + unionsRange + unionsNow
)

// The past is queried once. Later gatherings query only newer data, and give the same evidence as
// with an empty cache.
func TestPastIsQueriedOnce(t *testing.T) {
	f := &fakeAPI{t: t, store: historic(t)}
	c, onset, later := fresh(t, f), now.Add(-10*time.Minute), now.Add(2*time.Minute)
	first, asked := gatherAt(t, c, f, onset, now)
	if len(asked) != queriesUncached {
		t.Errorf("the first gathering took %d queries, want %d", len(asked), queriesUncached)
	}
	again, asked := gatherAt(t, c, f, onset, now)
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("the same moment again:\n%s", diff)
	}
	if len(asked) != queriesCached {
		t.Errorf("the next gathering took %d queries, want %d", len(asked), queriesCached)
	}
	for _, form := range asked {
		from := form.Get("time")
		if from == "" {
			from = form.Get("start")
		}
		if at, err := parseTime(from); err != nil || !at.After(onset) {
			t.Errorf("queried again from %s, before the onset (%v)", at, err)
		}
	}

	if _, asked = gatherAt(t, c, f, onset, now.Add(cacheFor+time.Second)); len(asked) != queriesUncached {
		t.Errorf("half an hour later %d queries: late samples would never appear", len(asked))
	}

	c = fresh(t, f)
	gatherAt(t, c, f, onset, now)
	want, _ := gatherAt(t, fresh(t, f), f, onset, later)
	got, _ := gatherAt(t, c, f, onset, later)
	drawn, compared := 0, 0
	for i, s := range got.Samples {
		if s.DayAgo != nil && s.WeekAgo != nil && s.Baseline != nil {
			compared++
		}
		if len(s.Series) == 0 {
			continue
		}
		drawn++
		for k := 1; k < len(s.Series); k++ {
			if gap := s.Series[k].At.Sub(s.Series[k-1].At); gap <= 0 || gap > 4*time.Minute {
				t.Errorf("%s: two points are %s apart", s.Signal, gap)
			}
		}
		if last := s.Series[len(s.Series)-1]; !last.At.Equal(later) || last.Value != s.Value {
			t.Errorf("%s ends with %+v", s.Signal, last)
		}
		if early := onset.Sub(s.Series[0].At); early < 55*time.Minute || s.Z == nil {
			t.Errorf("%s is drawn from %s before the onset, z-score %v", s.Signal, early, s.Z)
		}
		got.Samples[i].Series, got.Samples[i].Z = nil, nil // their points before the onset have other times
	}
	for i := range want.Samples {
		want.Samples[i].Series, want.Samples[i].Z = nil, nil
	}
	if diff := cmp.Diff(want.Samples, got.Samples); diff != "" {
		t.Errorf("two minutes later (- with an empty cache, + with the cache):\n%s", diff)
	}
	if drawn < 8 || compared < 8 {
		t.Errorf("%d charts and %d of all moments: hardly anything was compared", drawn, compared)
	}
}

// The past is prefetched while the alerts of an incident are collected. The first gathering then
// waits only for the present, and gives the same evidence.
func TestPastIsPrefetched(t *testing.T) {
	f := &fakeAPI{t: t, store: historic(t)}
	c, onset := fresh(t, f), now.Add(-3*time.Minute)
	scope := state.Scope{Namespace: "llm", Pool: "vllm-llama"}
	c.Prepare(t.Context(), queryAll(t, scope, onset, now.Add(-10*time.Second)))
	got, asked := gatherAt(t, c, f, onset, now)
	if len(asked) != queriesCached-1 {
		t.Errorf("%d queries, want %d: the discovery is prefetched as well", len(asked), queriesCached-1)
	}
	for _, form := range asked {
		if at, err := parseTime(form.Get("time") + form.Get("start")); err != nil || at.Before(onset) {
			t.Errorf("queried again from %s, before the onset (%v)", at, err)
		}
	}
	want, _ := gatherAt(t, fresh(t, f), f, onset, now)
	if len(want.Samples) < 20 || len(got.Samples) != len(want.Samples) || got.Began != want.Began || len(got.Notes)+len(got.Failed) > 0 {
		t.Fatalf("%d samples, want %d, missing %v %v", len(got.Samples), len(want.Samples), got.Notes, got.Failed)
	}
	for i, s := range got.Samples {
		w := want.Samples[i]
		if len(s.Series) > 0 && (len(w.Series) == 0 || !s.Series[len(s.Series)-1].At.Equal(now) ||
			onset.Sub(s.Series[0].At) < 55*time.Minute) || len(s.Series) == 0 && len(w.Series) > 0 {
			t.Errorf("%s is drawn as %v, want %v", s.Signal, s.Series, w.Series)
		}
		s.Series, s.Z, w.Series, w.Z = nil, nil, nil, nil // their points before the onset have other times
		if diff := cmp.Diff(w, s); diff != "" {
			t.Errorf("- with an empty cache, + prefetched:\n%s", diff)
		}
	}
}

// Up to its first verdict, an incident costs no more queries than one gathering, if its pool and
// onset stay the same. A useless prefetch costs little.
func TestPrefetchSendsNoExtraQueries(t *testing.T) {
	onset := now.Add(-20 * time.Second)
	pool := state.Scope{Namespace: "llm", Pool: "vllm-llama"}
	modelled, named := pool, pool
	modelled.Model, named.Pods = "llama-70b", []string{"vllm-llama-7d9f8b6c5-aaaa0"}
	for name, c := range map[string]struct {
		api   *fakeAPI
		later state.Scope
	}{
		"nothing has changed":                       {&fakeAPI{}, pool},
		"an alert names a pod":                      {&fakeAPI{}, named},
		"an alert names the model":                  {&fakeAPI{}, modelled},
		"there are no engines":                      {&fakeAPI{store: &store{}}, pool},
		"a store behind the server does not answer": {&fakeAPI{warns: true}, pool},
		"the discovery is refused":                  {&fakeAPI{refuse: "max by (pod)"}, pool},
	} {
		t.Run(name, func(t *testing.T) {
			f := c.api
			if f.t = t; f.store == nil {
				f.store = historic(t)
			}
			client := fresh(t, f)
			client.Prepare(t.Context(), queryAll(t, pool, onset, now.Add(-10*time.Second)))
			client.Read(t.Context(), queryAll(t, c.later, onset, now))
			if len(f.asked) > MaxQueries {
				t.Errorf("%d queries, at most %d are allowed", len(f.asked), MaxQueries)
			}
		})
	}
}

// In a storm of incidents, the cache has no space for the prefetched answers of all.
func TestStormSendsNoUnusedQueries(t *testing.T) {
	const pools = 20
	f := &fakeAPI{t: t, store: &store{}}
	onset := now.Add(-20 * time.Second)
	scope := func(i int) state.Scope { return state.Scope{Namespace: "llm", Pool: fmt.Sprintf("p%d", i)} }
	for at := now.Add(-20 * time.Minute); !at.After(now); at = at.Add(time.Minute) {
		for i := range pools {
			f.store.add(map[string]string{"__name__": "vllm:num_requests_running", "pod": fmt.Sprintf("p%d-7d9f8b6c5-aaaa0", i),
				"namespace": "llm", "model_name": "m"}, at, 1)
		}
	}
	c := fresh(t, f)
	for i := range pools {
		c.Prepare(t.Context(), queryAll(t, scope(i), onset, now.Add(-10*time.Second)))
	}
	for i := range pools {
		c.Read(t.Context(), queryAll(t, scope(i), onset, now))
	}
	if len(f.asked) > pools*MaxQueries {
		t.Errorf("%d queries for %d incidents, at most %d are allowed for each", len(f.asked), pools, MaxQueries)
	}
}

// The chart of an incident and the baseline of another, an hour later, have different keys.
func TestChartIsNotUsedAsBaseline(t *testing.T) {
	f := &fakeAPI{t: t, store: &store{}}
	for at := now.Add(-3 * time.Hour); !at.After(now); at = at.Add(15 * time.Second) {
		level := 1.0
		if at.After(now.Add(-80 * time.Minute)) {
			level = 50
		}
		f.store.add(map[string]string{"__name__": "vllm:num_requests_running", "pod": "vllm-llama-7d9f8b6c5-aaaa0", "namespace": "llm",
			"model_name": "m"}, at, level)
	}
	one := slices.DeleteFunc(builtIn(t), func(s signals.Signal) bool { return s.ID != "requests_running" })
	c := fresh(t, f)
	read := func(onset, at time.Time) *state.Sample {
		r := c.Read(t.Context(), enrich.Query{Cluster: "default", Scope: state.Scope{Namespace: "llm"}, Signals: one, Running: one[0],
			Onset: onset, Now: at})
		return find(r, "requests_running", "vllm-llama-7d9f8b6c5-aaaa0")
	}
	read(now.Add(-65*time.Minute), now.Add(-time.Minute))
	if s := read(now.Add(-5*time.Minute), now); s == nil || s.Baseline == nil || *s.Baseline != 50 {
		t.Errorf("50 requests ran an hour before the onset, not %+v", s)
	}
}

// A failed prefetch is queried again by Read.
func TestFailedPrefetchIsQueriedAgain(t *testing.T) {
	onset := now.Add(-3 * time.Minute)
	for name, ahead := range map[string]*fakeAPI{
		"a store behind the server did not answer": {warns: true},
		"charts are refused":                       {noRange: true},
	} {
		t.Run(name, func(t *testing.T) {
			ahead.t, ahead.store = t, historic(t)
			c := fresh(t, ahead)
			c.Prepare(t.Context(), queryAll(t, state.Scope{Namespace: "llm", Pool: "vllm-llama"}, onset, now.Add(-10*time.Second)))
			ahead.warns, ahead.noRange = false, false
			got, _ := gatherAt(t, c, ahead, onset, now)
			want, _ := gatherAt(t, fresh(t, ahead), ahead, onset, now)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("- without prefetch, + with a failed prefetch:\n%s", diff)
			}
		})
	}
}

func TestRecentPastIsNotCached(t *testing.T) {
	onset := now.Add(-10 * time.Minute)
	for name, c := range map[string]struct {
		api   *fakeAPI
		onset time.Time
		want  int
	}{
		"a store behind the server did not answer": {&fakeAPI{warns: true}, onset, queriesUncached},
		"it has no data of the past":               {&fakeAPI{store: &store{}}, onset, queriesUncached},
		"charts are refused":                       {&fakeAPI{noRange: true}, onset, queriesCached},
		"a survey of the fleet":                    {&fakeAPI{}, now, queriesUncached},
	} {
		t.Run(name, func(t *testing.T) {
			f := c.api
			f.t = t
			if f.store == nil {
				f.store = historic(t)
			}
			client := fresh(t, f)
			later := now.Add(shortCacheFor + time.Second)
			if c.onset.Equal(now) {
				c.onset = later
			}
			gatherAt(t, client, f, c.onset, now)
			_, asked := gatherAt(t, client, f, c.onset, later)
			if len(asked) != c.want {
				t.Errorf("the next gathering took %d queries, want %d", len(asked), c.want)
			}
			for _, form := range asked {
				if start := form.Get("start"); start != "" {
					if at, err := parseTime(start); err != nil || at.After(c.onset) {
						t.Errorf("only times after %s were queried again (%v)", at, err)
					}
				}
			}
		})
	}
}

// Samples may arrive late. A new incident queries the time again in which they can, and nothing
// else.
func TestLastMinuteIsQueriedAgain(t *testing.T) {
	f := &fakeAPI{t: t, store: &store{}}
	onset, later := now.Add(-20*time.Second), now.Add(15*time.Second)
	write := func(from, to time.Time, level float64) {
		for at := from; at.Before(to); at = at.Add(15 * time.Second) {
			f.store.add(map[string]string{"__name__": "vllm:num_requests_running", "pod": "vllm-llama-7d9f8b6c5-aaaa0", "namespace": "llm",
				"instance": "10.0.0.0:8000", "job": "vllm", "model_name": "m"}, at, level)
		}
	}
	write(now.Add(-2*time.Hour), now.Add(-lateness), 1)
	c := fresh(t, f)
	gatherAt(t, c, f, onset, now)
	write(now.Add(-lateness), later.Add(time.Second), 5)
	r, asked := gatherAt(t, c, f, onset, later)
	running := slices.DeleteFunc(builtIn(t), func(s signals.Signal) bool { return s.ID != "requests_running" })
	expr, _, _ := strings.Cut(query.Compile(running[0], query.Filter{})[0].Reads(), "{")
	seen := 0
	for _, form := range asked {
		start := form.Get("start")
		if start == "" || !strings.Contains(form.Get("query"), expr+"{") {
			continue // the other charts are empty
		}
		seen++
		if at, err := parseTime(start); err != nil || !at.After(now.Add(-lateness)) {
			t.Errorf("the chart was queried from %s on (%v)", at, err)
		}
	}
	run := find(r, "requests_running", "vllm-llama-7d9f8b6c5-aaaa0")
	if run == nil || run.Value != 5 || len(run.Series) < 30 || run.Z == nil || seen != 1 {
		t.Fatalf("%d queries for its chart gave %+v", seen, run)
	}
	for _, p := range run.Series {
		if want := map[bool]float64{true: 1, false: 5}[p.At.Before(now.Add(-lateness))]; p.Value != want {
			t.Errorf("%v at %s, want %v", p.Value, p.At, want)
		}
	}
}

// Signals are correlated by points of the same times; charts of different gatherings have none in
// common.
func TestChartsShareTheirTimes(t *testing.T) {
	f := &fakeAPI{t: t, store: historic(t), refuse: "vllm:kv_cache_usage_perc"}
	c, onset := fresh(t, f), now.Add(-10*time.Minute)
	gatherAt(t, c, f, onset, now)
	f.refuse = ""
	for _, since := range []time.Duration{2 * time.Minute, 5 * time.Minute} {
		r, _ := gatherAt(t, c, f, onset, now.Add(since))
		longest, moments, drawn := 0, map[time.Time]bool{}, map[string]bool{}
		for _, s := range r.Samples {
			longest = max(longest, len(s.Series))
			for _, p := range s.Series {
				moments[p.At], drawn[s.Signal] = true, true
			}
		}
		if len(moments) > longest || !drawn["kv_usage"] || len(drawn) < 4 {
			t.Errorf("after %s %d signals are drawn at %d moments, the longest at %d", since, len(drawn), len(moments), longest)
		}
	}
}

// An empty chart, of an engine that does not run, does not prevent caching of the others.
func TestEmptyChartKeepsOthersCached(t *testing.T) {
	f := &fakeAPI{t: t, store: historic(t)}
	c, onset := fresh(t, f), now.Add(-10*time.Minute)
	few := slices.DeleteFunc(builtIn(t), func(s signals.Signal) bool { return s.ID != "requests_running" })
	for _, at := range []time.Time{now, now.Add(time.Minute)} {
		f.asked = nil
		c.Read(t.Context(), enrich.Query{Cluster: "default", Scope: state.Scope{Namespace: "llm", Pool: "vllm-llama"}, Signals: few,
			Now: at, Onset: onset})
	}
	whole, since := 0, 0
	for _, form := range f.asked {
		switch at, err := parseTime(form.Get("start")); {
		case err != nil:
		case at.After(onset):
			since++
		default:
			whole++
		}
	}
	if whole == 0 || since == 0 {
		t.Errorf("%d charts were queried again as a whole and %d from the onset on", whole, since)
	}
}
