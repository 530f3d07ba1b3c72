package story

import "paramedic/lab"

var gatewayFailure = []Story{
	{Name: "picker-timeouts",
		Text: "The proxy's calls of the endpoint picker time out for half of the requests. It fails them, and no worker sees them.",
		plot: &lab.Plot{Tick: func(s *lab.Stage) {
			s.Gateway().Drops, s.Gateway().DropCode = min(0.95, 0.5*s.Level), lab.GatewayInternal
		}}},
	{Name: "shedding",
		Text: "The gateway's limits are those of a smaller model. It answers two of three requests with 429, while workers have room.",
		plot: &lab.Plot{Tick: func(s *lab.Stage) {
			s.Gateway().Drops, s.Gateway().DropCode = min(0.95, 0.67*s.Level), lab.GatewayShed
		}}},
}

var monitoringGap = []Story{
	{Name: "one-worker",
		Text: "The thread that collects one worker's metrics is stuck, and its scrapes time out. The worker serves as before.",
		plot: &lab.Plot{Tick: func(s *lab.Stage) { s.Worker().Unseen = s.Level > 0 }}},
	{Name: "network-policy",
		Text: "A network policy keeps Prometheus out of the pool's namespace. GPUs and readiness still show that the workers serve.",
		plot: &lab.Plot{Tick: func(s *lab.Stage) {
			for _, w := range s.Workers() {
				w.Unseen = s.Level > 0
			}
			s.Gateway().Unseen = s.Level > 0
		}}},
}
