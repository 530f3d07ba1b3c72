package enrich

import (
	"slices"
	"testing"
	"time"

	"paramedic/state"
)

// past returns a pool's sample with its values now, an hour, a day and a week ago; a negative value
// is missing.
func past(signal, unit string, now, hour, day, week float64) state.Sample {
	at := func(v float64) *float64 {
		if v < 0 {
			return nil
		}
		return &v
	}
	s := sampleOf(signal, state.Entity{Namespace: "llm", Pool: "vllm-llama"}, now)
	s.Unit, s.Baseline, s.DayAgo, s.WeekAgo = unit, at(hour), at(day), at(week)
	return s
}

// The alert fires hours after the trouble began. An hour before the alert the pool was as bad as
// now, and a day ago it was healthy.
func TestOldTroubleIsNotItsOwnBaseline(t *testing.T) {
	for name, c := range map[string]struct {
		sign state.Sample
		old  bool
	}{
		"a queue for hours":                  {past("requests_waiting", "requests", 40, 38, 0, -1), true},
		"a late first token for hours":       {past("ttft_p95", "s", 9, 8, 0.4, 0.5), true},
		"demand that grows for hours":        {past("arrival_rate", "1/s", 20, 13, 9, 8), true},
		"prefixes that are lost for hours":   {past("prefix_hit_ratio", "ratio", 0.1, 0.2, 0.6, 0.6), true},
		"a queue since the alert":            {past("requests_waiting", "requests", 40, 1, 0, 0), false},
		"a queue as on this weekday":         {past("requests_waiting", "requests", 40, 38, 0, 41), false},
		"a queue as a day ago":               {past("requests_waiting", "requests", 40, 38, 35, -1), false},
		"a first token that users never see": {past("ttft_p95", "s", 0.12, 0.12, 0.04, -1), false},
		"the demand of a Monday":             {past("arrival_rate", "1/s", 20, 19, 9, 19), false},
		"demand since the alert":             {past("arrival_rate", "1/s", 20, 9, 9, 9), false},
		"no traffic a day ago":               {past("arrival_rate", "1/s", 20, 19, 0, -1), false},
		"no value a day ago":                 {past("requests_waiting", "requests", 40, 38, -1, -1), false},
		"a queue that went":                  {past("requests_waiting", "requests", 0, 38, 0, -1), false},
	} {
		ev := state.Evidence{Samples: []state.Sample{c.sign, past("generation_tokens_rate", "1/s", 900, 880, 500, -1),
			past("process_rss", "bytes", 9e9, 5e9, -1, -1), past("queue_time_mean", "s", 9, 8, -1, -1)}}
		compareWithYesterday(&ev, time.Time{})
		tokens, memory, unread := ev.Samples[1], ev.Samples[2], ev.Samples[3]
		if moved := *tokens.Baseline == 500; moved != c.old {
			t.Errorf("%s: the baseline of tokens is %g", name, *tokens.Baseline)
		}
		if *memory.Baseline != 5e9 {
			t.Errorf("%s: memory does not follow the traffic, but its baseline is %g", name, *memory.Baseline)
		}
		if (unread.Baseline == nil) != c.old {
			t.Errorf("%s: a signal without a value a day ago has the baseline %v", name, unread.Baseline)
		}
		if noted := slices.Contains(ev.Missing, olderThan("a day ago")); noted != c.old {
			t.Errorf("%s: notes %v", name, ev.Missing)
		}
	}
}

// A bot that scrapes engines itself has a history of hours. It shows a queue that is hours old, but
// not whether demand is usual at this hour.
func TestHoursOfHistoryReplaceYesterday(t *testing.T) {
	for name, c := range map[string]struct {
		sign state.Sample
		old  bool
	}{
		"a queue for hours":      {past("requests_waiting", "requests", 40, 38, -1, -1), true},
		"a queue since an hour":  {past("requests_waiting", "requests", 40, 1, -1, -1), false},
		"demand of this morning": {past("arrival_rate", "1/s", 20, 18, -1, -1), false},
	} {
		healthy := 0.5
		c.sign.Earlier = &healthy
		tokens := past("generation_tokens_rate", "1/s", 900, 880, -1, -1)
		was := 500.0
		tokens.Earlier = &was
		ev := state.Evidence{Samples: []state.Sample{c.sign, tokens}}
		compareWithYesterday(&ev, time.Time{})
		if moved := *ev.Samples[1].Baseline == was; moved != c.old {
			t.Errorf("%s: the baseline of tokens is %g", name, *ev.Samples[1].Baseline)
		}
		if noted := slices.Contains(ev.Missing, olderThan("some hours ago")); noted != c.old {
			t.Errorf("%s: notes %v", name, ev.Missing)
		}
	}
}

// Values of a day ago and of some hours ago never meet in one pool.
func TestBaselinesOfAPoolAreOfOneMoment(t *testing.T) {
	hours, tokens := 500.0, past("generation_tokens_rate", "1/s", 900, 880, -1, -1)
	tokens.Earlier = &hours
	ev := state.Evidence{Samples: []state.Sample{past("requests_waiting", "requests", 40, 38, 0, -1), tokens}}
	compareWithYesterday(&ev, time.Time{})
	if got := ev.Samples[1].Baseline; *ev.Samples[0].Baseline != 0 || got != nil {
		t.Errorf("beside a queue of a day ago, tokens have the baseline %v", got)
	}
}

