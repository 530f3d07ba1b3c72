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
	Replica  *ReplicaJSON `json:"replica,omitempty"`
	SetAside SetAsideJSON `json:"set_aside"`
	Backlog  BacklogJSON  `json:"backlog"`
	Skipped  SkippedJSON  `json:"skipped_inputs"`
}

// SkippedJSON sums up the accepted inputs that cannot be applied.
type SkippedJSON struct {
	Total  uint64              `json:"total"` // since the start of this process
	Newest *state.SkippedInput `json:"newest,omitempty"`
}

// ReplicaJSON describes what this process does.
type ReplicaJSON struct {
	Role  string    `json:"role"` // active or follower
	Since time.Time `json:"since"`
	Copy  *CopyJSON `json:"copy"` // of a follower
}

// CopyJSON describes the copy that a follower shows.
type CopyJSON struct {
	AsOf   *time.Time `json:"as_of"`  // when it last had every input; null: not since the start of the role
	AgeS   *float64   `json:"age_s"`  // seconds since then
	Inputs int        `json:"inputs"` // known inputs that it lacks
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
	if s.Replica != nil {
		out.Replica = replicaJSON(s.Replica(), s.Clock.Now())
	}
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

func replicaJSON(r state.Replica, now time.Time) *ReplicaJSON {
	if r.Active {
		return &ReplicaJSON{Role: "active", Since: r.Since}
	}
	own := &CopyJSON{Inputs: r.Inputs}
	if !r.AsOf.IsZero() {
		age := max(0, now.Sub(r.AsOf)).Seconds()
		own.AsOf, own.AgeS = &r.AsOf, &age
	}
	return &ReplicaJSON{Role: "follower", Since: r.Since, Copy: own}
}
