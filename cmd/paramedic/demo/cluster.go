package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"paramedic/lab"
	"paramedic/remediate/cluster"
)

// A fleetCluster lets first aid treat the simulated fleet like a real cluster, with the same reads,
// JSON Patches and preconditions.
type fleetCluster struct {
	fleet *lab.Fleet

	mu   sync.Mutex
	pods map[string]podMarks // by UID: what was patched on a pod
}

// podMarks holds the labels and annotations that patches set on a pod.
type podMarks struct{ labels, annotations map[string]string }

func newFleetCluster(fleet *lab.Fleet) *fleetCluster {
	return &fleetCluster{fleet: fleet, pods: map[string]podMarks{}}
}

// Workload returns the pool's Deployment.
func (d *fleetCluster) Workload(_ context.Context, ref cluster.Ref) (cluster.Workload, error) {
	dep := d.fleet.Deployment()
	if ref.Namespace != dep.Namespace || ref.Name != dep.Name {
		return cluster.Workload{}, fmt.Errorf("%s %s/%s: %w", ref.Kind, ref.Namespace, ref.Name, cluster.ErrNotFound)
	}
	current := 0
	for _, p := range d.fleet.Pods() {
		if !p.Terminating {
			current++
		}
	}
	return cluster.Workload{
		Ref: cluster.Ref{Namespace: dep.Namespace, Kind: "Deployment", Name: dep.Name}, UID: dep.UID,
		Generation: dep.Generation, Observed: dep.ObservedGeneration, Created: d.fleet.Start(),
		Labels:      map[string]string{"app": dep.Name},
		Annotations: dep.Annotations, Selector: map[string]string{"app": dep.Name},
		Containers: []cluster.Container{{Name: dep.Container, Image: dep.Image, Args: dep.Args}},
		Replicas:   dep.Replicas, Current: current, Updated: dep.Updated, Ready: dep.Ready, Available: dep.Ready,
		MaxSurge: 1,
	}, nil
}

// Pod returns one worker.
func (d *fleetCluster) Pod(_ context.Context, namespace, name string) (cluster.Pod, error) {
	for _, p := range d.fleet.Pods() {
		if p.Namespace == namespace && p.Name == name {
			return d.seen(p), nil
		}
	}
	return cluster.Pod{}, fmt.Errorf("pod %s/%s: %w", namespace, name, cluster.ErrNotFound)
}

func (d *fleetCluster) seen(p lab.Pod) cluster.Pod {
	d.mu.Lock()
	marks := d.pods[p.UID]
	d.mu.Unlock()
	labels := maps.Clone(p.Labels)
	maps.Copy(labels, marks.labels)
	return cluster.Pod{Namespace: p.Namespace, Name: p.Name, UID: p.UID, Labels: labels,
		Annotations: maps.Clone(marks.annotations),
		Ready:       p.Ready, Terminating: p.Terminating, Node: p.Node, Created: p.Created,
		Owner: cluster.Owner{Kind: "ReplicaSet", Name: d.fleet.Deployment().Name + "-" + p.TemplateHash,
			Controller: true}}
}

// Pods returns the pool's workers.
func (d *fleetCluster) Pods(_ context.Context, _ cluster.Workload) ([]cluster.Pod, error) {
	var out []cluster.Pod
	for _, p := range d.fleet.Pods() {
		out = append(out, d.seen(p))
	}
	return out, nil
}

// Namespace returns the fleet's namespace, which has opted in to first aid.
func (d *fleetCluster) Namespace(_ context.Context, name string) (cluster.Namespace, error) {
	dep, budget := d.fleet.Deployment(), d.fleet.Budget()
	if name != dep.Namespace {
		return cluster.Namespace{}, fmt.Errorf("namespace %s: %w", name, cluster.ErrNotFound)
	}
	return cluster.Namespace{Name: name, Labels: map[string]string{"paramedic.dev/managed": "true"},
		Services: []cluster.Selection{{Name: dep.Name,
			Selector: map[string]string{"app": dep.Name, "serving": "true"}}},
		Budgets: []cluster.Budget{{Name: budget.Name, Selector: map[string]string{"app": dep.Name},
			Allowed: budget.DisruptionsAllowed}}}, nil
}

