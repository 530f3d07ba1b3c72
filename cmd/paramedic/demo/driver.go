package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"paramedic/cmd/paramedic/service"
	"paramedic/lab/clock"
	"paramedic/lab/drill"
	"paramedic/state"
	"paramedic/webhook/api"
	"paramedic/webhook/report"
)

// A driver watches the incident. In a headless demo it also approves what is offered, through the
// API.
type driver struct {
	*Demo
	bot      *service.Service
	base     string
	clock    *clock.Clock
	scenario drill.Scenario
	told     map[state.ActionID]bool
	slow     bool // time waits for a person
}

// patience is the simulated time that a headless demo may take.
const patience = 75 * time.Minute

// watch follows the incident of the scenario's fault to its end.
func (v *driver) watch(ctx context.Context) error {
	v.told = map[state.ActionID]bool{}
	entries := v.bot.Keeper.Subscribe(ctx)
	deadline := v.clock.After(patience)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-entries:
		case <-v.clock.After(5 * time.Second):
		case <-deadline:
			if v.Headless {
				return v.giveUp()
			}
			deadline = nil
		}
		waits := false
		for _, in := range v.bot.Keeper.Incidents() {
			for _, id := range in.Actions {
				if a, ok := v.bot.Keeper.Action(id); ok {
					if shown(in) {
						v.look(ctx, a)
					}
					waits = waits || a.State == state.AwaitingApproval
				}
			}
			if in.Cause() == state.Cause(v.Fault) && v.ended(in) && shown(in) && v.Headless {
				return v.verdict(in)
			}
		}
		v.pace(waits)
	}
}

// shown reports whether the console has printed the current revision of the incident. The driver
// acts only on what was printed, and so does a person.
func shown(in state.Incident) bool {
	return !slices.Contains(in.Channels, state.ChannelConsole) || in.Told.Rev(state.ChannelConsole) >= in.Rev
}

// pace slows the simulated time to real time while first aid waits for a person.
func (v *driver) pace(waits bool) {
	if v.Headless || waits == v.slow {
		return
	}
	v.slow = waits
	if waits {
		v.clock.SetSpeed(min(1, v.Speed))
		return
	}
	v.clock.SetSpeed(v.Speed)
}

// look prints how to approve a waiting action. In a headless demo it approves the action.
func (v *driver) look(ctx context.Context, a state.Action) {
	if a.State != state.AwaitingApproval || v.told[a.ID] {
		return
	}
	v.told[a.ID] = true
	if !v.Headless {
		fmt.Fprintf(v.Err, "\nThe demo runs in real time until you decide. Approve on the page: "+
			"%s/incidents/%s\nor with: %s approve --server %s "+
			"%s %s\n\n", v.base, a.Incident, os.Args[0], v.base, a.ID, state.ShortPlan(a.PlanHash))
		return
	}
	fmt.Fprintf(v.Err, "\nThe demo approves: %s\n\n", a.Change)
	if err := v.approve(ctx, a); err != nil {
		fmt.Fprintf(v.Err, "approving: %v\n", err)
	}
}

func (v *driver) approve(ctx context.Context, a state.Action) error {
	body, err := json.Marshal(map[string]string{"actor": "visitor", "reason": "demo", "plan_hash": a.PlanHash})
	if err != nil {
		return fmt.Errorf("encoding the approval: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, v.base+"/api/v1/actions/"+string(a.ID)+"/approve",
		bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("building the request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("sending the approval: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 == 2 {
		return nil
	}
	var e api.ErrorJSON
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16)) // what cannot be read is not shown
	_ = json.Unmarshal(raw, &e)
	return fmt.Errorf("%s: %s", resp.Status, e.Error)
}

// ended reports whether the incident's first aid is complete, or the bot has none for it. Expired
// plans are planned again while the incident is open.
func (v *driver) ended(in state.Incident) bool {
	if len(in.Actions) == 0 {
		return !v.treatable()
	}
	for i, id := range in.Actions {
		a, _ := v.bot.Keeper.Action(id)
		if last := i == len(in.Actions)-1; !a.State.Done() || last && a.RanOut() && in.Open() {
			return false
		}
	}
	return true
}

// treatable reports whether the fault's playbook has first aid that the bot can give.
func (v *driver) treatable() bool {
	pb, ok := v.bot.Library.ForCause(v.Fault)
	if !ok {
		return false
	}
	for _, r := range pb.FirstAid {
		if r.Action != "" {
			return true
		}
	}
	return false
}

// verdict prints the result of a headless demo.
func (v *driver) verdict(in state.Incident) error {
	fmt.Fprintf(v.Err, "\nDiagnosed: %s (%s sure), %s of simulated time after the onset.\n", in.Title,
		report.Sureness(in.Cause(), in.Diagnosis.Confidence), in.NamedAt.Sub(in.StartedAt).Round(time.Second))
	mitigated := !v.treatable()
	for _, id := range in.Actions {
		a, _ := v.bot.Keeper.Action(id)
		fmt.Fprintf(v.Err, "First aid: %s: %s. %s\n", a.Change, strings.ReplaceAll(string(a.State), "_", " "), a.Reason)
		mitigated = mitigated || a.State == state.Succeeded
	}
	if !mitigated {
		return errors.New("the incident was diagnosed, but not mitigated")
	}
	if !v.treatable() {
		fmt.Fprintln(v.Err, "The bot has no first aid for it. The playbook lists the steps for a person.")
	}
	return nil
}

func (v *driver) giveUp() error {
	var seen []string
	for _, in := range v.bot.Keeper.Incidents() {
		seen = append(seen, fmt.Sprintf("#%d %s: %s (%s)", in.Number, in.Cause(), in.Title, in.Status))
		for _, id := range in.Actions {
			a, _ := v.bot.Keeper.Action(id)
			seen = append(seen, fmt.Sprintf("   %s: %s: %s", a.Change, a.State, a.Reason))
		}
	}
	return fmt.Errorf("after %s of simulated time, %s is not diagnosed and treated. The incidents:\n%s", patience, v.Fault,
		strings.Join(seen, "\n"))
}
