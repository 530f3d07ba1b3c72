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
