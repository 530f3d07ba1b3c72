package query

import (
	"slices"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"paramedic/rules/signals"
	"paramedic/state"
)

// marksOf returns the marks of a union's parts, as its text has them.
func marksOf(t *testing.T, u Union) []string {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(u.Text())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if call, ok := n.(*parser.Call); ok && call.Func.Name == "label_replace" {
			if to, ok := call.Args[1].(*parser.StringLiteral); ok && to.Val == marker {
				out = append(out, call.Args[2].(*parser.StringLiteral).Val)
			}
		}
		return nil
	})
	return out
}

// Each mark in the text leads to members, and each member to the marks that it needs. A divided
// union has the same.
func TestMarksLeadToEveryMember(t *testing.T) {
	var all []*Member
	for _, s := range builtIn(t) {
		all = append(all, Compile(s, Filter{of: state.Scope{Namespace: "llm"}})...)
	}
	for _, timed := range []bool{false, true} {
		whole := Unions(all, 3, timed)
		halves := whole[0].Halves()
		for _, unions := range [][]Union{whole, append(halves[:], whole[1:]...)} {
			seen := map[*Member]map[Kind]int{}
			for _, u := range unions {
				for _, mark := range marksOf(t, u) {
					members, kind := u.Of(map[string]string{marker: mark})
					if len(members) == 0 {
						t.Fatalf("the mark %s is of no part", mark)
					}
					for _, m := range members {
						if seen[m] == nil {
							seen[m] = map[Kind]int{}
						}
						seen[m][kind]++
						if !slices.Contains(u.Members(), m) {
							t.Errorf("%s is read, but no member of the union", m.ID)
						}
					}
				}
			}
			for _, m := range all {
				want := map[Kind]int{Values: 1, Divisors: 0, Times: map[bool]int{true: 1}[timed]}
				if m.IsQuotient() {
					want[Divisors] = 1
					if m.Source.Fn == signals.FnRatio {
						want[Divisors] += len(m.Source.With)
					}
				}
				for kind, n := range want {
					if seen[m][kind] != n {
						t.Errorf("%s has %d marks of kind %d, want %d", m.ID, seen[m][kind], kind, n)
					}
				}
			}
		}
	}
}

func TestForeignMarkHasNoMembers(t *testing.T) {
	u := Unions(Compile(builtIn(t)[0], Filter{}), 1, false)[0]
	for _, labels := range []map[string]string{nil, {marker: "99"}, {marker: "99/"}, {marker: "99@"}} {
		if members, _ := u.Of(labels); len(members) > 0 {
			t.Errorf("%v leads to %d members", labels, len(members))
		}
	}
}
