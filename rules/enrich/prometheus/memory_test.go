package prometheus

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paramedic/rules"
	"paramedic/rules/enrich"
	"paramedic/state"
)

// historic is a fleet whose gauges and counters have a day and a week ago, too, and go on after
// now.
func historic(t *testing.T) *store {
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

// gatherAt reads an incident's evidence, and says how it was asked for.
func gatherAt(t *testing.T, c *Client, f *fakeAPI, onset, at time.Time) (enrich.Reading, []url.Values) {
	t.Helper()
	f.mu.Lock()
	f.asked = nil
	f.mu.Unlock()
	r := c.Read(t.Context(), asks(t, state.Scope{Namespace: "llm", Pool: "vllm-llama"}, onset, at))
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

// The queries of a gathering for which nothing is known, and of one that knows the past. The first
// of both is which engines there are.
const (
	whole = 1 + unionsRange + unionsNow + unionsBefore + unionsDistant
	rest  = 1 + unionsRange + unionsNow
)

// What was before the onset is asked for once: later gatherings ask for what came since, and say
// what one that asks for all would.
func TestPastIsQueriedOnce(t *testing.T) {
	f := &fakeAPI{t: t, store: historic(t)}
	c, onset, later := fresh(t, f), now.Add(-10*time.Minute), now.Add(2*time.Minute)
	first, asked := gatherAt(t, c, f, onset, now)
	if len(asked) != whole {
		t.Errorf("the first gathering took %d queries, want %d", len(asked), whole)
	}
	again, asked := gatherAt(t, c, f, onset, now)
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("the same moment again:\n%s", diff)
	}
	if len(asked) != rest {
		t.Errorf("the next gathering took %d queries, want %d", len(asked), rest)
	}
	for _, form := range asked {
		from := form.Get("time")
		if from == "" {
			from = form.Get("start")
		}
		if at, err := parseTime(from); err != nil || !at.After(onset) {
			t.Errorf("asked again for %s, before the onset (%v)", at, err)
		}
	}

	if _, asked = gatherAt(t, c, f, onset, now.Add(remembered+time.Second)); len(asked) != whole {
		t.Errorf("half an hour later %d queries: what came in late would never be seen", len(asked))
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
		got.Samples[i].Series, got.Samples[i].Z = nil, nil // their points before the onset are others
	}
	for i := range want.Samples {
		want.Samples[i].Series, want.Samples[i].Z = nil, nil
	}
	if diff := cmp.Diff(want.Samples, got.Samples); diff != "" {
		t.Errorf("two minutes later (- asked for all, + with what was known):\n%s", diff)
	}
	if drawn < 8 || compared < 8 {
		t.Errorf("%d charts and %d of all moments: hardly anything was compared", drawn, compared)
	}
}

// While an incident's symptoms are gathered its past is asked for ahead: the first gathering has
// only the present to wait for, and says what one says that had to ask for all.
func TestPastIsPrefetched(t *testing.T) {
	f := &fakeAPI{t: t, store: historic(t)}
	c, onset := fresh(t, f), now.Add(-3*time.Minute)
	scope := state.Scope{Namespace: "llm", Pool: "vllm-llama"}
	c.Prepare(t.Context(), asks(t, scope, onset, now.Add(-10*time.Second)))
	got, asked := gatherAt(t, c, f, onset, now)
	if len(asked) != rest-1 {
		t.Errorf("%d queries, want %d: which engines there are is known as well", len(asked), rest-1)
	}
	for _, form := range asked {
		if at, err := parseTime(form.Get("time") + form.Get("start")); err != nil || at.Before(onset) {
			t.Errorf("asked again for %s, before the onset (%v)", at, err)
		}
	}
	want, _ := gatherAt(t, fresh(t, f), f, onset, now)
	if len(want.Samples) < 20 || len(got.Samples) != len(want.Samples) || got.Began != want.Began || len(got.Notes)+len(got.Failed) > 0 {
		t.Fatalf("%d samples, want %d, missing %v %v", len(got.Samples), len(want.Samples), got.Notes, got.Failed)
	}
	for i, s := range got.Samples {
		w := want.Samples[i]
		if len(s.Series) > 0 && (len(w.Series) == 0 || !s.Series[len(s.Series)-1].At.Equal(now) || onset.Sub(s.Series[0].At) < 55*time.Minute) || len(s.Series) == 0 && len(w.Series) > 0 {
			t.Errorf("%s is drawn as %v, want %v", s.Signal, s.Series, w.Series)
		}
		s.Series, s.Z, w.Series, w.Z = nil, nil, nil, nil // their points before the onset are others
		if diff := cmp.Diff(w, s); diff != "" {
			t.Errorf("- asked for all, + the past ahead:\n%s", diff)
		}
	}
}

// Up to its first verdict an incident costs no more queries than a gathering may, where its pool
// and its onset stay, and where asking ahead is in vain hardly more than if nobody had.
func TestPrefetchSendsNoExtraQueries(t *testing.T) {
	onset := now.Add(-20 * time.Second)
	pool := state.Scope{Namespace: "llm", Pool: "vllm-llama"}
	modelled, named := pool, pool
	modelled.Model, named.Pods = "llama-70b", []string{"vllm-llama-7d9f8b6c5-aaaa0"}
	for name, c := range map[string]struct {
		api   *fakeAPI
		later state.Scope
	}{
		"nothing has changed":                {&fakeAPI{}, pool},
		"an alert names a pod":               {&fakeAPI{}, named},
		"an alert names the model":           {&fakeAPI{}, modelled},
		"there are no engines":               {&fakeAPI{store: &store{}}, pool},
		"a store behind it does not answer":  {&fakeAPI{warns: true}, pool},
		"which engines there are is refused": {&fakeAPI{refuse: "max by (pod)"}, pool},
	} {
		t.Run(name, func(t *testing.T) {
			f := c.api
			if f.t = t; f.store == nil {
				f.store = historic(t)
			}
			client := fresh(t, f)
			client.Prepare(t.Context(), asks(t, pool, onset, now.Add(-10*time.Second)))
			client.Read(t.Context(), asks(t, c.later, onset, now))
			if len(f.asked) > MaxQueries {
				t.Errorf("%d queries, and at most %d are promised", len(f.asked), MaxQueries)
			}
		})
	}
}

// In a storm of incidents there is no room for what is asked ahead for all of them.
func TestStormSendsNoUnusedQueries(t *testing.T) {
	const pools = 20
	f := &fakeAPI{t: t, store: &store{}}
	onset := now.Add(-20 * time.Second)
	scope := func(i int) state.Scope { return state.Scope{Namespace: "llm", Pool: fmt.Sprintf("p%d", i)} }
	for at := now.Add(-20 * time.Minute); !at.After(now); at = at.Add(time.Minute) {
		for i := range pools {
			f.store.add(map[string]string{"__name__": "vllm:num_requests_running", "pod": fmt.Sprintf("p%d-7d9f8b6c5-aaaa0", i), "namespace": "llm", "model_name": "m"}, at, 1)
		}
	}
	c := fresh(t, f)
	for i := range pools {
		c.Prepare(t.Context(), asks(t, scope(i), onset, now.Add(-10*time.Second)))
	}
	for i := range pools {
		c.Read(t.Context(), asks(t, scope(i), onset, now))
	}
	if len(f.asked) > pools*MaxQueries {
		t.Errorf("%d queries for %d incidents, and at most %d are promised for each", len(f.asked), pools, MaxQueries)
	}
}

// An incident's chart and the hour before the onset of another, which began an hour later, are not
// the same question.
func TestChartIsNotUsedAsBaseline(t *testing.T) {
	f := &fakeAPI{t: t, store: &store{}}
	for at := now.Add(-3 * time.Hour); !at.After(now); at = at.Add(15 * time.Second) {
		level := 1.0
		if at.After(now.Add(-80 * time.Minute)) {
			level = 50
		}
		f.store.add(map[string]string{"__name__": "vllm:num_requests_running", "pod": "vllm-llama-7d9f8b6c5-aaaa0", "namespace": "llm", "model_name": "m"}, at, level)
	}
	one := slices.DeleteFunc(builtIn(t), func(s rules.Signal) bool { return s.ID != "requests_running" })
	c := fresh(t, f)
	read := func(onset, at time.Time) *state.Sample {
		r := c.Read(t.Context(), enrich.Query{Cluster: "default", Scope: state.Scope{Namespace: "llm"}, Signals: one, Running: one[0], Onset: onset, Now: at})
		return find(r, "requests_running", "vllm-llama-7d9f8b6c5-aaaa0")
	}
	read(now.Add(-65*time.Minute), now.Add(-time.Minute))
	if s := read(now.Add(-5*time.Minute), now); s == nil || s.Baseline == nil || *s.Baseline != 50 {
		t.Errorf("an hour before the onset 50 requests ran, and not as many as it says: %+v", s)
	}
}

// What is asked ahead and does not come is asked for when it is wanted.
func TestFailedPrefetchIsQueriedAgain(t *testing.T) {
	onset := now.Add(-3 * time.Minute)
	for name, ahead := range map[string]*fakeAPI{
		"a store behind it did not answer": {warns: true},
		"charts are refused":               {noRange: true},
	} {
		t.Run(name, func(t *testing.T) {
			ahead.t, ahead.store = t, historic(t)
			c := fresh(t, ahead)
			c.Prepare(t.Context(), asks(t, state.Scope{Namespace: "llm", Pool: "vllm-llama"}, onset, now.Add(-10*time.Second)))
			ahead.warns, ahead.noRange = false, false
			got, _ := gatherAt(t, c, ahead, onset, now)
			want, _ := gatherAt(t, fresh(t, ahead), ahead, onset, now)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("- asked for all then, + ahead in vain:\n%s", diff)
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
		"a store behind it did not answer": {&fakeAPI{warns: true}, onset, whole},
		"it knows nothing of the past":     {&fakeAPI{store: &store{}}, onset, whole},
		"charts are refused":               {&fakeAPI{noRange: true}, onset, rest},
		"a look at the fleet":              {&fakeAPI{}, now, whole},
	} {
		t.Run(name, func(t *testing.T) {
			f := c.api
			f.t = t
			if f.store == nil {
				f.store = historic(t)
			}
			client := fresh(t, f)
			later := now.Add(shortly + time.Second)
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
						t.Errorf("only what is after %s was asked for again (%v)", at, err)
					}
				}
			}
		})
	}
}

