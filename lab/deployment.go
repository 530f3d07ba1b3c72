package lab

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"paramedic/lab/engine"
)

// deployment holds the state of the pool's controller: the template and its ReplicaSets.
type deployment struct {
	uid         string
	generation  int64
	replicas    int
	args        []string
	image       string
	annotations map[string]string // of the Deployment
	template    map[string]string // of its pod template
	sets        []replicaSet      // oldest first
	hash        string            // of the current ReplicaSet
	version     int64             // resourceVersion
}

type replicaSet struct {
	hash     string
	revision int
	created  float64
}

func newDeployment(c Config, uid string) deployment {
	d := deployment{
		uid: uid, generation: 1, version: 1000, replicas: c.Workers,
		annotations: map[string]string{}, template: map[string]string{},
		args: c.Kind.Args(c.Model, c.GPUsPerWorker, c.Engine, c.Drain), hash: "7d9f8b6c5", image: c.Kind.Defaults().Good,
	}
	d.sets = []replicaSet{{hash: d.hash, revision: 1, created: -86400}}
	return d
}

// changed makes the ReplicaSet of the edited template the newest. If an old ReplicaSet has the same
// template, it is reused.
func (d *deployment) changed(f *Fleet) {
	h := fnv.New64a()
	for _, a := range d.args {
		h.Write([]byte(a + "\x00"))
	}
	if d.image != f.cfg.Kind.Defaults().Good {
		h.Write([]byte(d.image + "\x00"))
	}
	for _, k := range slices.Sorted(maps.Keys(d.template)) {
		h.Write([]byte(k + "=" + d.template[k] + "\x00"))
	}
	sum := h.Sum64()
	b := make([]byte, 9)
	for i := range b {
		b[i] = hashLetters[sum%uint64(len(hashLetters))]
		sum /= uint64(len(hashLetters))
	}
	d.hash = string(b)
	revision := d.sets[len(d.sets)-1].revision + 1
	d.sets = slices.DeleteFunc(d.sets, func(s replicaSet) bool { return s.hash == d.hash })
	d.sets = append(d.sets, replicaSet{hash: d.hash, revision: revision, created: f.now})
	f.event("", "Rollout", "revision "+strconv.Itoa(revision)+" "+strings.Join(d.args, " "))
}

// settings returns the settings that a worker's arguments make.
func (f *Fleet) settings(w *worker) engine.Settings { return f.cfg.Kind.Apply(w.args, f.cfg.Engine) }

// create adds a pod of the current template.
func (f *Fleet) create() *worker {
	n := len(f.workers)
	w := &worker{
		name: fmt.Sprintf("%s-%s-%s", f.cfg.Pool, f.deploy.hash, randomName(f.names, 5)), uid: randomUID(f.names), hash: f.deploy.hash,
		ip:   f.newIP(n % 8),
		args: slices.Clone(f.deploy.args), image: f.deploy.image, spoiled: f.spoiledNow(), created: f.now, inService: true,
		phase: podPending, rng: rand.New(rand.NewPCG(f.names.Uint64(), 3)),
	}
	if w.image == f.cfg.Kind.Defaults().Flawed {
		w.flawed = f.flaw
	}
	f.workers = append(f.workers, w)
	f.event(w.name, "Created", "revision "+w.hash)
	return w
}

// newIP draws the address of a pod. No two pods have the same one. After a hundred addresses in use
// it moves to another subnet; a fleet has 61,440 addresses.
func (f *Fleet) newIP(subnet int) string {
	for tried := 0; ; tried++ {
		ip := fmt.Sprintf("10.%d.%d.%d", 42+f.cfg.Index, subnet+8*(tried/100%32), 10+f.names.IntN(240))
		if !slices.ContainsFunc(f.workers, func(w *worker) bool { return w.ip == ip }) {
			return ip
		}
	}
}

// schedule binds a pending pod to a node with enough free GPUs, if there is one.
func (f *Fleet) schedule(w *worker) {
	for _, n := range f.nodes {
		if gpus := n.Free(f.cfg.GPUsPerWorker); gpus != nil {
			w.node, w.gpus = n, gpus
			for _, g := range gpus {
				g.Owner = w
			}
			w.start(f.now, f.loadTime())
			w.pull(f.cfg.Kind)
			return
		}
	}
}

func (f *Fleet) terminate(w *worker, why string) {
	if w.leaving {
		return
	}
	w.leaving, w.leaveBy = true, f.now+f.cfg.Drain.Seconds()
	f.event(w.name, "Terminating", why)
}

func (f *Fleet) remove(w *worker) {
	for _, g := range w.gpus {
		g.Owner = nil
		g.Reset()
	}
	w.phase, w.eng = podGone, nil
	f.event(w.name, "Deleted", "")
}

// reconcile runs the Deployment controller's rolling update, with its surge and unavailability.
func (f *Fleet) reconcile() {
	f.workers = slices.DeleteFunc(f.workers, func(w *worker) bool { return w.phase == podGone })
	d := &f.deploy
	var fresh, old []*worker
	ready, freshUnready := 0, 0
	for _, w := range f.workers {
		switch {
		case w.leaving:
			continue
		case w.hash == d.hash:
			fresh = append(fresh, w)
			if w.phase != podReady || f.now-w.until < f.cfg.MinReady.Seconds() {
				freshUnready++
			}
		default:
			old = append(old, w)
		}
		if w.phase == podReady {
			ready++
		}
	}
	total := len(fresh) + len(old)
	for n := len(fresh); n < d.replicas && total < d.replicas+f.cfg.MaxSurge; n++ {
		f.schedule(f.create())
		total++
		freshUnready++
	}
	spare := total - (d.replicas - f.cfg.MaxUnavailable) - freshUnready
	slices.SortStableFunc(old,
		func(a, b *worker) int { return boolInt(a.phase == podReady) - boolInt(b.phase == podReady) })
	for _, w := range old {
		if w.phase != podReady || spare > 0 {
			f.terminate(w, "replaced by revision "+d.hash)
			spare--
		}
	}
	for i := len(fresh) - 1; i >= d.replicas; i-- {
		f.terminate(fresh[i], "scaled down")
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// rolloutStarted returns the creation time of the newest ReplicaSet.
func (f *Fleet) rolloutStarted() time.Time { return f.at(f.deploy.sets[len(f.deploy.sets)-1].created) }
