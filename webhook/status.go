package webhook

import (
	"net/http"
	"time"

	"paramedic/state"
	"paramedic/webhook/alertmanager"
	"paramedic/webhook/httpio"
)

// StatusJSON is the status of the bot itself.
type StatusJSON struct {
	SetAside SetAsideJSON `json:"set_aside"`
	Backlog  BacklogJSON  `json:"backlog"`
	Skipped  SkippedJSON  `json:"skipped_inputs"`
}

// SkippedJSON sums up the accepted inputs that cannot be applied.
type SkippedJSON struct {
	Total  uint64              `json:"total"` // since the start of this process
	Newest *state.SkippedInput `json:"newest,omitempty"`
}

// SetAsideJSON lists the alerts that could not be taken.
type SetAsideJSON struct {
	Total  uint64                   `json:"total"` // since the start of this process
	Alerts []alertmanager.AsideJSON `json:"alerts"`
}

// BacklogJSON sums up what was accepted and waits for triage.
type BacklogJSON struct {
	Inputs   int     `json:"inputs"`
	Alerts   int     `json:"alerts"`
	OldestS  float64 `json:"oldest_s"` // age of the oldest
	WorkS    float64 `json:"work_s"`   // time that the rest will take at the recent speed
	Refusing string  `json:"refusing"` // why alerts are refused now; empty if they are accepted
}

func (s *Server) status(w http.ResponseWriter, _ *http.Request) error {
	var out StatusJSON
	out.SetAside.Alerts, out.SetAside.Total = s.Aside.Last()
	if s.Backlog != nil {
		var age, work time.Duration
		for _, lag := range s.Backlog.Lag() {
			out.Backlog.Inputs += lag.Inputs
			out.Backlog.Alerts += lag.Alerts
			age, work = max(age, lag.Age), max(work, lag.Work) // partitions are triaged in parallel
		}
		out.Backlog.OldestS, out.Backlog.WorkS = age.Seconds(), work.Seconds()
		out.Backlog.Refusing = s.Refusing()
	}
	if s.Skipped != nil {
		if n, newest := s.Skipped(); n > 0 {
			out.Skipped = SkippedJSON{Total: n, Newest: &newest}
		}
	}
	return httpio.WriteJSON(w, http.StatusOK, out)
}
