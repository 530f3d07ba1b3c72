package webhook

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"paramedic/state"
	"paramedic/webhook/httpio"
)

// A Backlog reports how far triage is behind. *keeper.Keeper is one.
type Backlog interface {
	Lag() []state.Lag
	LagOf(cluster string) state.Lag
}

// A gate refuses the alerts of a partition that is too far behind, until half of the backlog is
// done. It refuses only alerts, because Alertmanager sends them again. Requests by people, Slack
// and PagerDuty come once.
type gate struct {
	mu   sync.Mutex
	shut map[int]refusing // by partition
}

// refusing holds since when a partition's alerts are refused, and how many payloads were.
type refusing struct {
	since    time.Time
	payloads int
}

// admit refuses a payload if one of its clusters is too far behind.
func (s *Server) admit(clusters ...string) error {
	if s.Backlog == nil || s.Limits.Lag <= 0 {
		return nil
	}
	var refused *httpio.Error
	seen := map[int]bool{}
	for _, cluster := range clusters {
		lag := s.Backlog.LagOf(cluster)
		if seen[lag.Partition] {
			continue
		}
		seen[lag.Partition] = true
		if wait := s.gate.refuseFor(s, lag); wait > 0 && refused == nil {
			refused = httpio.Fail(http.StatusServiceUnavailable,
				"%d alerts wait for triage, about %s of work, and the limit is triage.max_lag: send this again",
				lag.Alerts, lag.Behind().Round(time.Second))
			refused.RetryAfter = int(min(wait, time.Minute)/time.Second) + 1
		}
	}
	if refused == nil {
		return nil
	}
	return refused
}

// refuseFor returns how long the alerts of the lag's partition are refused; zero accepts them. It
// logs when refusing begins and ends.
func (g *gate) refuseFor(s *Server, lag state.Lag) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, behind := s.Clock.Now(), lag.Behind()
	was, shut := g.shut[lag.Partition]
	switch {
	case !shut && behind <= s.Limits.Lag:
		return 0
	case shut && g.reopen(s, lag):
		return 0
	case !shut:
		if g.shut == nil {
			g.shut = map[int]refusing{}
		}
		was.since = now
		s.Logger.Warn("Paramedic refuses alerts with 503 until half of the backlog is triaged; Alertmanager sends them again",
			"partition", lag.Partition, "inputs", lag.Inputs, "alerts", lag.Alerts,
			"oldest", lag.Age.Round(time.Second).String(), "work", lag.Work.Round(time.Second).String(),
			"max_lag", s.Limits.Lag.String())
	}
	was.payloads++
	g.shut[lag.Partition] = was
	return max(behind-s.Limits.Lag/2, time.Second)
}

// reopen opens the gate of a partition that has done enough of its backlog, and reports whether it
// did. The caller holds the lock.
func (g *gate) reopen(s *Server, lag state.Lag) bool {
	if lag.Behind() > s.Limits.Lag/2 {
		return false
	}
	was := g.shut[lag.Partition]
	delete(g.shut, lag.Partition)
	s.Logger.Info("Paramedic accepts alerts again", "partition", lag.Partition,
		"refused_for", s.Clock.Now().Sub(was.since).Round(time.Second).String(), "refused_payloads", was.payloads)
	return true
}

// Refusing returns why alerts are refused now, in words for people, or "" if they are accepted. It
// opens the gates of partitions that have caught up, because no payload may come that would.
func (s *Server) Refusing() string {
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	if len(s.gate.shut) == 0 {
		return ""
	}
	var parts []string
	for _, lag := range s.Backlog.Lag() {
		if was, ok := s.gate.shut[lag.Partition]; ok && !s.gate.reopen(s, lag) {
			parts = append(parts, fmt.Sprintf("%d alerts wait, about %s of work, since %s", lag.Alerts,
				lag.Behind().Round(time.Second), was.since.UTC().Format("15:04:05 UTC")))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	slices.Sort(parts)
	return "Paramedic refuses new alerts now, and Alertmanager sends them again: " + strings.Join(parts, "; ")
}
