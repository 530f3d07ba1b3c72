package lab

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// The reasons for which a write is refused. An adapter maps them to its own interface's errors.
var (
	ErrNotFound   = errors.New("not found")
	ErrConflict   = errors.New("the object is not what the caller saw")
	ErrDisruption = errors.New("the disruption budget allows no eviction now")
)

// A Deployment is the pool as the API server returns it.
type Deployment struct {
	Namespace, Name, UID string
	Generation           int64
	ObservedGeneration   int64
	ResourceVersion      string
	Revision             int
	TemplateHash         string
	Container, Image     string
	Args                 []string
	Annotations          map[string]string
	TemplateAnnotations  map[string]string
	Replicas             int
	Updated, Ready       int
	RolloutStarted       time.Time // when the newest ReplicaSet was created
	Complete             bool      // every pod has the newest revision and is ready
}

// A Pod is a worker as the API server returns it, with its engine's load.
type Pod struct {
	Namespace, Name, UID string
	Labels               map[string]string
	Node, IP             string
	GPUs                 []string // UUIDs
	TemplateHash         string
	Ready                bool
	InService            bool // the Service selects it
	Terminating          bool
	Created, Started     time.Time
	Restarts             int
	LastTermination      string
	LastExitCode         int
	LastWords            string // the end of its log, as kept with FallbackToLogsOnError
	Waiting              string // the container's waiting reason

	Running, Waitlist int // requests
	KVUsage           float64
	Preemptions       float64
	GeneratedTokens   float64
}

// A Budget is the pool's PodDisruptionBudget.
type Budget struct {
	Name               string
	MinAvailable       int
	Healthy            int
	DisruptionsAllowed int
}

// A Node is a machine as the API server returns it.
type Node struct {
	Name     string
	Cordoned bool
	GPUs     []string
}

// Deployment returns the pool.
func (f *Fleet) Deployment() Deployment {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := &f.deploy
	set := d.sets[len(d.sets)-1]
	out := Deployment{
		Namespace: f.cfg.Namespace, Name: f.cfg.Pool, UID: d.uid, Generation: d.generation, ObservedGeneration: d.generation,
		ResourceVersion: fmt.Sprint(d.version), Revision: set.revision, TemplateHash: d.hash, Container: f.cfg.Kind.Container(),
		Image: d.image, Args: slices.Clone(d.args),
		Annotations: maps.Clone(d.annotations), TemplateAnnotations: maps.Clone(d.template), Replicas: d.replicas,
		RolloutStarted: f.rolloutStarted(),
	}
	old := 0
	for _, w := range f.workers {
		if w.leaving {
			continue
		}
		out.Updated += boolInt(w.hash == d.hash)
		out.Ready += boolInt(w.phase == podReady)
		old += boolInt(w.hash != d.hash)
	}
	out.Complete = old == 0 && out.Updated == d.replicas && out.Ready >= d.replicas
	return out
}

// Pods returns the workers, oldest first.
func (f *Fleet) Pods() []Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]Pod, 0, len(f.workers))
	for _, w := range f.workers {
		out = append(out, f.pod(w))
	}
	return out
}

func (f *Fleet) pod(w *worker) Pod {
	p := Pod{
		Namespace: f.cfg.Namespace, Name: w.name, UID: w.uid, IP: w.ip, TemplateHash: w.hash,
		Labels: map[string]string{"app": f.cfg.Pool, "pod-template-hash": w.hash, "serving": fmt.Sprint(w.inService)},
		Ready:  w.phase == podReady, InService: w.inService, Terminating: w.leaving,
		Created: f.at(w.created), Started: f.at(w.started),
		Restarts: w.restarts, LastTermination: w.lastReason, LastExitCode: w.lastCode, LastWords: w.lastWords, Waiting: w.waitingReason(),
	}
	if w.node != nil {
		p.Node = w.node.Name
	}
	for _, g := range w.gpus {
		p.GPUs = append(p.GPUs, g.UUID)
	}
	if e := w.eng; e != nil {
		p.Running, p.Waitlist, p.KVUsage = e.Running(), e.Waiting(), e.KVUsage()
		p.Preemptions, p.GeneratedTokens = e.Preemptions(), e.GeneratedTokens()
	}
	return p
}

