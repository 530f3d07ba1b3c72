package story

import (
	"paramedic/lab"
	"paramedic/lab/drill"
)

var gpuFault = []Story{
	{Name: "double-bit-error",
		Text: "A GPU's memory has a double-bit error (Xid 48). Its worker dies, and so does every new process on that GPU.",
		plot: &lab.Plot{Begin: func(s *lab.Stage) { s.Worker().Xid(48, true) }}},
	{Name: "contained-error",
		Text: "An error in a GPU's memory stays contained (Xid 94). The worker dies once, and serves again after its restart.",
		plot: &lab.Plot{Begin: func(s *lab.Stage) {
			s.Worker().Xid(94, false)
			s.Worker().Crash("Error", 1, "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered\n")
		}}},
	{Name: "silent-firmware",
		Text: "A GPU's firmware stops answering the driver (Xid 119). The engine waits for it for ever, and its process lives.",
		plot: &lab.Plot{Begin: func(s *lab.Stage) { s.Worker().Xid(119, false) }, Tick: func(s *lab.Stage) { s.Worker().Hang() }}},
}

var gpuThrottle = []Story{
	{Name: "power-brake",
		Text: "A power supply of the rack fails. A brake holds all GPUs of a machine at a third of their clock. They are cool.",
		plot: &lab.Plot{Tick: func(s *lab.Stage) {
			for _, w := range s.Worker().Beside() {
				for _, g := range w.GPUs() {
					g.Clock, g.Brake = clock(s.Level, 600), s.Level > 0
				}
			}
		}}},
	{Name: "locked-clock",
		Text:  "After maintenance the clock of one GPU stays locked at its lowest. It is cool, and no counter shows a reason.",
		fleet: func(s *drill.Scenario) { s.Config.Workload.Rate = 6.5 },
		plot: &lab.Plot{Tick: func(s *lab.Stage) {
			if gpus := s.Worker().GPUs(); len(gpus) > 0 {
				gpus[0].Clock = clock(s.Level, 345)
			}
		}}},
}

// clock returns the limit in MHz of a clock that is held down to low at level 1, or 0 for none.
func clock(level, low float64) float64 {
	if level <= 0 {
		return 0
	}
	return max(345, 1980-(1980-low)*level)
}

var nodeFailure = []Story{
	{Name: "dead-kubelet",
		Text: "A machine's kubelet dies. Its two workers would serve, but Kubernetes counts them as not ready, and later evicts them.",
		plot: &lab.Plot{Begin: func(s *lab.Stage) { s.Worker().Mute() }, Tick: func(s *lab.Stage) {
			for _, w := range s.Worker().Beside() {
				w.Unready = s.Since >= 40 // --node-monitor-grace-period
				if s.Passes(340) {
					w.Leave("its node is unreachable")
				}
			}
		}}},
	{Name: "network-flap",
		Text: "A machine loses its network for three minutes. Its two workers lose their requests, and then serve as before.",
		plot: &lab.Plot{Begin: func(s *lab.Stage) { s.Worker().Disconnect() }, Tick: func(s *lab.Stage) {
			if s.Passes(180) {
				s.Worker().Reconnect()
			}
		}}},
}
