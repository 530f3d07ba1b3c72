package state

import (
	"testing"
)

func TestLikelyIsShownAsProbable(t *testing.T) {
	l := &Likely{Cause: "kv_leak", Confidence: 0.52}
	if got := l.Words(); got != "probably KV leak (52 %)" {
		t.Errorf("got %q", got)
	}
	if got := (*Likely)(nil).Words(); got != "" {
		t.Errorf("without a leader: %q", got)
	}
}
