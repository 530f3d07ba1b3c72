package web

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"paramedic/state"
)

// An actionCard is an action with the further data of its card.
type actionCard struct {
	state.Action
	CanDecide bool
	CanCancel bool
	Waits     bool                // waits for a person's report that it is taken care of, which is to cancel it
	Released  string              // the person who reported it
	Blocked   []state.GuardResult // guards that hold or deny, without a missing approval that is expected
	Passed    []state.GuardResult
	CalledOff string // the result of a call to stop it
	Tone      string
	Name      string // the incident's name
	Title     string // the incident's title
	Metrics   []metricRow
}

// A metricRow is one signal before and after the write.
type metricRow struct {
	Signal string
	Before *float64
	After  *float64
	N      int
}

func newActionCard(a state.Action) actionCard {
	c := actionCard{Action: a, CanDecide: a.State == state.AwaitingApproval, CalledOff: a.CallOff(),
		Tone: tone(a.State)}
	c.Waits, c.Released = a.NeedsPerson(), a.Journal[state.Released]
	c.CanCancel = c.Waits || a.State.BeforeEffect() && !c.CanDecide ||
		a.State == state.Intent && a.Journal[state.CalledOff] == ""
	switch {
	case c.Waits:
		c.Tone = "bad"
	case c.Released != "":
		c.Tone = "mute"
	}
	for _, g := range a.Guards {
		if a.State.Done() {
			g.RetryAt = time.Time{} // the action is over: no retry
		}
		switch {
		case a.State.Done() && g.Guard == "approval" && g.Decision == state.Hold:
			// the approval is no longer needed; the outcome shows its result
		case g.Decision == state.Allow:
			c.Passed = append(c.Passed, g)
		case g.Guard != "approval" || !c.CanDecide:
			c.Blocked = append(c.Blocked, g)
		}
	}
	seen := map[string]bool{}
	for s := range a.Verify.Baseline {
		seen[s] = true
	}
	for s := range a.Verify.Samples {
		seen[s] = true
	}
	for s := range seen {
		row := metricRow{Signal: s, N: len(a.Verify.Samples[s])}
		if v, ok := a.Verify.Baseline[s]; ok {
			row.Before = &v
		}
		if row.N > 0 {
			row.After = &a.Verify.Samples[s][row.N-1]
		}
		c.Metrics = append(c.Metrics, row)
	}
	slices.SortFunc(c.Metrics, func(a, b metricRow) int { return cmp.Compare(a.Signal, b.Signal) })
	return c
}

// Ended returns why the run ended, if its verification does not show that.
func (c actionCard) Ended() string {
	if c.Verify.Verdict != "" && c.Reason == c.Verify.Text {
		return ""
	}
	return c.Reason
}

// Verified returns the text of the verification without its verdict, which the card shows before
// it.
func (c actionCard) Verified() string {
	return strings.TrimPrefix(c.Verify.Text, string(c.Verify.Verdict)+": ")
}

// GuardsSay returns how many guards allow the action. Every channel shows the same sentence.
func (c actionCard) GuardsSay() string { return state.GuardsSay(c.Guards, c.State) }

// tone returns the colour of a state.
func tone(s state.ActionState) string {
	switch s {
	case state.AwaitingApproval:
		return "wait"
	case state.Succeeded:
		return "ok"
	case state.RolledBack, state.RollbackIntent:
		return "warn"
	}
	if s.Running() {
		return "run"
	}
	return "mute"
}

type actionsData struct {
	Cards []actionCard
	Pages pager
}

// actions lists the actions that Paramedic did, does and would do. Those that need a person come
// first.
func (h *Handler) actions(r *http.Request) (view, error) {
	d := actionsData{Pages: paged(r, "actions", "page", h.cfg.View.Tally().Actions)}
	for _, a := range h.cfg.View.ListActions(state.ActionQuery{Needy: true, Skip: d.Pages.skip(),
		Limit: pageSize}).Actions {
		c := newActionCard(a)
		if in, ok := h.cfg.View.Incident(a.Incident); ok {
			c.Name, c.Title = h.name(in), in.Title
		}
		d.Cards = append(d.Cards, c)
	}
	return view{page: "actions", title: "Actions", nav: "actions", about: everything, data: d}, nil
}

// action redirects to an action's card on its incident's page.
func (h *Handler) action(r *http.Request) (view, error) {
	a, ok := h.cfg.View.Action(state.ActionID(r.PathValue("id")))
	if !ok {
		return view{}, notFound("There is no such action.")
	}
	return view{redirect: fmt.Sprintf("/incidents/%s#%s", url.PathEscape(string(a.Incident)),
		url.PathEscape(string(a.ID)))}, nil
}
