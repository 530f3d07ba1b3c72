package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
)

// A tally counts the outcomes of runs.
type tally struct{ runs, right, unknown, silent, wrong, incidents, likely, paged int }

func (t *tally) add(r result) {
	t.runs++
	switch r.Outcome {
	case "right":
		t.right++
	case "unknown":
		t.unknown++
		if r.Likely == r.Fault {
			t.likely++
		}
	case "silent":
		t.silent++
	default:
		t.wrong++
	}
	if r.Incidents == 1 {
		t.incidents++
	}
	if r.Paged {
		t.paged++
	}
}

// alerted returns the number of runs in which an alert fired. Without one there is no diagnosis.
func (t tally) alerted() int { return t.runs - t.silent }

func (t tally) print(out io.Writer, name string) {
	share := func(n, of int) float64 { return 100 * float64(n) / float64(max(1, of)) }
	fmt.Fprintf(out, "%-28s %5d  %6.1f  %6.1f  %6.1f  %6.1f  %6.1f  %6d  %6d\n", name, t.runs, share(t.right, t.alerted()),
		share(t.wrong, t.alerted()), share(t.unknown, t.alerted()), share(t.likely, t.unknown), share(t.incidents, t.alerted()),
		t.silent, t.paged)
}

// printTables prints the results by fault and by each value of each dimension.
func printTables(out io.Writer, all []result) {
	heading := func(what string) {
		fmt.Fprintf(out, "\n%-28s %5s  %6s  %6s  %6s  %6s  %6s  %6s  %6s\n", what, "runs", "right", "wrong", "unknwn", "likely",
			"one", "silent", "paged")
	}
	var whole, decoys tally
	byFault, byDecoy, byValue := map[string]*tally{}, map[string]*tally{}, map[string]*tally{}
	bump := func(m map[string]*tally, key string, r result) {
		if m[key] == nil {
			m[key] = &tally{}
		}
		m[key].add(r)
	}
	for _, r := range all {
		if r.Decoy {
			decoys.add(r)
			bump(byDecoy, r.Fault, r)
			continue
		}
		whole.add(r)
		bump(byFault, r.Fault, r)
		for _, d := range dimensions {
			bump(byValue, d.name+"="+r.Convention[d.name], r)
		}
	}
	heading("all, %")
	whole.print(out, "faults")
	decoys.print(out, "decoys")
	heading("by fault")
	for _, f := range slices.Sorted(maps.Keys(byFault)) {
		byFault[f].print(out, f)
	}
	heading("by decoy")
	for _, f := range slices.Sorted(maps.Keys(byDecoy)) {
		byDecoy[f].print(out, f)
	}
	heading("by convention")
	for _, d := range dimensions {
		for _, v := range d.values {
			if t := byValue[d.name+"="+v]; t != nil {
				t.print(out, d.name+"="+v)
			}
		}
	}
}
