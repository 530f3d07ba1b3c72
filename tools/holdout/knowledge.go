package main

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"

	"paramedic/cmd/paramedic/config"
	"paramedic/cmd/paramedic/score"
	"paramedic/cmd/paramedic/service"
	"paramedic/rules/catalog"
	"paramedic/rules/signals"
	"paramedic/state"
)

// A knowledge holds what the bot of every run knows. Runs share it, and none changes it.
type knowledge struct {
	signals []signals.Signal
	catalog *catalog.Catalog
	advice  *score.Adviser
	edition string // differs if evidence was added, removed or rewritten

	evidence bool // describe incidents with their evidence
}

// learn returns the built-in knowledge, with other weights for the terms in the file. An empty name
// means the built-in weights.
func learn(weights string) (*knowledge, error) {
	known, err := signals.LoadSignals()
	if err != nil {
		return nil, fmt.Errorf("signals: %w", err)
	}
	cat, library, err := service.LoadKnowledge(config.Default())
	if err != nil {
		return nil, fmt.Errorf("knowledge: %w", err)
	}
	if weights != "" {
		given, err := readWeights(weights)
		if err != nil {
			return nil, err
		}
		if err := reweigh(cat, given); err != nil {
			return nil, fmt.Errorf("%s: %w", weights, err)
		}
	}
	return &knowledge{signals: known, catalog: cat, advice: score.NewAdviser(cat, library), edition: edition(cat)}, nil
}

// readWeights returns the weights of a file by term.
func readWeights(file string) (map[string]float64, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading weights: %w", err)
	}
	out := map[string]float64{}
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return out, nil
}

// reweigh sets weights of a catalogue that no bot uses yet.
func reweigh(c *catalog.Catalog, weights map[string]float64) error {
	done := 0
	eachWeight(c, func(term string, was float64, set func(float64)) {
		if w, ok := weights[term]; ok {
			set(w)
			done++
		}
	})
	if done < len(weights) {
		return fmt.Errorf("%d of %d terms are not in the catalogue: fit the weights again", len(weights)-done, len(weights))
	}
	return nil
}

// weightsOf returns the weights of a catalogue by term.
func weightsOf(c *catalog.Catalog) map[string]float64 {
	out := map[string]float64{}
	eachWeight(c, func(term string, w float64, _ func(float64)) { out[term] = w })
	return out
}

// eachWeight passes on every weight of the catalogue, with a function that sets it.
func eachWeight(c *catalog.Catalog, do func(term string, w float64, set func(float64))) {
	for _, cause := range c.Causes() {
		do(cause.PriorTerm(), cause.Prior, func(w float64) { cause.Prior = w })
		for _, s := range catalog.Words(cause.Explains) {
			s := state.Symptom(s)
			do(cause.SymptomTerm(s), cause.Explains[s], func(w float64) { cause.Explains[s] = w })
		}
		for i, e := range cause.Evidence {
			do(cause.EvidenceTerm(i), e.Weight, func(w float64) { e.Weight = w })
			if e.Else != nil {
				do(cause.ElseTerm(i), e.Else.Weight, func(w float64) { e.Else.Weight = w })
			}
		}
	}
}

// edition identifies the terms of a catalogue: a term of another edition may mean other evidence.
func edition(c *catalog.Catalog) string {
	h := fnv.New32a()
	for _, cause := range c.Causes() {
		for i, e := range cause.Evidence {
			fmt.Fprintln(h, cause.EvidenceTerm(i), e.When, e.Unless, e.Per, e.Of)
			if e.Else != nil {
				fmt.Fprintln(h, e.Else.When)
			}
		}
	}
	return fmt.Sprintf("%08x", h.Sum32())
}
