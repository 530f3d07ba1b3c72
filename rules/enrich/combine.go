package enrich

import (
	"math"
	"strings"

	"paramedic/rules"
	"paramedic/state"
)

// CombineOf says how a source's values of one entity become one. Quantiles and ratios cannot be added up: the worst speaks.
func CombineOf(sig rules.Signal, src rules.Source) rules.Combine {
	switch src.Fn {
	case rules.FnQuantile, rules.FnMean, rules.FnRatio, rules.FnShare, rules.FnLess:
		return rules.CombineMax
	}
	return sig.Combine
}

// SlotOf names what a source's value is about, for choosing between sources: a pod or an address is one worker, whatever model the
// series names, since some series of a worker name none.
func SlotOf(e state.Entity) string {
	if e.Pod != "" {
		return strings.Join([]string{e.Namespace, e.Pod, e.Node, e.GPU}, "\x00")
	}
	if e.Instance != "" {
		return strings.Join([]string{e.Namespace, e.Instance}, "\x00")
	}
	return strings.Join([]string{e.Namespace, e.Model, e.Pool, e.Node, e.GPU}, "\x00")
}

// Combine combines two values.
func Combine(how rules.Combine, a, b float64) float64 {
	switch how {
	case rules.CombineMax:
		return math.Max(a, b)
	case rules.CombineMin:
		return math.Min(a, b)
	default:
		return a + b
	}
}

// Parts are the values that one entity has under several addresses. The same address scraped by two jobs is one part, not two.
type Parts struct{ byInstance map[string]map[string]float64 }

// Add adds a value.
func (p *Parts) Add(instance, job string, v float64) {
	if p.byInstance == nil {
		p.byInstance = map[string]map[string]float64{}
	}
	if p.byInstance[instance] == nil {
		p.byInstance[instance] = map[string]float64{}
	}
	p.byInstance[instance][job] = v
}

// Value combines the parts. It does not depend on the order in which they came.
func (p *Parts) Value(how rules.Combine) float64 {
	out, first := 0.0, true
	for _, jobs := range p.byInstance {
		one := math.Inf(-1)
		for _, v := range jobs {
			one = math.Max(one, v)
		}
		if first {
			out, first = one, false
			continue
		}
		out = Combine(how, out, one)
	}
	return out
}

// Pointer is the combined value, or nil where there is none.
func (p *Parts) Pointer(how rules.Combine) *float64 {
	if p == nil {
		return nil
	}
	v := p.Value(how)
	return &v
}
