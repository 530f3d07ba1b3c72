package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A PoolName names a pool, and its model if that is known.
type PoolName struct {
	Namespace string `json:"namespace"`
	Pool      string `json:"pool"`
	Model     string `json:"model,omitempty"`
}

// String returns namespace/pool.
func (p PoolName) String() string { return p.Namespace + "/" + p.Pool }

// PoolName returns the pool of a scope.
func (s Scope) PoolName() PoolName { return PoolName{s.Namespace, s.Pool, s.Model} }

// PoolName returns the worker's pool.
func (w Worker) PoolName() PoolName { return PoolName{w.Namespace, w.Pool, w.Model} }

// AddPool returns the sorted pools with one more. A pool without a name is none. It may change the
// given list, as append does.
func AddPool(pools []PoolName, p PoolName) []PoolName {
	i := slices.IndexFunc(pools, func(o PoolName) bool { return o.String() == p.String() })
	switch {
	case p.Pool == "":
	case i >= 0:
		pools[i].Model = cmp.Or(pools[i].Model, p.Model)
	default:
		pools = append(pools, p)
		slices.SortFunc(pools, func(a, b PoolName) int { return strings.Compare(a.String(), b.String()) })
	}
	return pools
}

// Several returns the pools if there are two or more, else nil.
func Several(pools []PoolName) []PoolName {
	if len(pools) < 2 {
		return nil
	}
	return pools
}

// Place returns the scope as people see it. If the cause shows in several pools, it names none of
// them, and no namespace that not all of them have.
func (in *Incident) Place() Scope {
	s := in.Scope
	if len(in.Pools) < 2 {
		return s
	}
	s.Pool, s.Model = "", ""
	for _, p := range in.Pools {
		if p.Namespace != s.Namespace {
			s.Namespace = ""
		}
	}
	return s
}

// PoolNames returns the pools in which the cause shows as namespace/pool, if it shows in several.
func (in *Incident) PoolNames() []string {
	var out []string
	for _, p := range in.Pools {
		out = append(out, p.String())
	}
	return out
}

// AlsoIn names the other pools in which a cause that pools share shows, as the end of a title.
func (in *Incident) AlsoIn() string {
	own := in.Scope.PoolName().String()
	others := slices.DeleteFunc(in.PoolNames(), func(p string) bool { return p == own })
	if !in.Cause().IsShared() || len(others) == 0 {
		return ""
	}
	if more := len(others) - 2; more > 1 {
		others = append(others[:2], fmt.Sprintf("%d more", more))
	}
	return " (also " + strings.Join(others, ", ") + ")"
}

// ShowsIn reports whether the incident is about a pool, or its cause shows there.
func (in *Incident) ShowsIn(namespace, pool string) bool {
	return pool != "" && (in.Scope.Namespace == namespace && in.Scope.Pool == pool ||
		slices.Contains(in.PoolNames(), namespace+"/"+pool))
}
