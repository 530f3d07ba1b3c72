package main

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"paramedic/rules/catalog"
)

// shifted returns the catalogue's weights, each two decibans larger.
func shifted(t *testing.T) map[string]float64 {
	t.Helper()
	k, err := learn("")
	if err != nil {
		t.Fatal(err)
	}
	out := weightsOf(k.catalog)
	if len(out) < 500 {
		t.Fatalf("the catalogue has only %d weights", len(out))
	}
	for term := range out {
		out[term] += 2
	}
	return out
}

func TestGivenWeightsReplaceTodays(t *testing.T) {
	want, file := shifted(t), filepath.Join(t.TempDir(), "weights.json")
	if err := writeWeights(file, want); err != nil {
		t.Fatal(err)
	}
	k, err := learn(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := weightsOf(k.catalog); !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if err := writeWeights(file, map[string]float64{"kv_leak/evidence/99": 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := learn(file); err == nil {
		t.Error("no error for a term that the catalogue does not have")
	}
}

// Weights that are written into the files are those that the bot then loads.
func TestWrittenWeightsAreLoaded(t *testing.T) {
	want, dir := shifted(t), t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../rules/catalog")); err != nil {
		t.Fatal(err)
	}
	changed, err := writeCatalog(dir, want)
	if err != nil || len(changed) != 27 {
		t.Fatalf("%v: %v", changed, err)
	}
	cat, problems, err := catalog.Load(dir)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	if got := weightsOf(cat); !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if _, err := writeCatalog(dir, map[string]float64{"none/prior": 1}); err == nil {
		t.Error("no error for a cause that no file has")
	}
}

// The edition depends on evidence, and not on its weights.
func TestEditionIgnoresWeights(t *testing.T) {
	k, err := learn("")
	if err != nil {
		t.Fatal(err)
	}
	before := k.edition
	if err := reweigh(k.catalog, shifted(t)); err != nil {
		t.Fatal(err)
	}
	if after := edition(k.catalog); after != before {
		t.Errorf("%s became %s", before, after)
	}
	k.catalog.Causes()[0].Evidence[0].When += " "
	if edition(k.catalog) == before {
		t.Error("new evidence has the same edition")
	}
}
