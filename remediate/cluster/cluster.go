package cluster

import (
	"context"
	"errors"
	"time"
)

// OpIDAnnotation marks an object with the run that wrote it last. The same request sets it and
// makes the change.
const OpIDAnnotation = "paramedic.dev/op-id"

// FieldManager is the manager that Kubernetes records for the writes of first aid.
const FieldManager = "paramedic"

// The errors of a [Cluster] that callers distinguish. After any other error it is unknown whether
// the write happened.
var (
	// ErrNotFound means that there is no such object.
	ErrNotFound = errors.New("not found")
	// ErrConflict means that a precondition of the write did not hold. Nothing was written.
	ErrConflict = errors.New("the object changed since it was read")
	// ErrBlocked means that a disruption budget refuses the eviction now. Nothing was written.
	ErrBlocked = errors.New("a PodDisruptionBudget blocks the eviction")
	// ErrForbidden means that the service account may not do this. Nothing was written.
	ErrForbidden = errors.New("forbidden")
	// ErrRefused means that the API server will never accept the request as it is. Nothing was
	// written.
	ErrRefused = errors.New("refused")
)

// A Reader reads one cluster. Every read is uncached, because guards judge the present state.
// Implementations MUST wrap ErrNotFound if the object does not exist, and MUST fail rather than
// return a part.
type Reader interface {
	Workload(ctx context.Context, ref Ref) (Workload, error)
	Pod(ctx context.Context, namespace, name string) (Pod, error)
	// Pods lists the pods that the workload controls, including those that terminate.
	Pods(ctx context.Context, w Workload) ([]Pod, error)
	// Namespace reads the namespace's labels, and the Services, budgets and autoscalers in it.
	Namespace(ctx context.Context, name string) (Namespace, error)
}

// A Writer writes to one cluster. Patches are JSON Patches (RFC 6902) of the object in Kubernetes'
// JSON form. With dryRun the API server judges the request and stores nothing. Implementations MUST
// apply a patch all or nothing. They MUST wrap the errors above only if they are certain that
// nothing was written.
type Writer interface {
	PatchWorkload(ctx context.Context, ref Ref, patch []byte, dryRun bool) (Workload, error)
	PatchPod(ctx context.Context, namespace, name string, patch []byte, dryRun bool) (Pod, error)
	// Evict evicts the pod under its disruption budgets, and only if it has this UID.
	Evict(ctx context.Context, namespace, name, uid string, dryRun bool) error
}

// A Cluster reads and writes one cluster.
type Cluster interface {
	Reader
	Writer
}

// A Ref names a workload.
type Ref struct{ Namespace, Kind, Name string }

// A Workload is a Deployment or StatefulSet, with the fields that first aid needs.
type Workload struct {
	Ref
	UID         string
	Generation  int64
	Observed    int64 // the generation that the status describes
	Created     time.Time
	Labels      map[string]string
	Annotations map[string]string
	Owners      []Owner
	Managers    []Manager
	Selector    map[string]string
	// ComplexSelector reports that the selector has more than plain labels, so that Selector is not
	// all of it.
	ComplexSelector bool
	Containers      []Container

	Replicas, Current, Updated, Ready, Available int
	// MaxUnavailable and MaxSurge are absolute numbers. Recreate means that a rollout first stops
	// every pod.
	MaxUnavailable, MaxSurge int
	Recreate, Paused         bool
}

// RollingOut reports whether a rollout is under way, paused, or not yet seen by the controller.
func (w Workload) RollingOut() bool {
	return w.Paused || w.Observed < w.Generation || w.Updated < w.Replicas || w.Current > w.Updated
}

// A Container is one container of a pod template.
type Container struct {
	Name, Image   string
	Command, Args []string
}

// An Owner is an owner reference.
type Owner struct {
	Kind, Name string
	Controller bool
}

// A Manager is an entry of managedFields: who wrote which fields, and when.
type Manager struct {
	Name   string
	Status bool // it wrote the status
	At     time.Time
	// Owns lists the paths written, such as spec.template.spec.containers[vllm].args.
	Owns []string
}

// A Pod is one worker.
type Pod struct {
	Namespace, Name, UID string
	Labels, Annotations  map[string]string
	Ready, Terminating   bool
	Node                 string
	Created              time.Time
	Owner                Owner
}

// A Namespace is a namespace with the objects in it that select pods or resize workloads.
type Namespace struct {
	Name        string
	Labels      map[string]string
	Services    []Selection
	Budgets     []Budget
	Autoscalers []Autoscaler
}

// A Selection is a Service and its selector. An empty selector selects nothing.
type Selection struct {
	Name     string
	Selector map[string]string
}

// A Budget is a PodDisruptionBudget.
type Budget struct {
	Name     string
	Selector map[string]string
	// ComplexSelector reports that the selector has more than plain labels, or no label at all.
	ComplexSelector bool
	Allowed         int // disruptions allowed now
}

// An Autoscaler sets the replicas of a workload.
type Autoscaler struct {
	Kind, Name string
	Target     Ref
	// Known reports whether the status has the replicas that it wants (Desired) and that it saw
	// (Current).
	Known            bool
	Current, Desired int
}

// Selects reports whether a label selector matches. An empty selector matches nothing.
func Selects(selector, labels map[string]string) bool {
	if len(selector) == 0 {
		return false
	}
	for k, v := range selector {
		if have, ok := labels[k]; !ok || have != v {
			return false
		}
	}
	return true
}

// CountReady returns how many pods are ready and do not terminate.
func CountReady(pods []Pod) (n int) {
	for _, p := range pods {
		if p.Ready && !p.Terminating {
			n++
		}
	}
	return n
}
