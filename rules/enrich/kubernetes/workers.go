package kubernetes

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"paramedic/state"
)

// workers finds the pods that run engines, or that the scope names.
func (b *builder) workers() {
	s := b.q.Scope
	index := map[object]int{}
	for i := range b.snap.pods {
		p := &b.snap.pods[i]
		// A pod that ended is no worker, and may stay on record for long, as evicted ones do.
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed && !slices.Contains(s.Pods, p.Name)
		if ended || s.Namespace != "" && p.Namespace != s.Namespace {
			continue
		}
		load := b.workloadOf(p)
		c, engine := b.engineOf(p, load)
		if engine == "" && !slices.Contains(s.Pods, p.Name) && (s.Pool == "" || load.name != s.Pool) {
			continue
		}
		b.found = append(b.found, b.worker(p, load, c, engine))
		b.workerPods[p.Namespace+"/"+p.Name], b.poolOf[p.Namespace+"/"+p.Name] = p, load.name
		if load.name == "" {
			continue
		}
		if _, ok := index[load]; !ok {
			index[load] = len(b.pools)
			b.pools = append(b.pools, pool{key: load})
		}
		at := &b.pools[index[load]]
		at.pods = append(at.pods, p)
	}
	b.complete()
}

// engineOf returns the container of a pod that runs an engine, and the engine. A router or frontend
// has none.
func (b *builder) engineOf(p *corev1.Pod, load object) (corev1.Container, string) {
	c, engine := engineContainer(p.Spec)
	ray := p.Labels[rayCluster]
	switch {
	case isFrontend(p):
		return c, ""
	case ray != "" && engine == "" && hasGPU(p) && b.singleEngine[rayClusterOf(p)]:
		return c, "vllm" // Ray starts it; the command line is Ray's
	case ray != "" && engine == "" && hasGPU(p):
		return c, b.served(p, load).engine // the same
	case isMultiNode(p) && engine == "" && hasGPU(p):
		return c, "vllm" // over Ray, in KServe's own server, which the command line names
	case ray != "" && p.Labels[rayNode] == "head" && !hasGPU(p) && !b.singleEngine[rayClusterOf(p)]:
		return c, ""
	}
	return c, engine
}

func (b *builder) worker(p *corev1.Pod, load object, c corev1.Container, engine string) state.Worker {
	command := commandOf(c)
	owner := b.ownerOf(p, load)
	w := state.Worker{Namespace: p.Namespace, Pod: p.Name, UID: string(p.UID), Pool: load.name, PoolKind: load.kind,
		Model: cmp.Or(modelOf(c), b.served(p, load).id, p.Labels["nvidia.com/dynamo-base-model"], p.Labels["model"]),
		Node:  p.Spec.NodeName, Instance: instanceOf(p, c), Engine: engine, Ready: ready(p),
		Group: b.groupOf(p, load, command), Owner: owner.name, OwnerKind: owner.kind, Routes: b.routesOf(p)}
	if engine != "" {
		w.Role = b.roleOf(p, command)
	}
	return w
}

// complete copies values between workers. The ranks of a group serve the model of their leader. A
// decode role counts only if the namespace has prefill workers, because controllers also label
// workers "decode" that compute both phases.
func (b *builder) complete() {
	type key struct{ namespace, name string }
	models, engines, prefill := map[key]string{}, map[key]string{}, map[string]bool{}
	for _, w := range b.found {
		if w.Group != "" {
			k := key{w.Namespace, w.EngineKey()}
			models[k], engines[k] = cmp.Or(models[k], w.Model), cmp.Or(engines[k], w.Engine)
		}
		prefill[w.Namespace] = prefill[w.Namespace] || w.Role == "prefill"
	}
	for i := range b.found {
		w := &b.found[i]
		// Engines that share the pod may serve different models.
		several := len(b.placed[w.Namespace+"/"+w.Pod].models) > 1
		if k := (key{w.Namespace, w.EngineKey()}); w.Group != "" && !several {
			w.Model, w.Engine = cmp.Or(w.Model, models[k]), cmp.Or(w.Engine, engines[k])
		}
		if w.Role == "decode" && !prefill[w.Namespace] {
			w.Role = ""
		}
	}
}
