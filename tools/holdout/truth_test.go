package main

import (
	"testing"
	"time"

	"paramedic/lab"
	"paramedic/state"
)

// Longer answers are an exhausted cache only once the cache has been full for a minute, with work
// that waits or is preempted, and so is the full cache of a decoy. Memory that grows for under an
// hour and ends in one kill is no leak. Both are judged as they were at the last verdict.
func TestTruthIsThatOfTheLastVerdict(t *testing.T) {
	onset := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	after := func(d time.Duration) time.Time { return onset.Add(d) }
	var full []time.Time
	for i := range enough {
		full = append(full, after(time.Duration(i)*5*time.Second))
	}
	last := full[enough-1]
	once := map[string][]time.Time{"a": {after(30 * time.Minute)}}
	again := map[string][]time.Time{"a": {after(30 * time.Minute), after(50 * time.Minute)}}
	late := map[string][]time.Time{"a": {after(90 * time.Minute)}}
	for _, c := range []struct {
		fault string
		load  load
		by    time.Time
		want  string
	}{
		{lab.DecodeSaturation, load{full: full}, last, lab.KVExhaustion},
		{lab.DecodeSaturation, load{full: full}, last.Add(-time.Second), lab.DecodeSaturation},
		{lab.KVExhaustion, load{full: full}, last, lab.KVExhaustion},
		{lab.KVExhaustion, load{full: full}, last.Add(-time.Second), lab.DecodeSaturation},
		{lab.KVLeak, load{full: full}, last, lab.KVLeak},
		{lab.FullCache, load{full: full}, last, lab.KVExhaustion},
		{lab.FullCache, load{full: full}, last.Add(-time.Second), lab.FullCache},
		{lab.HostMemoryLeak, load{}, last, lab.HostMemoryLeak},
		{lab.HostMemoryLeak, load{kills: once}, after(29 * time.Minute), lab.HostMemoryLeak},
		{lab.HostMemoryLeak, load{kills: once}, after(59 * time.Minute), lab.OOMKilled},
		{lab.HostMemoryLeak, load{kills: once}, after(2 * time.Hour), lab.HostMemoryLeak},
		{lab.HostMemoryLeak, load{kills: again}, after(40 * time.Minute), lab.OOMKilled},
		{lab.HostMemoryLeak, load{kills: again}, after(50 * time.Minute), lab.HostMemoryLeak},
		{lab.HostMemoryLeak, load{kills: late}, after(2 * time.Hour), lab.HostMemoryLeak},
	} {
		if got := truth(c.fault, &c.load, onset, c.by); got != c.want {
			t.Errorf("%s at %s is %s, want %s", c.fault, c.by.Format(time.TimeOnly), got, c.want)
		}
	}
}

// The same advice makes an OOM kill worse, but suits a leak that was played and ended in one kill.
func TestAdviceForThePlayedFaultSuitsIt(t *testing.T) {
	k, err := learn("")
	if err != nil {
		t.Fatal(err)
	}
	leak := state.Incident{Diagnosis: state.Diagnosis{Cause: lab.HostMemoryLeak}}
	r := &run{advice: k.advice, advised: map[state.Cause][]string{lab.HostMemoryLeak: k.advice.Given(&leak, time.Time{})}}
	if got := r.harm(lab.OOMKilled, lab.OOMKilled); len(got) == 0 {
		t.Error("the advice for a leak does not count as harmful for an OOM kill")
	}
	if got := r.harm(lab.OOMKilled, lab.HostMemoryLeak); len(got) > 0 {
		t.Errorf("for a leak that was played: %v", got)
	}
}
