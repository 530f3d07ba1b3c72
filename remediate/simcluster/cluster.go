package simcluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	"paramedic/remediate/cluster"
)

// Workload reads a Deployment.
func (c *Cluster) Workload(ctx context.Context, ref cluster.Ref) (cluster.Workload, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return cluster.Workload{}, err
	}
	return c.workload(ref)
}

func (c *Cluster) workload(ref cluster.Ref) (cluster.Workload, error) {
	doc, ok := c.docs[ref]
	if !ok {
		return cluster.Workload{}, fmt.Errorf("%s %s/%s: %w", ref.Kind, ref.Namespace, ref.Name, cluster.ErrNotFound)
	}
	var o struct {
		Metadata struct {
			UID         string            `json:"uid"`
			Generation  int64             `json:"generation"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Spec struct {
			Replicas int `json:"replicas"`
			Template struct {
				Spec struct {
					Containers []cluster.Container `json:"containers"`
				} `json:"spec"`
			} `json:"template"`
		} `json:"spec"`
	}
	b, err := json.Marshal(doc)
	if err == nil {
		err = json.Unmarshal(b, &o)
	}
	if err != nil {
		return cluster.Workload{}, fmt.Errorf("reading %s: %w", ref.Name, err)
	}
	d := c.specs[ref]
	w := cluster.Workload{Ref: ref, UID: o.Metadata.UID, Generation: o.Metadata.Generation,
		Observed: o.Metadata.Generation, Created: c.created[ref],
		Labels: d.Labels, Annotations: o.Metadata.Annotations, Managers: c.managers[ref],
		Selector: d.Selector, Containers: o.Spec.Template.Spec.Containers,
		Replicas: o.Spec.Replicas, MaxUnavailable: d.MaxUnavailable, MaxSurge: d.MaxSurge}
	for _, p := range c.of(ref) {
		w.Current++
		w.Updated++
		if p.Ready {
			w.Ready++
			w.Available++
		}
	}
	w.Updated = max(w.Updated, w.Replicas)
	w.Current = min(w.Current, w.Updated)
	if c.Stuck && w.Generation > 1 {
		w.Updated = 0
	}
	return w, nil
}

// of returns a workload's pods, with their readiness now.
func (c *Cluster) of(ref cluster.Ref) []cluster.Pod {
	var out []cluster.Pod
	for _, p := range c.pods {
		if p.of == ref {
			out = append(out, c.seen(p))
		}
	}
	return out
}

func (c *Cluster) seen(p *pod) cluster.Pod {
	out := p.Pod
	out.Labels, out.Annotations = maps.Clone(p.Labels), maps.Clone(p.Annotations)
	out.Ready = !c.clock.Now().Before(p.readyAt)
	return out
}

// Pod reads a pod.
func (c *Cluster) Pod(ctx context.Context, namespace, name string) (cluster.Pod, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return cluster.Pod{}, err
	}
	if i := c.index(namespace, name); i >= 0 {
		return c.seen(c.pods[i]), nil
	}
	return cluster.Pod{}, fmt.Errorf("pod %s/%s: %w", namespace, name, cluster.ErrNotFound)
}

func (c *Cluster) index(namespace, name string) int {
	for i, p := range c.pods {
		if p.Namespace == namespace && p.Name == name {
			return i
		}
	}
	return -1
}

// Pods lists a workload's pods.
func (c *Cluster) Pods(ctx context.Context, w cluster.Workload) ([]cluster.Pod, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of(w.Ref), ctx.Err()
}

// Namespace reads a namespace.
func (c *Cluster) Namespace(ctx context.Context, name string) (cluster.Namespace, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ns, ok := c.namespaces[name]
	if !ok {
		return cluster.Namespace{}, fmt.Errorf("namespace %s: %w", name, cluster.ErrNotFound)
	}
	out := *ns
	out.Budgets = nil
	for _, b := range ns.Budgets {
		b.Allowed = c.allowed(name, b)
		out.Budgets = append(out.Budgets, b)
	}
	return out, ctx.Err()
}

func (c *Cluster) allowed(namespace string, b cluster.Budget) int {
	n := -c.budgets[namespace][b.Name]
	for _, p := range c.pods {
		if p.Namespace == namespace && matches(b.Selector, p.Labels) && c.seen(p).Ready {
			n++
		}
	}
	return max(0, n)
}

func matches(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

// PatchWorkload applies a JSON Patch; a changed template replaces the pods.
func (c *Cluster) PatchWorkload(
	ctx context.Context, ref cluster.Ref, body []byte, dryRun bool,
) (cluster.Workload, error) {
	object := "deployments/" + ref.Name
	if !dryRun {
		if err := interrupted(ctx, c.Before, "patch", object); err != nil {
			return cluster.Workload{}, err
		}
	}
	w, err := c.patchWorkload(ref, body, dryRun, object)
	if err == nil && !dryRun {
		err = interrupted(ctx, c.After, "patch", object)
	}
	return w, err
}

func (c *Cluster) patchWorkload(ref cluster.Ref, body []byte, dryRun bool, object string) (cluster.Workload, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	doc, ok := c.docs[ref]
	if !ok {
		return cluster.Workload{}, cluster.ErrNotFound
	}
	next, err := patched(doc, body)
	if err != nil || dryRun {
		return cluster.Workload{}, err
	}
	if !reflect.DeepEqual(doc["spec"], next["spec"]) {
		meta := next["metadata"].(map[string]any)
		meta["generation"] = meta["generation"].(float64) + 1
		c.roll(ref)
	}
	c.docs[ref] = next
	w, err := c.workload(ref)
	c.changed(Change{"patch", object, w.Annotations[cluster.OpIDAnnotation]})
	return w, err
}

// roll replaces every pod of a workload.
func (c *Cluster) roll(ref cluster.Ref) {
	if c.Stuck {
		return
	}
	kept := c.pods[:0:0]
	n := 0
	for _, p := range c.pods {
		if p.of == ref {
			n++
			continue
		}
		kept = append(kept, p)
	}
	c.pods = kept
	for range n {
		c.start(ref, "", false)
	}
}

func (c *Cluster) changed(ch Change) {
	c.changes = append(c.changes, ch)
	if c.OnChange != nil {
		c.OnChange(ch)
	}
}

// PatchPod applies a JSON Patch to a pod's metadata.
func (c *Cluster) PatchPod(ctx context.Context, namespace, name string, body []byte, dryRun bool) (cluster.Pod, error) {
	object := "pods/" + name
	if !dryRun {
		if err := interrupted(ctx, c.Before, "patch", object); err != nil {
			return cluster.Pod{}, err
		}
	}
	p, err := c.patchPod(namespace, name, body, dryRun, object)
	if err == nil && !dryRun {
		err = interrupted(ctx, c.After, "patch", object)
	}
	return p, err
}

func (c *Cluster) patchPod(namespace, name string, body []byte, dryRun bool, object string) (cluster.Pod, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.index(namespace, name)
	if i < 0 {
		return cluster.Pod{}, cluster.ErrNotFound
	}
	p := c.pods[i]
	meta := map[string]any{"uid": p.UID, "labels": p.Labels}
	if len(p.Annotations) > 0 {
		meta["annotations"] = p.Annotations
	}
	next, err := patched(map[string]any{"metadata": meta}, body)
	if err != nil || dryRun {
		return c.seen(p), err
	}
	m := next["metadata"].(map[string]any)
	p.Labels, p.Annotations = texts(m["labels"]), texts(m["annotations"])
	c.changed(Change{"patch", object, p.Annotations[cluster.OpIDAnnotation]})
	return c.seen(p), nil
}

func texts(v any) map[string]string {
	out := map[string]string{}
	m, _ := v.(map[string]any)
	for k, x := range m {
		out[k] = fmt.Sprint(x)
	}
	return out
}

// Evict removes the pod and starts another in its place.
func (c *Cluster) Evict(ctx context.Context, namespace, name, uid string, dryRun bool) error {
	object := "pods/" + name + "/eviction"
	if !dryRun {
		if err := interrupted(ctx, c.Before, "create", object); err != nil {
			return err
		}
	}
	err := c.evict(namespace, name, uid, dryRun, object)
	if err == nil && !dryRun {
		err = interrupted(ctx, c.After, "create", object)
	}
	return err
}

func (c *Cluster) evict(namespace, name, uid string, dryRun bool, object string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.index(namespace, name)
	if i < 0 {
		return cluster.ErrNotFound
	}
	p := c.pods[i]
	if p.UID != uid {
		return fmt.Errorf("uid is %s: %w", p.UID, cluster.ErrConflict)
	}
	covering := 0
	for _, b := range c.namespaces[namespace].Budgets {
		if !matches(b.Selector, p.Labels) {
			continue
		}
		if covering++; covering > 1 {
			return fmt.Errorf("more than one budget: %w", cluster.ErrRefused)
		}
		if c.allowed(namespace, b) < 1 {
			return fmt.Errorf("budget %s: %w", b.Name, cluster.ErrBlocked)
		}
	}
	if dryRun {
		return nil
	}
	c.pods = append(c.pods[:i:i], c.pods[i+1:]...)
	c.start(p.of, "", false)
	c.changed(Change{"create", object, p.Annotations[cluster.OpIDAnnotation]})
	return nil
}