// Nodes returns the machines.
func (f *Fleet) Nodes() []Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []Node
	for _, n := range f.nodes {
		m := Node{Name: n.Name, Cordoned: n.Cordoned}
		for _, g := range n.GPUs {
			m.GPUs = append(m.GPUs, g.UUID)
		}
		out = append(out, m)
	}
	return out
}

// Budget returns the disruption budget.
func (f *Fleet) Budget() Budget {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.budget()
}

func (f *Fleet) budget() Budget {
	b := Budget{Name: f.cfg.Pool, MinAvailable: f.cfg.MinAvailable}
	for _, w := range f.workers {
		b.Healthy += boolInt(w.phase == podReady && !w.leaving)
	}
	b.DisruptionsAllowed = max(0, b.Healthy-b.MinAvailable)
	return b
}

// An ArgChange edits one argument of the pod template. If UID or Old is set, the edit requires that
// it still matches.
type ArgChange struct {
	UID         string
	Name        string // max_num_seqs or max-num-seqs
	Old, New    string
	Annotations map[string]string // set on the Deployment in the same write
}

// SetArg edits an argument, which starts a rolling restart.
func (f *Fleet) SetArg(c ArgChange) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := &f.deploy
	if c.UID != "" && c.UID != d.uid {
		return fmt.Errorf("deployment %s has UID %s: %w", f.cfg.Pool, d.uid, ErrConflict)
	}
	at, flag, old := f.cfg.Kind.Find(d.args, c.Name)
	if c.Old != "" && c.Old != old {
		return fmt.Errorf("%s is %q, not %q: %w", flag, old, c.Old, ErrConflict)
	}
	maps.Copy(d.annotations, c.Annotations)
	d.version++
	if at >= 0 && old == c.New {
		return nil
	}
	d.args = slices.Clone(d.args)
	if at < 0 {
		d.args = append(d.args, "")
		at = len(d.args) - 1
	}
	d.args[at] = flag + "=" + c.New
	d.generation++
	d.changed(f)
	return nil
}

// Annotate sets annotations of the Deployment; a value of "" removes one.
func (f *Fleet) Annotate(annotations map[string]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deploy.version++
	for k, v := range annotations {
		if f.deploy.annotations[k] = v; v == "" {
			delete(f.deploy.annotations, k)
		}
	}
}

// Isolate removes the label that the Service selects and the ReplicaSet does not, so that a worker
// gets no new requests. It finishes those that it has. Rejoin puts the label back. Both fail with
// ErrConflict if the pod has another UID.
func (f *Fleet) Isolate(pod, uid string) error { return f.serving(pod, uid, false) }

// Rejoin undoes Isolate.
func (f *Fleet) Rejoin(pod, uid string) error { return f.serving(pod, uid, true) }

func (f *Fleet) serving(pod, uid string, in bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	w, err := f.find(pod, uid)
	if err == nil {
		w.inService = in
	}
	return err
}

// Evict terminates a worker if the disruption budget allows it. Its ReplicaSet creates another.
func (f *Fleet) Evict(pod, uid string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	w, err := f.find(pod, uid)
	if err != nil {
		return err
	}
	b := f.budget()
	// A pod that is not ready may be evicted while the others fill the budget.
	if w.phase == podReady && b.DisruptionsAllowed < 1 || w.phase != podReady && b.Healthy < b.MinAvailable {
		return fmt.Errorf("evicting %s: %d healthy, %d needed: %w", pod, b.Healthy, b.MinAvailable, ErrDisruption)
	}
	f.terminate(w, "evicted")
	return nil
}

// Cordon sets whether new pods may be scheduled on a node.
func (f *Fleet) Cordon(name string, cordoned bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.nodes {
		if n.Name == name {
			n.Cordoned = cordoned
			return nil
		}
	}
	return fmt.Errorf("node %s: %w", name, ErrNotFound)
}

func (f *Fleet) find(pod, uid string) (*worker, error) {
	for _, w := range f.workers {
		if w.name != pod || w.leaving {
			continue
		}
		if uid != "" && uid != w.uid {
			return nil, fmt.Errorf("pod %s has UID %s: %w", pod, w.uid, ErrConflict)
		}
		return w, nil
	}
	return nil, fmt.Errorf("pod %s: %w", pod, ErrNotFound)
}
