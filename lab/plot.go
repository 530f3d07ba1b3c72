package lab

import (
	"slices"
	"strconv"

	"paramedic/lab/front"
	"paramedic/lab/machine"
	"paramedic/lab/traffic"
)

// A Plot is a story of a fault that another package tells. It replaces all that the fault does by
// itself. The Stage is all that its functions may use of the fleet.
type Plot struct {
	Begin func(s *Stage) // once; nil: nothing
	Tick  func(s *Stage) // every half second from then on, also after Fault.For; nil: nothing
}

// A Stage is the fleet at a moment of a Plot.
type Stage struct {
	Traffic  *traffic.Workload // as it is until the next tick, at first that of the configuration
	Level    float64           // strength of the fault now, 0 after its end
	Severity float64           // its full strength
	Since    float64           // seconds since it began
	fleet    *Fleet
	fault    *activeFault
}

// tell tells one tick of the fault's plot.
func (f *Fleet) tell(a *activeFault, mix *traffic.Workload, level float64) {
	if level <= 0 && !a.begun {
		return
	}
	begins := !a.begun
	if begins {
		a.begun, a.since = true, f.now
		a.hash, a.worker = f.deploy.hash, f.workers[min(a.Worker, len(f.workers)-1)]
	}
	s := &Stage{Traffic: mix, Level: level, Severity: a.Severity, Since: f.now - a.since, fleet: f, fault: a}
	if begins {
		f.event("", "Fault", a.Name)
		if a.Plot.Begin != nil {
			a.Plot.Begin(s)
		}
	}
	if a.Plot.Tick != nil {
		a.Plot.Tick(s)
	}
}

// Passes reports whether a time since the fault began is reached with this tick, in seconds.
func (s *Stage) Passes(seconds float64) bool {
	return s.Since >= seconds && s.Since-tickEvery < seconds
}

// Worker returns the fault's own worker. It may be gone.
func (s *Stage) Worker() Worker { return Worker{&s.fault.worker.Trouble, s.fault.worker, s} }

// Workers returns the pods, oldest first.
func (s *Stage) Workers() []Worker {
	var out []Worker
	for _, w := range s.fleet.workers {
		out = append(out, Worker{&w.Trouble, w, s})
	}
	return out
}

// Fresh returns the workers of revisions that are newer than the fault.
func (s *Stage) Fresh() []Worker {
	return slices.DeleteFunc(s.Workers(), func(w Worker) bool { return w.w.hash == s.fault.hash })
}

// Restart changes an annotation of the pod template, which starts a rollout.
func (s *Stage) Restart() {
	d := &s.fleet.deploy
	d.template["checksum/config"] = strconv.Itoa(len(d.sets))
	d.generation++
	d.version++
	d.changed(s.fleet)
}

// Upgrade rolls out the next image. It works unless the story makes its workers fail.
func (s *Stage) Upgrade() { s.fleet.setImage(s.fleet.cfg.Kind.Defaults().Flawed) }

// Scale changes the number of replicas that the Deployment wants, down to one.
func (s *Stage) Scale(by int) {
	d := &s.fleet.deploy
	d.replicas = max(1, d.replicas+by)
	d.generation++
	d.version++
}

// Loading sets how long a worker that starts from now on loads its model, in seconds.
func (s *Stage) Loading(seconds float64) { s.fleet.slowLoad = seconds }

// Gateway returns what is wrong with the gateway.
func (s *Stage) Gateway() *front.Trouble { return &s.fleet.gateway.Trouble }

// A Worker is a pod on a Stage.
type Worker struct {
	*Trouble
	w *worker
	s *Stage
}

// Name returns the pod's name.
func (w Worker) Name() string { return w.w.name }

// Running returns the number of requests that the engine runs.
func (w Worker) Running() int {
	if w.w.eng == nil {
		return 0
	}
	return w.w.eng.Running()
}

// Hang stops the engine. Its process lives until it is restarted.
func (w Worker) Hang() {
	if w.w.eng != nil {
		w.w.eng.Hung = true
	}
}

// Hangs reports whether the engine is stopped.
func (w Worker) Hangs() bool { return w.w.eng != nil && w.w.eng.Hung }

// Crash ends the container's process if it serves. The kubelet restarts it.
func (w Worker) Crash(reason string, code int, words string) {
	if w.w.phase != podReady {
		return
	}
	f := w.s.fleet
	f.event(w.w.name, reason, "the process ended")
	w.w.words = words + f.cfg.Kind.Defaults().Dead
	w.w.die(f, reason, code)
}

// Leave terminates the pod. The Deployment replaces it.
func (w Worker) Leave(why string) { w.s.fleet.terminate(w.w, why) }

// GPUs returns what is wrong with the pod's GPUs.
func (w Worker) GPUs() []*machine.Trouble {
	var out []*machine.Trouble
	for _, g := range w.w.gpus {
		out = append(out, &g.Trouble)
	}
	return out
}

// Xid reports an error of the pod's first GPU. If it stays, every use of the GPU fails from now on.
func (w Worker) Xid(code int, stays bool) {
	if len(w.w.gpus) == 0 {
		return
	}
	g := w.w.gpus[0]
	if g.Report(code, w.s.fleet.now); stays {
		g.Fault = code
	}
}

// Beside returns the pods on the same machine, this one included.
func (w Worker) Beside() []Worker {
	return slices.DeleteFunc(w.s.Workers(), func(o Worker) bool { return w.w.node == nil || o.w.node != w.w.node })
}

// Mute stops the reports of the pod's kubelet. Its processes live.
func (w Worker) Mute() {
	if n := w.w.node; n != nil {
		n.Mute, n.SilentAt = true, w.s.fleet.now
		w.s.fleet.event("", "NodeDown", n.Name)
	}
}

// Disconnect cuts the pod's machine from the network until [Worker.Reconnect].
func (w Worker) Disconnect() {
	if n := w.w.node; n != nil {
		for _, o := range w.Beside() {
			o.w.loaded, o.w.kept = o.w.until, o.w.eng
		}
		w.s.fleet.powerOff(n)
	}
}

// Reconnect connects the pod's machine again. Processes that Disconnect cut off serve as before.
func (w Worker) Reconnect() {
	n := w.w.node
	if n == nil {
		return
	}
	n.Down = false
	for _, o := range w.Beside() {
		if o.w.phase == podLost && o.w.kept != nil {
			o.w.phase, o.w.until, o.w.eng, o.w.kept = podReady, o.w.loaded, o.w.kept, nil
		}
	}
}
