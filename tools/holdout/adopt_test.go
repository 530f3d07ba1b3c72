package main

import (
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"paramedic/state"
)

// writeCases copies written cases into a folder of their own, and returns it.
func writeCases(t *testing.T, names ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cases")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(names, "../healthy.evidence") {
		raw, err := os.ReadFile(filepath.Join(writtenCases, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A move that changes a case's verdict is refused, and the moves beside it are adopted.
func TestMovesThatBreakCasesAreRefused(t *testing.T) {
	g, err := guard(writeCases(t, "kv_exhaustion_storm.txtar", "traffic_surge_at_the_cap.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	fitted := maps.Clone(g.today)
	fitted["kv_exhaustion/prior"] = -40 // no evidence would outweigh it
	fitted["kv_leak/prior"]--
	fitted["routing_skew/prior"]--
	kept, err := g.adopt(fitted)
	if err != nil {
		t.Fatal(err)
	}
	for term, want := range map[string]float64{"kv_exhaustion/prior": g.today["kv_exhaustion/prior"],
		"kv_leak/prior": fitted["kv_leak/prior"], "routing_skew/prior": fitted["routing_skew/prior"]} {
		if kept[term] != want {
			t.Errorf("%s is %g, want %g", term, kept[term], want)
		}
	}
}

// A move is also refused if it only changes the verdict of a case that lacks a signal.
func TestMovesThatMisleadWithoutASignalAreRefused(t *testing.T) {
	g, err := guard(writeCases(t, "traffic_surge_at_the_cap.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	misled := func() (n int) {
		var found sync.Mutex
		if err := g.sweep(func(diagnosed, string, *state.Evidence, state.Cause) {
			found.Lock()
			defer found.Unlock()
			n++
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	fitted := maps.Clone(g.today)
	for misled() == 0 { // the look-alike gains until a missing signal decides for it
		fitted["concurrency_cap/prior"]++
		if err := reweigh(g.catalog, fitted); err != nil {
			t.Fatal(err)
		}
		if ok, err := g.cases[0](); err != nil || !ok {
			t.Fatalf("with %g the case itself breaks: %v", fitted["concurrency_cap/prior"], err)
		}
	}
	kept, err := g.adopt(fitted)
	if err != nil {
		t.Fatal(err)
	}
	if err := reweigh(g.catalog, kept); err != nil {
		t.Fatal(err)
	}
	if n := misled(); n > 0 {
		t.Errorf("%d missing signals change the cause", n)
	}
}
