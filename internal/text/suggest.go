package text

import (
	"fmt"
	"slices"
	"strings"
)

// DidYouMean returns the known name that is most like an unknown one as a question, or the list of
// the known names if none is like it.
func DidYouMean(name string, known []string) string {
	if best := Closest(name, known); best != "" {
		return fmt.Sprintf("did you mean %s?", best)
	}
	return "there are " + strings.Join(slices.Sorted(slices.Values(known)), ", ")
}

// Closest returns the known name that is most like an unknown one. It returns "" if more than a
// third of the letters differ.
func Closest(name string, known []string) string {
	best, least := "", max(1, len(name)/3)
	for _, k := range known {
		if d := distance(name, k); d <= least && d < len(name) && (best == "" || d < least) {
			best, least = k, d
		}
	}
	return best
}

// distance returns the number of letters to insert, delete, replace, or swap with the next one, to
// turn one word into the other. It is the optimal string alignment of Damerau and Levenshtein.
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