// The trouble began a few minutes after the hour before the onset. That hour's points are almost
// all of the trouble, and the nearest of them to the present was the baseline.
func TestTroubleOfAnHourIsNotItsBaseline(t *testing.T) {
	for name, c := range map[string]struct {
		now, nearest, hour, day, want float64
	}{
		"a trouble that fills the hour": {now: 19, nearest: 18, hour: 0.45, day: 0.44, want: 0.45},
		"bursts, of which one is now":   {now: 0.4, nearest: 0.39, hour: 0.1, day: 0.1, want: 0.39},
		"worse than a day ago before":   {now: 3, nearest: 2.9, hour: 0.7, day: 0.3, want: 0.3},
		"a change since the alert":      {now: 19, nearest: 0.5, hour: 0.45, day: 0.44, want: 0.5},
	} {
		s := past("ttft_p95", "s", c.now, c.nearest, c.day, -1)
		s.HourAgo = &c.hour
		ev := state.Evidence{Samples: []state.Sample{s}}
		compareWithYesterday(&ev, time.Time{})
		if got := *ev.Samples[0].Baseline; got != c.want {
			t.Errorf("%s: the baseline is %g, want %g", name, got, c.want)
		}
	}
}

// Workers that have only an address belong to no known pool.
func TestOldTroubleOfUnknownPoolIsFound(t *testing.T) {
	hits := past("prefix_hit_ratio", "ratio", 0.003, 0.002, 0.74, -1)
	hits.Entity = state.Entity{Model: "llama", Instance: "10.0.0.1:8000"}
	ev := state.Evidence{Samples: []state.Sample{hits}}
	compareWithYesterday(&ev, time.Time{})
	if got := *ev.Samples[0].Baseline; got != 0.74 || !slices.Equal(ev.Old, []state.Entity{{Model: "llama"}}) {
		t.Errorf("the baseline is %g, and old pools are %+v", got, ev.Old)
	}
}

func TestOldTroubleOfAPoolIsMarked(t *testing.T) {
	onset := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		since time.Duration // of the failures, before the onset
		want  int
	}{"forty minutes": {40 * time.Minute, 1}, "ten minutes": {10 * time.Minute, 0}, "none": {0, 0}} {
		s := past("error_rate", "ratio", 0.3, 0, 0, -1)
		for ago := time.Hour; ago > 0; ago -= 2 * time.Minute {
			p := state.Point{At: onset.Add(-ago)}
			if ago <= c.since {
				p.Value = 0.3
			}
			s.Series = append(s.Series, p)
		}
		ev := state.Evidence{Samples: []state.Sample{s}}
		if compareWithYesterday(&ev, onset); len(ev.Old) != c.want {
			t.Errorf("failures for %s: old pools are %v", name, ev.Old)
		}
	}
}

// New workers that failed requests an hour before the onset have no value of a day ago. Their
// trouble is old. A few failures then are usual.
func TestNewWorkersThatFailAreOldTrouble(t *testing.T) {
	for before, want := range map[float64]int{0.4: 1, 0.03: 0} {
		ev := state.Evidence{Samples: []state.Sample{past("error_rate", "ratio", 0.4, before, -1, -1)}}
		if compareWithYesterday(&ev, time.Now()); len(ev.Old) != want {
			t.Errorf("%g of the requests failed before: old pools are %v", before, ev.Old)
		}
	}
}

// A container that started six times in an hour has crashed for half an hour or longer.
func TestLongCrashLoopIsOldTrouble(t *testing.T) {
	for restarts, want := range map[float64]int{5: 0, 6: 1} {
		ev := state.Evidence{Samples: []state.Sample{{Signal: "pod_restarts", Value: restarts,
			Entity: state.Entity{Namespace: "llm", Pool: "llama", Pod: "llama-0"}}}}
		if compareWithYesterday(&ev, time.Now()); len(ev.Old) != want {
			t.Errorf("%g restarts: old pools are %v", restarts, ev.Old)
		}
	}
}

// A batch that grew within the hour makes the hour's median part of the trouble. The values of an
// hour before the onset are the baselines of the whole pool then, and no expression mixes moments.
func TestGrownBatchIsNotItsBaseline(t *testing.T) {
	sample := func(signal, unit string, now, median, hour float64) state.Sample {
		s := past(signal, unit, now, median, hour, hour)
		s.HourAgo, s.WeekAgo = &hour, nil
		return s
	}
	ev := state.Evidence{Samples: []state.Sample{
		sample("requests_running", "requests", 280, 96, 9), sample("generation_tokens_rate", "1/s", 4800, 4350, 1190)}}
	compareWithYesterday(&ev, time.Time{})
	for i, want := range []float64{9, 1190} {
		if got := *ev.Samples[i].Baseline; got != want {
			t.Errorf("the baseline of %s is %g, want %g", ev.Samples[i].Signal, got, want)
		}
	}
}
