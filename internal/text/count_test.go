package text

import (
	"slices"
	"testing"
)

func TestCountAddsAPlural(t *testing.T) {
	for n, want := range map[int]string{0: "0 alerts", 1: "1 alert", 12: "12 alerts"} {
		if got := Count(n, "alert"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestWrapBreaksAtSpaces(t *testing.T) {
	got := Wrap("The KV cache is full,  évicting helps nothing", 12)
	want := []string{"The KV cache", "is full,", "évicting", "helps", "nothing"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Wrap("indivisible", 3); !slices.Equal(got, []string{"indivisible"}) {
		t.Errorf("a long word became %q", got)
	}
}
