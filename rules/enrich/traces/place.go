package traces

import (
	"slices"
	"strings"

	"paramedic/rules/enrich"
	"paramedic/rules/topology"
	"paramedic/state"
)

// A place holds the attributes of a span that name its origin.
type place struct {
	service, namespace, workload, pod, model string
}

func placeOf(s span) place {
	p := place{service: s.text(keyService), namespace: s.text(keyNamespace), workload: s.text(keyDeployment),
		pod: s.text(keyPod), model: s.text(keyModel)}
	if p.workload == "" {
		p.workload = s.text(keyStatefulSet)
	}
	if p.workload == "" {
		p.workload = topology.PoolOf(p.pod)
	}
	return p
}

// belongsTo reports whether a request from this place belongs to the scope's pool. It returns known
// as false if the place does not name a pool.
func (p place) belongsTo(scope state.Scope) (yes, known bool) {
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

// A group holds the requests of one pool.
type group struct {
	entity   state.Entity
	requests []request
}

// groupByPool divides requests by pool. With a pool in the scope, it keeps the requests of that
// pool. Without one, it returns a group for each pool that the requests name. Requests without a
// pool form one group if all come from one service and no request names a pool; otherwise they are
// dropped. It also returns how many requests it dropped because they name no pool.
func groupByPool(requests []request, q enrich.Query) ([]*group, int) {
	if q.Scope.Pool != "" {
		g := &group{entity: state.Entity{Cluster: q.Cluster, Namespace: q.Scope.Namespace, Pool: q.Scope.Pool}}
		unplaced := 0
		for _, r := range requests {
			yes, known := r.from.belongsTo(q.Scope)
			if yes {
				g.requests = append(g.requests, r)
			} else if !known {
				unplaced++
			}
		}
		if len(g.requests) == 0 {
			return nil, unplaced
		}
		return []*group{g}, unplaced
	}
	return byPlace(requests, q)
}

func byPlace(requests []request, q enrich.Query) ([]*group, int) {
	byEntity, services := map[state.Entity]*group{}, map[string]bool{}
	var order []*group
	var unnamed []request
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
			unnamed = append(unnamed, r)
		}
	}
	if len(services) > 1 || len(order) > 0 {
		return order, len(unnamed)
	}
	for _, r := range unnamed {
		add(state.Entity{Cluster: q.Cluster, Namespace: q.Scope.Namespace, Model: q.Scope.Model}, r)
	}
	return order, 0
}
