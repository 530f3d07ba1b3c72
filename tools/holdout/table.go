package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// A tally counts the outcomes of runs.
type tally struct{ runs, right, unknown, silent, wrong, extra, likely, harmful, paged, healthy int }

func (t *tally) add(r result) {
	t.runs++
	switch r.Outcome {
	case "right":
		t.right++
	case "unknown":
		t.unknown++
		if r.Likely == r.truth() {
			t.likely++
		}
	case "silent":
		t.silent++
	default:
		t.wrong++
	}
	if r.Incidents > 1 {
		t.extra++
	}
	if len(r.Harmful) > 0 {
		t.harmful++
	}
	if r.Paged {
		t.paged++
	}
	t.healthy += r.PagedHealthy
}

// alerted returns the number of runs in which an alert fired. Without one there is no diagnosis.
func (t tally) alerted() int { return t.runs - t.silent }

func share(n, of int) float64 { return 100 * float64(n) / float64(max(1, of)) }

// heading prints the names of the columns. Shares are those of the runs with an alert, but likely
// is that of the unknown. The others are numbers of runs, and healthy that of pages.
func heading(out io.Writer, what string) {
	fmt.Fprintf(out, "\n%-44s %5s  %7s  %7s  %7s  %7s  %7s  %7s  %6s  %6s  %7s\n", what, "runs", "right%", "wrong%", "unknown%",
		"likely%", "extra%", "harmful", "silent", "paged", "healthy")
}

func (t tally) print(out io.Writer, name string) {
	fmt.Fprintf(out, "%-44s %5d  %7.1f  %7.1f  %8.1f  %7.1f  %7.1f  %7d  %6d  %6d  %7d\n", name, t.runs, share(t.right, t.alerted()),
		share(t.wrong, t.alerted()), share(t.unknown, t.alerted()), share(t.likely, t.unknown), share(t.extra, t.alerted()),
		t.harmful, t.silent, t.paged, t.healthy)
}

// tallies holds tallies by name.
type tallies map[string]*tally

func (m tallies) add(name string, r result) {
	if m[name] == nil {
		m[name] = &tally{}
	}
	m[name].add(r)
}

func (m tallies) print(out io.Writer, what string) {
	heading(out, what)
	for _, name := range slices.Sorted(maps.Keys(m)) {
		m[name].print(out, name)
	}
}

// printTables prints the results by fault and by each value of each dimension.
func printTables(out io.Writer, all []result) {
	byFault, byStory, byDecoy, byValue := tallies{}, tallies{}, tallies{}, tallies{}
	for _, r := range all {
		if r.Decoy {
			byDecoy.add(r.Fault, r)
			continue
		}
		byFault.add(r.truth(), r)
		byStory.add(r.Told, r)
		for _, d := range dimensions {
			if r.hasWitness() {
				byValue.add(d.name+"="+r.Convention[d.name], r)
			}
		}
	}
	printWhole(out, all)
	byFault.print(out, "by fault")
	byStory.print(out, "by story")
	printStories(out, all)
	byDecoy.print(out, "by decoy")
	heading(out, "by convention")
	byValue.printInOrder(out)
	printReliability(out, all)
}

// printStories lists the faults that were played with fewer than three stories.
func printStories(out io.Writer, all []result) {
	stories := map[string]map[string]bool{}
	for _, r := range all {
		if stories[r.Fault] == nil {
			stories[r.Fault] = map[string]bool{}
		}
		stories[r.Fault][r.Story] = true
	}
	var few []string
	for _, f := range slices.Sorted(maps.Keys(stories)) {
		if n := len(stories[f]); n < 3 {
			few = append(few, fmt.Sprintf("%s (%d)", f, n))
		}
	}
	if len(few) > 0 {
		fmt.Fprintf(out, "fewer than three stories: %s\n", strings.Join(few, ", "))
	}
}

// printWhole prints the results of all faults and of all decoys.
func printWhole(out io.Writer, all []result) {
	whole := tallies{}
	for _, r := range all {
		switch {
		case r.Decoy:
			whole.add("decoys", r)
		case r.hasWitness():
			whole.add("faults", r)
		default:
			whole.add("faults without a witness", r)
		}
	}
	whole.print(out, "all")
}

// printInOrder prints tallies of values in the order of the dimensions, and the worst value.
func (m tallies) printInOrder(out io.Writer) {
	const enough = 20 // runs with an alert
	worst := ""
	for _, d := range dimensions {
		for _, v := range d.values {
			name := d.name + "=" + v
			t := m[name]
			if t == nil {
				continue
			}
			t.print(out, name)
			if t.alerted() >= enough &&
				(worst == "" || share(t.right, t.alerted()) < share(m[worst].right, m[worst].alerted())) {
				worst = name
			}
		}
	}
	if worst != "" {
		fmt.Fprintf(out, "worst: %s, %.1f %% right\n", worst, share(m[worst].right, m[worst].alerted()))
	}
}
