package playbooks

import (
	"regexp"
	"strings"

	"paramedic/state"
)

// names holds the values of a playbook's placeholders. A placeholder without a value stays in the
// text, for the reader to fill in.
type names struct {
	cluster, namespace, model, pool, workload, pod, node string
	engine                                               string // not a placeholder: the engine whose names are used
}

// safeName matches a name that may be put into a command. Labels come from outside, and people
// paste the command. So it excludes every name with a meaning in a shell, PromQL or Markdown.
var safeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,252}$`)

// scopeNames returns the names of the incident's scope, with those of its worker as the evidence
// has it.
func scopeNames(in state.Incident, ev state.Evidence) names {
	n := names{cluster: in.Scope.Cluster, namespace: in.Scope.Namespace, model: in.Scope.Model, pool: in.Scope.Pool}
	if n.cluster == "" {
		n.cluster = in.Cluster
	}
	if len(in.Scope.Pods) > 0 {
		n.pod = in.Scope.Pods[0]
	}
	if len(in.Scope.Nodes) > 0 {
		n.node = in.Scope.Nodes[0]
	}
	kind := "deployment"
	for _, w := range ev.Workers {
		if n.pool != "" && w.Pool != n.pool {
			continue
		}
		if n.pod == "" {
			n.pod = w.Pod
		}
		if n.engine == "" {
			n.engine = w.Engine
		}
		if w.Pod != n.pod {
			continue
		}
		if w.PoolKind != "" {
			kind = strings.ToLower(w.PoolKind)
		}
		if n.node == "" {
			n.node = w.Node
		}
		if n.namespace == "" {
			n.namespace = w.Namespace
		}
	}
	if n.pool != "" {
		n.workload = kind + "/" + n.pool
	}
	return n
}

// fill replaces the placeholders that have a safe value.
func (n names) fill(s string) string {
	if !strings.Contains(s, "{") {
		return s
	}
	var pairs []string
	for _, p := range [][2]string{{"{cluster}", n.cluster}, {"{namespace}", n.namespace}, {"{model}", n.model},
		{"{pool}", n.pool},
		{"{workload}", n.workload}, {"{pod}", n.pod}, {"{node}", n.node}} {
		if safeName.MatchString(p[1]) {
			pairs = append(pairs, p[0], p[1])
		}
	}
	return strings.NewReplacer(pairs...).Replace(s)
}
