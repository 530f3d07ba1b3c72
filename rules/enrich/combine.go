package enrich

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"paramedic/rules/signals"
	"paramedic/state"
)

// CombineOf returns how a source's values of one entity become one. Quantiles and ratios cannot be
// added, so the highest counts.
func CombineOf(sig signals.Signal, src signals.Source) signals.Combine {
	switch src.Fn {
	case signals.FnQuantile, signals.FnMean, signals.FnRatio, signals.FnShare, signals.FnLess:
		return signals.CombineMax
	}
	return sig.Combine
}

// SlotOf returns the key of an entity for choosing between sources. A pod or an address is one
// worker, regardless of the model label, because some series of a worker have none.
func SlotOf(e state.Entity) state.Entity {
	if e.Pod != "" {
		return state.Entity{Namespace: e.Namespace, Pod: e.Pod, Node: e.Node, GPU: e.GPU}
	}
	if e.Instance != "" {
		return state.Entity{Namespace: e.Namespace, Instance: e.Instance}
	}
	return state.Entity{Namespace: e.Namespace, Model: e.Model, Pool: e.Pool, Node: e.Node, GPU: e.GPU}
}

// Combine combines two values.
func Combine(how signals.Combine, a, b float64) float64 {
	switch how {
	case signals.CombineMax:
		return math.Max(a, b)
	case signals.CombineMin:
		return math.Min(a, b)
	default:
		return a + b
	}
}

// Parts holds the values of one entity. They may come from several addresses and from several
// series of one address; for example, a Deployment has a series for each ReplicaSet. The same
// address scraped by two jobs counts once.
type Parts struct{ all []scraped }

type scraped struct {
	instance, job string
	v             float64
}

// Add adds the value of a series.
func (p *Parts) Add(instance, job string, v float64) {
	p.all = append(p.all, scraped{instance, job, v})
}

// Instances returns the addresses of the parts.
func (p *Parts) Instances() []string {
	var out []string
	for _, s := range p.all {
		if !slices.Contains(out, s.instance) {
			out = append(out, s.instance)
		}
	}
	return out
}

// Keep removes the parts of other addresses, unless that would remove all parts.
func (p *Parts) Keep(instances []string) {
	kept := slices.DeleteFunc(slices.Clone(p.all), func(s scraped) bool {
		return !slices.Contains(instances,
			s.instance)
	})
	if len(kept) > 0 {
		p.all = kept
	}
}

// Value combines the parts. The result does not depend on their order.
func (p *Parts) Value(how signals.Combine) float64 {
	slices.SortFunc(p.all, func(a, b scraped) int {
		return cmp.Or(strings.Compare(a.instance, b.instance), strings.Compare(a.job, b.job), cmp.Compare(a.v, b.v))
	})
	var out float64
	for i := 0; i < len(p.all); {
		one, at := math.Inf(-1), i
		for i < len(p.all) && p.all[i].instance == p.all[at].instance {
			job, v := p.all[i].job, p.all[i].v
			for i++; i < len(p.all) && p.all[i].instance == p.all[at].instance && p.all[i].job == job; i++ {
				v = Combine(how, v, p.all[i].v)
			}
			one = math.Max(one, v)
		}
		if at == 0 {
			out = one
		} else {
			out = Combine(how, out, one)
		}
	}
	return out
}

// Pointer returns the combined value, or nil if there are no parts.
func (p *Parts) Pointer(how signals.Combine) *float64 {
	if p == nil {
		return nil
	}
	v := p.Value(how)
	return &v
}
