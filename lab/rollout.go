package lab

import "fmt"

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
func (w *worker) pull(k Kind) {
	if w.image == k.defaults().missing {
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
