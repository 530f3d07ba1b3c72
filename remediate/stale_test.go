package remediate_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"paramedic/remediate/policy"
	"paramedic/state"
)

// unread lists the ways in which the values read are not present ones.
var unread = map[string]func(w *world){
	"stale": func(w *world) { w.scraped = func() time.Time { return w.clock.now.Add(-2*time.Minute - time.Second) } },
	"NaN":   func(w *world) { w.spoil(math.NaN()) },
	"Inf":   func(w *world) { w.spoil(math.Inf(1)) },
}

// spoil replaces every value.
func (w *world) spoil(v float64) {
	sick := w.sick
	w.sick = func(pod string, seqs int) map[string]float64 {
		out := sick(pod, seqs)
		for signal := range out {
			out[signal] = v
		}
		return out
	}
}

func TestUnreadValuesDenyTheWrite(t *testing.T) { // 30
	for name, spoil := range unread {
		for _, kind := range []string{setArg, restart} {
			w := newWorld(t, kind, policy.Approve)
			w.plan()
			w.approve(sre)
			w.until(state.Admitted)
			spoil(w)
			a := w.step()
			if a.State != state.Denied {
				t.Errorf("%s: %s is %s", name, kind, a.State)
			}
			guards := []string{"evidence", "verifiability"}
			if kind == restart {
				guards = append(guards, "capacity")
			}
			for _, g := range guards {
				w.wantDenied(a, g)
			}
			w.wantWrites(0)
		}
	}
}

func TestUnreadValuesVerifyNothing(t *testing.T) { // 30
	for name, spoil := range unread {
		for _, kind := range []string{setArg, restart} {
			w := newWorld(t, kind, policy.Approve)
			w.plan()
			w.approve(sre)
			w.until(state.Verifying)
			written := len(w.cluster.Changes())
			spoil(w)
			a := w.until(state.NeedsHuman)
			if a.Verify.Verdict != state.VerifyError || !strings.Contains(a.Reason, "read no metric of the pool 4 times in a row") {
				t.Errorf("%s: %s: %s %s", name, kind, a.Verify.Verdict, a.Reason)
			}
			w.wantWrites(written)
		}
	}
}

// A scrape from before the settling time shows the time before the change.
func TestScrapeFromBeforeSettlingIsNoSample(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	w.plan()
	w.approve(sre)
	w.until(state.Verifying)
	settle := w.actions[0].Verify.Settle
	w.scraped = func() time.Time { return settle.Add(-time.Second) }
	w.step()
	w.step()
	if v := w.actions[0].Verify; len(v.Samples["kv_usage"]) > 0 || v.Errors == 0 {
		t.Errorf("%+v", v)
	}
}
