package story

import (
	"paramedic/lab"
	"paramedic/lab/front"
)

var gatewayFailure = []Story{
	{Name: "picker-timeouts",
		Text: "The proxy's calls of the endpoint picker time out for half of the requests. It fails them, and no worker sees them.",
		plot: &lab.Plot{Tick: func(s *lab.Stage) {
			s.Gateway().Drops, s.Gateway().DropCode = min(0.95, 0.5*s.Level), front.Internal
		}}},
	{Name: "shedding",
		Text: "The gateway's limits are those of a smaller model. It answers two of three requests with 429, while workers have room.",
		plot: &lab.Plot{Tick: func(s *lab.Stage) {
			s.Gateway().Drops, s.Gateway().DropCode = min(0.95, 0.67*s.Level), front.Shed
		}}},
	{Name: "resets",
		Text: "The service mesh resets half of the connections to the workers. The requests count as sent, and no worker sees them.",
		plot: &lab.Plot{Tick: func(s *lab.Stage) {
			s.Gateway().Drops, s.Gateway().DropCode = min(0.95, 0.5*s.Level), front.Upstream
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

var routingSkew = []Story{
	{Name: "hot-prompt",
		Text: "The router keeps each prompt on one worker. A large customer goes live, and half of all requests have its prompt.",
		plot: &lab.Plot{Begin: func(s *lab.Stage) { s.Gateway().Pinned = s.Worker().Name() }, Tick: func(s *lab.Stage) {
			s.Traffic.HotShare = min(0.9, 0.6*s.Level)
		}}},
	{Name: "stale-endpoints",
		Text: "A router keeps a stale list of endpoints with half of the workers. They get all requests; the others idle and are ready.",
		plot: &lab.Plot{Begin: func(s *lab.Stage) {
			all := s.Workers()
			for _, w := range all[len(all)/2:] {
				w.Unrouted = true
			}
		}, Tick: func(s *lab.Stage) {
			for _, w := range s.Workers() {
				w.Unrouted = w.Unrouted && s.Level > 0
			}
		}}},
}
