package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"paramedic/lab"
	"paramedic/lab/drill"
	"paramedic/lab/engine"
	"paramedic/lab/story"
)

// ages maps values of age to the time from the fault until alert rules are loaded.
var ages = map[string]time.Duration{"now": 0, "hour": time.Hour, "hours": 150 * time.Minute}

// scenario returns the scenario of a fault or decoy under a convention.
func scenario(fault string, seed uint64, c convention) (drill.Scenario, error) {
	make := story.New
	if slices.Contains(lab.Decoys(), fault) {
		make = drill.NewDecoy
	}
	s, err := make(fault, seed)
	if err != nil {
		return s, fmt.Errorf("lab: %w", err)
	}
	late := ages[c["age"]]
	for i := range s.Faults {
		f := &s.Faults[i]
		if f.Severity == 0 {
			f.Severity = 1
		}
		if !slices.Contains(lab.Decoys(), fault) {
			f.Severity *= map[string]float64{"weak": 0.8, "usual": 1, "strong": 1.3}[c["strength"]]
		}
		if c["onset"] == "ramp" {
			f.Shape, f.Ramp = lab.Gradual, 8*time.Minute
		}
		if f.For > 0 {
			f.For += late
		}
	}
	if s.Length += late; c["onset"] == "ramp" {
		s.Length += 8 * time.Minute
	}
	workers, err := strconv.Atoi(c["workers"])
	if err != nil {
		return s, fmt.Errorf("workers: %w", err)
	}
	s = s.Resize(workers)
	// At the peak of a day a cache that is nearly full overflows, which is no decoy.
	if c["traffic"] == "day" && fault != lab.FullCache {
		s = s.Diurnal()
	}
	s = s.Later(before)
	// With bursts, a decoy near its capacity would be no decoy.
	if c["background"] == "bursts" && !slices.Contains(lab.Decoys(), fault) {
		s.Faults = append(s.Faults, bursts)
	}
	kind, err := engine.ParseKind(c["engine"])
	if err != nil {
		return s, fmt.Errorf("lab: %w", err)
	}
	return s.As(kind), nil
}

// bursts raises the arrivals by three tenths for three minutes out of six, from the start on.
var bursts = lab.Fault{Name: lab.LoadTest, Severity: 0.3, Shape: lab.Pulse, Period: 6 * time.Minute}

// neighbour returns the healthy fleet of the convention, or nil.
func neighbour(c convention, s drill.Scenario, seed uint64) (*lab.Fleet, error) {
	rollout := c["background"] == "rollout"
	if c["tenants"] != "elsewhere" && c["tenants"] != "beside" && !rollout {
		return nil, nil
	}
	cfg := lab.Config{Seed: seed + 1, Kind: s.Config.Kind, Start: s.Config.Start, Pool: "chat-small", Model: "qwen-8b",
		Workers: 2, Index: 7, Namespace: s.Config.Namespace, Only: s.Config.Only}
	if c["tenants"] != "beside" {
		cfg.Namespace = "search"
	}
	if rollout {
		cfg.Workload.Rate = 0.9 // one worker carries it
	}
	f, err := lab.NewFleet(cfg)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	if rollout {
		// As in many clusters, it comes just before the alerts, and is not the reason.
		at := s.Faults[0].At + ages[c["age"]]
		if err := f.Inject(lab.Fault{Name: lab.CleanRollout, At: at}); err != nil {
			return nil, fmt.Errorf("lab: %w", err)
		}
	}
	return f, nil
}
