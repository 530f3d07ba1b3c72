package query

import (
	"slices"
	"strings"
)

// A Union is one query: expressions that share no series, with marks. The zero value asks nothing.
type Union struct {
	text  string
	parts []part // none if the union has no members
	timed bool
}

// A Kind is the meaning of a series' values.
type Kind int

// The kinds.
const (
	Values   Kind = iota // of the signal; of a quotient, the dividend
	Divisors             // of a quotient, to be summed
	Times                // of scrapes, in seconds since 1970; only in a timed union
)

// Unions divides members over at most n unions of about the same cost for Prometheus. A timed union
// also asks for the scrape times of the values.
func Unions(members []*Member, n int, timed bool) []Union {
	var out []Union
	for _, ps := range spread(parts(members), n) {
		out = append(out, newUnion(ps, timed))
	}
	return out
}

func newUnion(ps []part, timed bool) Union {
	var all []string
	for _, p := range ps {
		all = append(all, p.labelled(timed)...)
	}
	return Union{text: unionOf(all), parts: ps, timed: timed}
}

// Text returns the PromQL; empty if there is nothing to ask.
func (u Union) Text() string { return u.text }

// Members returns the members that the union reads.
func (u Union) Members() []*Member {
	var out []*Member
	for _, p := range u.parts {
		out = append(out, p.members...)
	}
	return out
}

// Divisible reports whether the union has more than one part. That of a [Search] or of [Placed] has
// none.
func (u Union) Divisible() bool { return len(u.parts) > 1 }

// Halves returns two shorter unions that together ask what a divisible union asks.
func (u Union) Halves() [2]Union {
	half := len(u.parts) / 2
	return [2]Union{newUnion(u.parts[:half], u.timed), newUnion(u.parts[half:], u.timed)}
}

// Of returns the members that read a series with these labels, and the kind of the series. It
// returns no members if the mark is of no part. Members of one series agree on IsPoolQuantile and
// IsQuotient.
func (u Union) Of(labels map[string]string) ([]*Member, Kind) {
	mark, timed := strings.CutSuffix(labels[marker], timeMark)
	plain := strings.TrimRight(mark, divisorMark)
	i := slices.IndexFunc(u.parts, func(p part) bool { return p.mark == plain })
	switch {
	case i < 0:
		return nil, Values
	case timed:
		return u.parts[i].members, Times
	case plain != mark:
		return u.parts[i].members, Divisors
	}
	return u.parts[i].members, Values
}