// Samples come in late. What may still do so is asked for again, as soon as an incident has begun,
// and nothing else.
func TestLastMinuteIsQueriedAgain(t *testing.T) {
	f := &fakeAPI{t: t, store: &store{}}
	onset, later := now.Add(-20*time.Second), now.Add(15*time.Second)
	write := func(from, to time.Time, level float64) {
		for at := from; at.Before(to); at = at.Add(15 * time.Second) {
			f.store.add(map[string]string{"__name__": "vllm:num_requests_running", "pod": "vllm-llama-7d9f8b6c5-aaaa0", "namespace": "llm", "instance": "10.0.0.0:8000", "job": "vllm", "model_name": "m"}, at, level)
		}
	}
	write(now.Add(-2*time.Hour), now.Add(-late), 1)
	c := fresh(t, f)
	gatherAt(t, c, f, onset, now)
	write(now.Add(-late), later.Add(time.Second), 5)
	r, asked := gatherAt(t, c, f, onset, later)
	seen := 0
	for _, form := range asked {
		start := form.Get("start")
		if start == "" || !strings.Contains(form.Get("query"), "sum by ("+strings.Join(workerLabels, ", ")+") (vllm:num_requests_running{") {
			continue // the other charts are empty
		}
		seen++
		if at, err := parseTime(start); err != nil || !at.After(now.Add(-late)) {
			t.Errorf("the chart was asked for from %s on (%v)", at, err)
		}
	}
	run := find(r, "requests_running", "vllm-llama-7d9f8b6c5-aaaa0")
	if run == nil || run.Value != 5 || len(run.Series) < 30 || run.Z == nil || seen != 1 {
		t.Fatalf("%d queries for its chart gave %+v", seen, run)
	}
	for _, p := range run.Series {
		if want := map[bool]float64{true: 1, false: 5}[p.At.Before(now.Add(-late))]; p.Value != want {
			t.Errorf("%v at %s, want %v", p.Value, p.At, want)
		}
	}
}

// What moved together is told by points of the same moments: charts of several gatherings have none
// in common.
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

// A few signals have charts of which one is of an engine that nobody runs: that it is empty does
// not keep the others from being remembered.
func TestEmptyChartKeepsOthersCached(t *testing.T) {
	f := &fakeAPI{t: t, store: historic(t)}
	c, onset := fresh(t, f), now.Add(-10*time.Minute)
	few := slices.DeleteFunc(builtIn(t), func(s rules.Signal) bool { return s.ID != "requests_running" })
	for _, at := range []time.Time{now, now.Add(time.Minute)} {
		f.asked = nil
		c.Read(t.Context(), enrich.Query{Cluster: "default", Scope: state.Scope{Namespace: "llm", Pool: "vllm-llama"}, Signals: few, Now: at, Onset: onset})
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
		t.Errorf("%d charts were asked for again as a whole and %d from the onset on", whole, since)
	}
}
