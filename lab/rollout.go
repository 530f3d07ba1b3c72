package lab

import (
	"fmt"

	"paramedic/lab/engine"
)

// setImage edits the template's image, which starts a rollout.
func (f *Fleet) setImage(image string) {
	d := &f.deploy
	if d.image == image {
		return
	}
	d.image = image
	d.generation++
	d.version++
	d.changed(f)
}

// pull pulls a worker's image, which fails if the image does not exist.
func (w *worker) pull(k engine.Kind) {
	if w.image == k.Defaults().Missing {
		w.phase = podPulling
	}
}

// waitsForStart reports whether no container of the pod has started yet: Kubernetes' phase Pending.
func (w *worker) waitsForStart() bool { return w.phase == podPending || w.phase == podPulling }

// deniedAfter is the time from a process's start until it asks the hub for the model, in seconds.
const deniedAfter = 15.0

// gatedRepo is the error of transformers if the hub denies the download.
const gatedRepo = `OSError: You are trying to access a gated repo.
Make sure to have access to it at https://huggingface.co/%s.
401 Client Error. Access to model is restricted. You must have access to it and be authenticated to access it. Please log in.
`

// refuseModel ends a process that cannot load the model.
func (f *Fleet) refuseModel(w *worker) {
	words := w.LoadError
	if f.denied {
		words = fmt.Sprintf(gatedRepo, f.cfg.Model)
	}
	if words != "" && w.phase == podLoading && f.now-w.started > deniedAfter {
		f.event(w.name, "Error", "the model does not load")
		w.words = words
		w.die(f, "Error", 1)
	}
}

// templateChecksum is the pod template's annotation by which a new chat template starts a rollout.
const templateChecksum = "checksum/chat-template"

// The shares of answers that refuse or are empty because a chat template does not fit the model, at
// severity 1.
const spoiledRefusals, spoiledEmpties = 0.26, 0.07

// breakTemplate rolls out a chat template that does not fit the model.
func (f *Fleet) breakTemplate(by float64) {
	d := &f.deploy
	f.spoiled = by
	d.template[templateChecksum] = "b6c1f0e2"
	d.generation++
	d.version++
	d.changed(f)
}

// spoiledNow returns how badly the template of a pod that is created now fits the model.
func (f *Fleet) spoiledNow() float64 {
	if f.deploy.template[templateChecksum] == "" {
		return 0
	}
	return f.spoiled
}

// coldLoad is the time that a worker takes to load its model from cold storage, in seconds.
const coldLoad = 600

// loadTime returns the seconds that a worker which starts now takes to load its model.
func (f *Fleet) loadTime() float64 {
	if f.slowLoad > 0 {
		return f.slowLoad
	}
	return f.cfg.ColdStart.Seconds()
}

// replaceHalf drains and ends half of the workers, as an upgrade of their machines does. Their
// replacements load the model from cold storage.
func (f *Fleet) replaceHalf(severity float64) {
	f.slowLoad = coldLoad * severity
	for _, w := range f.workers[len(f.workers)-len(f.workers)/2:] {
		f.terminate(w, "its machine is replaced")
	}
}
