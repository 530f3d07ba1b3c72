package cluster

import (
	"context"
	"errors"
	"time"
)

// OpIDAnnotation marks an object with the run that wrote it last. It is set in the same request as
// the change.
const OpIDAnnotation = "paramedic.dev/op-id"

// FieldManager is the name under which Kubernetes records our writes.
const FieldManager = "paramedic"

// The errors of a [Cluster] that the runner tells apart. Everything else means that it is not known
// whether a write happened.
var (
	// ErrNotFound means that there is no such object.
	ErrNotFound = errors.New("not found")
	// ErrConflict means that a precondition of the write did not hold, and that nothing was
	// written.
	ErrConflict = errors.New("the object is not what it was")
	// ErrBlocked means that a disruption budget refuses the eviction now, and that nothing was
	// written.
	ErrBlocked = errors.New("blocked by a disruption budget")
	// ErrForbidden means that the service account may not do this, and that nothing was written.
	ErrForbidden = errors.New("forbidden")
	// ErrRefused means that the request will never be accepted as it is, and that nothing was
	// written.
	ErrRefused = errors.New("refused")
)

// A Reader reads one cluster. Every read is uncached: guards judge what is, not what was.
// Implementations MUST wrap ErrNotFound where the object does not exist, and MUST fail rather than
// answer with a part.
type Reader interface {
	Workload(ctx context.Context, ref Ref) (Workload, error)
	Pod(ctx context.Context, namespace, name string) (Pod, error)
	// Pods lists the pods that the workload controls, terminating ones too.
	Pods(ctx context.Context, w Workload) ([]Pod, error)
	// Namespace reads the namespace's labels and what in it decides over pods.
	Namespace(ctx context.Context, name string) (Namespace, error)
}

// A Writer writes to one cluster. Patches are JSON Patches (RFC 6902) on the object in Kubernetes'
// JSON form. With dryRun the request is judged and nothing is stored. Implementations MUST apply a
// patch all or nothing, and MUST wrap the errors above only where they are certain that nothing was
// written.
type Writer interface {
	PatchWorkload(ctx context.Context, ref Ref, patch []byte, dryRun bool) (Workload, error)
	PatchPod(ctx context.Context, namespace, name string, patch []byte, dryRun bool) (Pod, error)
	// Evict evicts the pod under its disruption budgets, and only while it has this UID.
	Evict(ctx context.Context, namespace, name, uid string, dryRun bool) error
}

// A Cluster is what first aid needs of a cluster.
type Cluster interface {
	Reader
	Writer
}

// A Ref names a workload.
type Ref struct{ Namespace, Kind, Name string }

// A Workload is a Deployment or StatefulSet, as far as first aid has to know it.
type Workload struct {
	Ref
	UID         string
	Generation  int64
	Observed    int64 // the generation that the status speaks of
	Created     time.Time
	Labels      map[string]string
	Annotations map[string]string
	Owners      []Owner
	Managers    []Manager
	Selector    map[string]string
	// Odd says that the selector has more than plain labels, and that what Selector says is not
	// all.
	Odd        bool
	Containers []Container

	Replicas, Current, Updated, Ready, Available int
	// MaxUnavailable and MaxSurge are absolute numbers; Recreate says that a rollout stops
	// everything first.
	MaxUnavailable, MaxSurge int
	Recreate, Paused         bool
}

// RollingOut says whether a rollout is under way, paused, or not yet seen by the controller.
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

// A Manager is an entry of managedFields: who wrote which fields when.
type Manager struct {
	Name   string
	Status bool // wrote a subresource
	At     time.Time
	// Owns are the paths written, as in spec.template.spec.containers[vllm].args.
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

// A Namespace is a namespace with what in it decides over pods.
type Namespace struct {
	Name        string
	Labels      map[string]string
	Services    []Selection
	Budgets     []Budget
	Autoscalers []Autoscaler
}

// A Selection is a Service and what it selects. An empty selector selects nothing.
type Selection struct {
	Name     string
	Selector map[string]string
}

// A Budget is a PodDisruptionBudget. Odd says that its selector has more than plain labels.
type Budget struct {
	Name     string
	Selector map[string]string
	Odd      bool
	Allowed  int // disruptions allowed now
}

// An Autoscaler is what sets a workload's replicas.
type Autoscaler struct {
	Kind, Name string
	Target     Ref
	// Known reports whether its status says how many replicas it wants: Desired, where it saw
	// Current.
	Known            bool
	Current, Desired int
}

// selects says whether a label selector that is not empty matches.
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

func CountReady(pods []Pod) (n int) {
	for _, p := range pods {
		if p.Ready && !p.Terminating {
			n++
		}
	}
	return n
}
