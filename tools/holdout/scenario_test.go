package main

import (
	"maps"
	"testing"
	"time"

	"paramedic/lab"
	"paramedic/lab/story"
)

// first returns the lab's own convention with some values changed.
func first(t *testing.T, set string) convention {
	t.Helper()
	c := convention{}
	for _, d := range dimensions {
		c[d.name] = d.values[0]
	}
	if err := c.fix(set); err != nil {
		t.Fatal(err)
	}
	return c
}

// Every fault can be played with every value of every dimension.
func TestEveryFaultFitsEveryConvention(t *testing.T) {
	for _, d := range dimensions {
		for _, v := range d.values {
			for _, fault := range append(story.Expand(lab.Faults()), lab.Decoys()...) {
				c := first(t, d.name+"="+v)
				s, err := scenario(fault, 3, c)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.Build(); err != nil {
					t.Errorf("%s with %s=%s: %v", fault, d.name, v, err)
				}
				if _, err := neighbour(c, s, 3); err != nil {
					t.Errorf("%s with %s=%s: %v", fault, d.name, v, err)
				}
			}
		}
	}
}

// An older fault begins at the same moment, and is played for longer.
func TestAgeDelaysTheRules(t *testing.T) {
	young, err := scenario("kv_leak", 3, first(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	old, err := scenario("kv_leak", 3, first(t, "age=hours"))
	if err != nil {
		t.Fatal(err)
	}
	if old.Faults[0].At != young.Faults[0].At || old.Length != young.Length+150*time.Minute {
		t.Errorf("it begins after %s and lasts %s, young after %s and %s", old.Faults[0].At, old.Length, young.Faults[0].At, young.Length)
	}
}

func TestBackgroundAddsNoFault(t *testing.T) {
	c := first(t, "background=bursts")
	s, err := scenario("kv_leak", 3, c)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Faults) != 2 || s.Faults[1].Name != lab.LoadTest || s.Faults[1].At != 0 {
		t.Errorf("%+v", s.Faults)
	}
	if n, err := neighbour(c, s, 3); n != nil || err != nil {
		t.Errorf("bursts bring a neighbour: %v", err)
	}
	n, err := neighbour(first(t, "background=rollout"), s, 3)
	if err != nil || n.Config().Namespace != "search" {
		t.Errorf("no pool elsewhere rolls out: %v", err)
	}
}

func TestAlertsAreDressed(t *testing.T) {
	for kind, want := range map[string]map[string]string{
		"lab":  {"severity": "critical", "namespace": "llm", "cluster": "default"},
		"team": {"severity": "P1", "namespace": "llm", "cluster": "default", "team": "ml-serving", "env": "prod"},
		"page": {"severity": "page", "namespace": "llm", "cluster": "default", "prometheus": "monitoring/k8s",
			"prometheus_replica": "prometheus-k8s-0", "region": "eu-west-1"},
		"bare": {"cluster": "default"},
	} {
		got := map[string]string{"severity": "critical", "namespace": "llm"}
		dresser(first(t, "labels="+kind), 1)(got)
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v", kind, got)
		}
	}
	got := map[string]string{}
	dresser(first(t, ""), 3)(got)
	if len(got) > 0 {
		t.Errorf("the third Prometheus adds %v", got)
	}
}
