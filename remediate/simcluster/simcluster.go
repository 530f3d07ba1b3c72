// Package simcluster simulates a Kubernetes cluster in memory, with as much of it as first aid
// uses. It has Deployments whose pods follow their template, JSON Patches that apply all or
// nothing, and evictions under disruption budgets with UID preconditions. The tests write to it.
// Hooks lose a request or an answer, and delay the start of workers.
package simcluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"paramedic/remediate/cluster"
	"paramedic/state"
)

// A Deployment describes the Deployment to create.
type Deployment struct {
	Namespace, Name          string
	Labels, Annotations      map[string]string
	Selector, PodLabels      map[string]string // PodLabels include the selector
	Container, Image         string
	Command, Args            []string
	Replicas                 int
	MaxUnavailable, MaxSurge int
	Pods                     []string // names of the first pods; the others get generated names
}

// A Change is one write that took effect.
type Change struct {
	Verb, Object, Op string // Op is the op-id that the object carries after it
}

// A Cluster is a cluster in memory. Its zero value is not usable; see [New].
type Cluster struct {
	// Before is called ahead of each request other than a dry run. After is called once it took
	// effect. An error of After loses the answer.
	Before, After func(verb, object string) error
	// StartDelay is the time until a new pod is ready.
	StartDelay time.Duration
	// Stuck keeps rollouts from making progress: workers stay as they are, and none of them is
	// updated.
	Stuck bool
	// OnChange is called for every write that took effect.
	OnChange func(Change)

	clock state.Clock

	mu         sync.Mutex
	n          int
	docs       map[cluster.Ref]map[string]any
	specs      map[cluster.Ref]Deployment
	managers   map[cluster.Ref][]cluster.Manager
	created    map[cluster.Ref]time.Time
	pods       []*pod
	namespaces map[string]*cluster.Namespace
	budgets    map[string]map[string]int // namespace, budget: minAvailable
	changes    []Change
}

type pod struct {
	cluster.Pod
	of      cluster.Ref
	readyAt time.Time
}

var _ cluster.Cluster = (*Cluster)(nil)

// New returns an empty cluster.
func New(clock state.Clock) *Cluster {
	return &Cluster{
		clock: clock, docs: map[cluster.Ref]map[string]any{}, specs: map[cluster.Ref]Deployment{},
		managers: map[cluster.Ref][]cluster.Manager{}, created: map[cluster.Ref]time.Time{},
		namespaces: map[string]*cluster.Namespace{}, budgets: map[string]map[string]int{},
	}
}

// AddNamespace makes a namespace, or sets its labels and Services.
func (c *Cluster) AddNamespace(name string, labels map[string]string, services ...cluster.Selection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.namespaces[name] = &cluster.Namespace{Name: name, Labels: labels, Services: services}
}

// AddBudget makes a disruption budget.
func (c *Cluster) AddBudget(namespace, name string, selector map[string]string, minAvailable int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ns := c.namespaces[namespace]
	ns.Budgets = append(ns.Budgets, cluster.Budget{Name: name, Selector: selector})
	if c.budgets[namespace] == nil {
		c.budgets[namespace] = map[string]int{}
	}
	c.budgets[namespace][name] = minAvailable
}

// AddDeployment makes a Deployment with its pods, all of them ready.
func (c *Cluster) AddDeployment(d Deployment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ref := cluster.Ref{Namespace: d.Namespace, Kind: "Deployment", Name: d.Name}
	annotations := map[string]any{"deployment.kubernetes.io/revision": "1"}
	for k, v := range d.Annotations {
		annotations[k] = v
	}
	container := map[string]any{"name": d.Container, "image": d.Image}
	if len(d.Command) > 0 {
		container["command"] = anys(d.Command)
	}
	if len(d.Args) > 0 {
		container["args"] = anys(d.Args)
	}
	c.docs[ref] = map[string]any{
		"metadata": map[string]any{"name": d.Name, "namespace": d.Namespace, "uid": c.uid("dep"), "generation": float64(1),
			"annotations": annotations},
		"spec": map[string]any{"replicas": float64(d.Replicas),
			"template": map[string]any{"spec": map[string]any{"containers": []any{container}}}},
	}
	c.specs[ref], c.created[ref] = d, c.clock.Now()
	for i := range d.Replicas {
		name := ""
		if i < len(d.Pods) {
			name = d.Pods[i]
		}
		c.start(ref, name, true)
	}
}

func (c *Cluster) uid(kind string) string {
	c.n++
	return fmt.Sprintf("%s-%04d", kind, c.n)
}

func (c *Cluster) start(ref cluster.Ref, name string, isReady bool) {
	d, uid := c.specs[ref], c.uid("pod")
	if name == "" {
		name = fmt.Sprintf("%s-%05x", d.Name, 0x7d9f8+c.n*7919)
	}
	p := &pod{of: ref, Pod: cluster.Pod{
		Namespace: d.Namespace, Name: name, UID: uid, Labels: maps.Clone(d.PodLabels), Annotations: map[string]string{},
		Created: c.clock.Now(), Owner: cluster.Owner{Kind: "ReplicaSet", Name: d.Name, Controller: true},
	}}
	if !isReady {
		p.readyAt = c.clock.Now().Add(c.StartDelay)
	}
	c.pods = append(c.pods, p)
}

// Edit changes a workload as a person with kubectl does. The function sets the template's args or
// other fields.
func (c *Cluster) Edit(ref cluster.Ref, manager string, edit func(doc map[string]any)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	edit(c.docs[ref])
	meta := c.docs[ref]["metadata"].(map[string]any)
	meta["generation"] = meta["generation"].(float64) + 1
	c.managers[ref] = append(c.managers[ref],
		cluster.Manager{Name: manager, At: c.clock.Now(), Owns: []string{"spec.template"}})
}

// SetArgs sets the first container's args, as Edit does.
func (c *Cluster) SetArgs(ref cluster.Ref, manager string, args ...string) {
	c.Edit(ref, manager, func(doc map[string]any) {
		containers := doc["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["containers"].([]any)
		containers[0].(map[string]any)["args"] = anys(args)
	})
}

// EditPod changes a pod in place.
func (c *Cluster) EditPod(namespace, name string, edit func(*cluster.Pod)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pods {
		if p.Namespace == namespace && p.Name == name {
			edit(&p.Pod)
		}
	}
}

// Changes lists the writes that took effect.
func (c *Cluster) Changes() []Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.changes)
}

func anys(s []string) []any {
	out := make([]any, len(s))
	for i, v := range s {
		out[i] = v
	}
	return out
}

// patched returns the document after a JSON Patch. Like the API server, it applies all or nothing.
// It does not change the document itself.
func patched(doc map[string]any, body []byte) (map[string]any, error) {
	patch, err := jsonpatch.DecodePatch(body)
	if err != nil {
		return nil, fmt.Errorf("%w: reading the patch: %w", cluster.ErrRefused, err)
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("encoding the object: %w", err)
	}
	if raw, err = patch.Apply(raw); err != nil {
		return nil, fmt.Errorf("%w: %w", cluster.ErrConflict, err)
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, fmt.Errorf("%w: reading the patched object: %w", cluster.ErrRefused, err)
	}
	return out, nil
}

func interrupted(ctx context.Context, hook func(string, string) error, verb, object string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if hook == nil {
		return nil
	}
	return hook(verb, object)
}
