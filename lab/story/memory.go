package story

import "paramedic/lab"

const gib = 1 << 30

var oomKilled = []Story{
	{Name: "growing-batches",
		Text: "A job decodes images in larger and larger batches. Memory falls after each batch, until one batch does not fit.",
		plot: &lab.Plot{Tick: func(s *lab.Stage) {
			const batch = 100 // seconds
			phase := int(s.Since) % batch
			size := 5 * gib * s.Level * float64(1+int(s.Since)/batch)
			switch w := s.Worker(); {
			case s.Since >= 4*batch: // the job gives up
				w.MemoryRate = 0
			case s.Since >= 2*batch:
				w.MemoryRate = 0.35 * gib * s.Level
			case phase < 40:
				w.MemoryRate = size / 40
			case phase < 70:
				w.MemoryRate = 0
			default:
				w.MemoryRate = -size / 30
			}
		}}},
	{Name: "low-limit",
		Text: "A rollout lowers the memory limit to 16 GiB. New workers are killed while they load the weights; the old ones serve.",
		plot: &lab.Plot{Begin: func(s *lab.Stage) { s.Restart() }, Tick: func(s *lab.Stage) {
			for _, w := range s.Fresh() {
				w.MemoryLimit = 16 * gib
			}
		}}},
}

var hostMemoryLeak = []Story{
	{Name: "every-worker",
		Text: "Every worker's API server keeps a list of each request's blocks. Memory climbs on all workers alike; latency is usual.",
		plot: &lab.Plot{Tick: func(s *lab.Stage) {
			for _, w := range s.Workers() {
				w.MemoryRate = 40 << 20 * s.Level
			}
		}}},
	{Name: "shared-memory",
		Text: "Frames of videos stay in one worker's /dev/shm. No process grows. The container does, until the kernel kills it.",
		plot: &lab.Plot{Tick: func(s *lab.Stage) {
			w := s.Worker()
			w.MemoryRate, w.OutsideRSS = 128<<20*s.Level, true
		}}},
}

var cudaOOM = []Story{
	{Name: "second-process",
		Text: "A colleague starts a notebook on a worker's GPU. It takes most of the free memory, and the next large prefill fails.",
		plot: &lab.Plot{Tick: func(s *lab.Stage) {
			w, there := s.Worker(), s.Level > 0 && s.Since < 240
			for _, g := range w.GPUs()[:min(1, len(w.GPUs()))] {
				g.Foreign = 0
				if there {
					g.Foreign = 4500
				}
			}
			if w.Running() > 0 && int(s.Since)%20 == 10 {
				w.Allocates = 2 * gib
			}
		}}},
	{Name: "poison-request",
		Text: "One request with forty images makes the vision encoder ask for 9 GiB. Its client repeats it, and each worker dies twice.",
		plot: &lab.Plot{Tick: func(s *lab.Stage) {
			for i, w := range s.Workers() {
				if s.Passes(25*float64(i)) || s.Passes(150+25*float64(i)) {
					w.Allocates = 9 * gib
				}
			}
		}}},
}

var gpuMemoryLeak = []Story{
	{Name: "every-worker",
		Text: "Every worker keeps a CUDA graph for each new shape. GPU memory creeps up on all of them, and none has died yet.",
		plot: &lab.Plot{Tick: func(s *lab.Stage) {
			for _, w := range s.Workers() {
				w.GPULeak = 2 * s.Level
			}
		}}},
	{Name: "video-decoder",
		Text: "A video decoder beside the engine leaks on one GPU. The engine dies of it, and its restart frees nothing.",
		plot: &lab.Plot{Tick: func(s *lab.Stage) {
			w := s.Worker()
			if gpus := w.GPUs(); len(gpus) > 0 {
				gpus[0].Foreign = min(5700, gpus[0].Foreign+5*s.Level) // 10 MiB a second
			}
			if w.Running() > 0 {
				w.Allocates = gib / 2
			}
		}}},
}
