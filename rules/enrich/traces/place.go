package traces

import (
	"slices"
	"strings"

	"paramedic/rules"
	"paramedic/rules/enrich"
	"paramedic/state"
)

// A place is where a span says it is from.
type place struct {
	service, namespace, workload, pod, model string
}

func placeOf(s span) place {
	p := place{service: s.text(keyService), namespace: s.text(keyNamespace), workload: s.text(keyDeployment), pod: s.text(keyPod), model: s.text(keyModel)}
	if p.workload == "" {
		p.workload = s.text(keyStatefulSet)
	}
	if p.workload == "" {
		p.workload = rules.PoolOf(p.pod)
	}
	return p
}

// of says whether a request from here is of the scope's pool; known is false where it does not say
// which pool it is of.
func (p place) of(scope state.Scope) (yes, known bool) {
	if p.namespace != "" && scope.Namespace != "" && p.namespace != scope.Namespace {
		return false, true
	}
	switch {
	case p.service == scope.Pool, p.workload == scope.Pool, p.pod != "" && slices.Contains(scope.Pods, p.pod):
		return true, true
	case p.workload != "":
		return false, true
	case p.model != "" && scope.Model != "":
		return strings.EqualFold(p.model, scope.Model), true
	}
	return false, false
}

// A group is the requests of one pool.
type group struct {
	entity   state.Entity
	requests []request
}

// grouped divides requests by pool: with a pool in the scope, it keeps those that are of it;
// without, there are as many groups as the requests name. Requests that name no pool are one group
// where they come from one service, and nobody's where from several. It says how many it left out
// because they do not say which pool they are of.
func grouped(requests []request, q enrich.Query) ([]*group, int) {
	if q.Scope.Pool != "" {
		g := &group{entity: state.Entity{Cluster: q.Cluster, Namespace: q.Scope.Namespace, Pool: q.Scope.Pool}}
		strange := 0
		for _, r := range requests {
			yes, known := r.from.of(q.Scope)
			if yes {
				g.requests = append(g.requests, r)
			} else if !known {
				strange++
			}
		}
		if len(g.requests) == 0 {
			return nil, strange
		}
		return []*group{g}, strange
	}
	return byPlace(requests, q)
}

func byPlace(requests []request, q enrich.Query) ([]*group, int) {
	byEntity, services := map[state.Entity]*group{}, map[string]bool{}
	var order []*group
	var nameless []request
	add := func(e state.Entity, r request) {
		if byEntity[e] == nil {
			byEntity[e] = &group{entity: e}
			order = append(order, byEntity[e])
		}
		byEntity[e].requests = append(byEntity[e].requests, r)
	}
	for _, r := range requests {
		p := r.from
		if p.model != "" && q.Scope.Model != "" && p.workload == "" && !strings.EqualFold(p.model, q.Scope.Model) ||
			p.namespace != "" && q.Scope.Namespace != "" && p.namespace != q.Scope.Namespace {
			continue
		}
		switch {
		case p.workload != "":
			add(state.Entity{Cluster: q.Cluster, Namespace: p.namespace, Pool: p.workload}, r)
		case p.model != "":
			add(state.Entity{Cluster: q.Cluster, Namespace: p.namespace, Model: p.model}, r)
		default:
			services[p.service] = true
			nameless = append(nameless, r)
		}
	}
	if len(services) > 1 || len(order) > 0 {
		return order, len(nameless)
	}
	for _, r := range nameless {
		add(state.Entity{Cluster: q.Cluster, Namespace: q.Scope.Namespace, Model: q.Scope.Model}, r)
	}
	return order, 0
}