// An object is the part of a Kubernetes object that patches change.
type object struct {
	Metadata struct {
		UID         string            `json:"uid"`
		Generation  int64             `json:"generation,omitempty"`
		Labels      map[string]string `json:"labels,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`
	} `json:"metadata"`
	Spec struct {
		Template struct {
			Spec struct {
				Containers []container `json:"containers"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

type container struct {
	Name  string   `json:"name"`
	Image string   `json:"image"`
	Args  []string `json:"args"`
}

// apply applies a JSON Patch to an object, all or nothing.
func (o object) apply(body []byte) (object, error) {
	patch, err := jsonpatch.DecodePatch(body)
	if err != nil {
		return o, fmt.Errorf("decoding the patch: %w: %w", cluster.ErrRefused, err)
	}
	doc, err := json.Marshal(o)
	if err != nil {
		return o, fmt.Errorf("encoding the object: %w", err)
	}
	if doc, err = patch.Apply(doc); err != nil {
		return o, fmt.Errorf("%w: %w", cluster.ErrConflict, err)
	}
	var out object
	if err := json.Unmarshal(doc, &out); err != nil {
		return o, fmt.Errorf("%w: %w", cluster.ErrRefused, err)
	}
	return out, nil
}

// PatchWorkload edits the Deployment's arguments, which rolls the pool.
func (d *fleetCluster) PatchWorkload(ctx context.Context, ref cluster.Ref, body []byte, dryRun bool) (cluster.Workload,
	error) {
	w, err := d.Workload(ctx, ref)
	if err != nil {
		return w, err
	}
	var was object
	was.Metadata.UID, was.Metadata.Generation, was.Metadata.Labels, was.Metadata.Annotations = w.UID, w.Generation,
		w.Labels, w.Annotations
	was.Spec.Template.Spec.Containers = []container{{Name: w.Containers[0].Name, Image: w.Containers[0].Image,
		Args: w.Containers[0].Args}}
	now, err := was.apply(body)
	if err != nil || dryRun {
		return w, err
	}
	before, after := w.Containers[0].Args, now.Spec.Template.Spec.Containers[0].Args
	for i := range after {
		if i < len(before) && before[i] == after[i] {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimLeft(after[i], "-"), "=")
		if !ok || i >= len(before) {
			return w, fmt.Errorf("the simulated engine takes arguments as --name=value only: %w", cluster.ErrRefused)
		}
		_, old, _ := strings.Cut(before[i], "=")
		err := d.fleet.SetArg(lab.ArgChange{UID: w.UID, Name: name, Old: old, New: value,
			Annotations: now.Metadata.Annotations})
		if err != nil {
			return w, labError(err)
		}
		return d.Workload(ctx, ref)
	}
	d.fleet.Annotate(now.Metadata.Annotations)
	return d.Workload(ctx, ref)
}

// PatchPod edits a worker's labels. The Service drops the worker when its label no longer matches.
func (d *fleetCluster) PatchPod(ctx context.Context, namespace, name string, body []byte, dryRun bool) (cluster.Pod,
	error) {
	p, err := d.Pod(ctx, namespace, name)
	if err != nil {
		return p, err
	}
	var was object
	was.Metadata.UID, was.Metadata.Labels, was.Metadata.Annotations = p.UID, p.Labels, p.Annotations
	now, err := was.apply(body)
	if err != nil || dryRun {
		return p, err
	}
	change := d.fleet.Isolate
	if now.Metadata.Labels["serving"] == "true" {
		change = d.fleet.Rejoin
	}
	if err := change(name, p.UID); err != nil {
		return p, labError(err)
	}
	d.mu.Lock()
	d.pods[p.UID] = podMarks{labels: now.Metadata.Labels, annotations: now.Metadata.Annotations}
	d.mu.Unlock()
	return d.Pod(ctx, namespace, name)
}

// Evict evicts a worker under the pool's disruption budget.
func (d *fleetCluster) Evict(ctx context.Context, namespace, name, uid string, dryRun bool) error {
	p, err := d.Pod(ctx, namespace, name)
	switch {
	case err != nil:
		return err
	case p.UID != uid:
		return fmt.Errorf("pod %s has another UID: %w", name, cluster.ErrConflict)
	case dryRun && d.fleet.Budget().DisruptionsAllowed == 0:
		return cluster.ErrBlocked
	case dryRun:
		return nil
	}
	return labError(d.fleet.Evict(name, uid))
}

// labError maps an error of the fleet to first aid's error.
func labError(err error) error {
	switch {
	case errors.Is(err, lab.ErrNotFound):
		return fmt.Errorf("%w: %w", cluster.ErrNotFound, err)
	case errors.Is(err, lab.ErrConflict):
		return fmt.Errorf("%w: %w", cluster.ErrConflict, err)
	case errors.Is(err, lab.ErrDisruption):
		return fmt.Errorf("%w: %w", cluster.ErrBlocked, err)
	}
	return err
}
