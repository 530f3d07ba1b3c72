// Package guard is mutated by the test of the mutation check.
package guard

import "time"

// May reports whether one more may be done.
func May(halted bool, done, most int, last, now time.Time) bool {
	if halted || done >= most {
		return false
	}
	return !now.Before(last.Add(time.Minute))
}

// Say is the state in words.
func Say(state string) string {
	switch now := state; now {
	case "on", "up":
		return "works"
	case "off":
		return "rests"
	}
	return "unknown"
}
