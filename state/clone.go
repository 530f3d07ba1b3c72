package state

import (
	"maps"
	"slices"
)

// Clone returns a copy that shares nothing that a fold changes.
func (in *Incident) Clone() Incident {
	c := *in
	c.Scope = in.Scope.clone()
	c.Symptoms = make([]SymptomCount, len(in.Symptoms))
	for i, s := range in.Symptoms {
		c.Symptoms[i] = s.clone()
	}
	c.Absorbed = slices.Clone(in.Absorbed)
	c.Pools = slices.Clone(in.Pools)
	c.Feedback, c.RuledOut, c.Over = slices.Clone(in.Feedback), slices.Clone(in.RuledOut), slices.Clone(in.Over)
	c.Actions = slices.Clone(in.Actions)
	c.External = slices.Clone(in.External)
	c.Channels = slices.Clone(in.Channels)
	return c
}

func (s Scope) clone() Scope {
	s.Pods, s.Nodes, s.GPUs = slices.Clone(s.Pods), slices.Clone(s.Nodes), slices.Clone(s.GPUs)
	return s
}

func (c SymptomCount) clone() SymptomCount {
	c.Rules, c.Entities = slices.Clip(c.Rules), slices.Clip(c.Entities) // only appended to
	c.Hints = maps.Clone(c.Hints)
	if c.Hints == nil {
		c.Hints = map[string]string{}
	}
	return c
}

// Clone returns a copy that shares nothing that a fold or a runner changes.
func (a *Action) Clone() Action {
	c := *a
	c.Params, c.Journal = maps.Clone(a.Params), maps.Clone(a.Journal)
	c.Guards, c.Approvers, c.Steps = slices.Clone(a.Guards), slices.Clone(a.Approvers), slices.Clone(a.Steps)
	c.Verify.Baseline, c.Verify.Leading = maps.Clone(a.Verify.Baseline), slices.Clone(a.Verify.Leading)
	for _, readings := range []*map[string][]float64{&c.Verify.Before, &c.Verify.Watched, &c.Verify.Samples,
		&c.Verify.Undone} {
		*readings = maps.Clone(*readings)
		for k, v := range *readings {
			(*readings)[k] = slices.Clone(v)
		}
	}
	return c
}
