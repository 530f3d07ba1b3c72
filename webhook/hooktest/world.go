package hooktest

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"paramedic/state"
	"paramedic/state/statetest"
)

// Start is the time at which every test begins.
var Start = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

// A Clock stands still until a test advances it. After waits for real; in a synctest bubble that
// takes no time.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock at Start.
func NewClock() *Clock { return &Clock{now: Start} }

// Now returns the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// After waits on the machine's clock.
func (c *Clock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// Advance moves the clock forward.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// A World is a log that records its inputs, and a view that applies commands as the fold would.
type World struct {
	mu        sync.Mutex
	Inputs    []state.Input
	Calls     int
	Err       error
	Block     chan struct{}                   // Append waits until it is closed
	Entered   chan struct{}                   // receives when Append begins to wait
	Idle      bool                            // apply no commands
	Then      func(state.Action) state.Action // returns the state of an action when a denial is applied
	Incidents map[state.IncidentID]state.Incident
	Actions   map[state.ActionID]state.Action
	Entries   []state.Entry
	Halts     map[string]state.Halt
	watchers  []chan state.Entry
}

// NewWorld returns an empty world.
func NewWorld() *World {
	return &World{Incidents: map[state.IncidentID]state.Incident{}, Actions: map[state.ActionID]state.Action{},
		Halts: map[string]state.Halt{}}
}

// Append records the inputs and applies their commands, unless the world is idle.
func (w *World) Append(ctx context.Context, inputs ...state.Input) error {
	if w.Block != nil {
		w.Entered <- struct{}{}
		select {
		case <-w.Block:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Calls++
	if w.Err != nil {
		return w.Err
	}
	w.Inputs = append(w.Inputs, inputs...)
	for _, in := range inputs {
		if in.Command != nil && !w.Idle && in.Command.Refused == "" {
			w.apply(in)
		}
	}
	return nil
}

func (w *World) apply(input state.Input) {
	c := *input.Command
	in, a := w.Incidents[c.Incident], w.Actions[c.Action]
	switch c.Verb {
	case state.VerbAck:
		in.AckedAt, in.AckedBy, in.Status = input.At, &c.Actor, state.StatusAcked
	case state.VerbResolve:
		in.ResolvedAt, in.Status, in.ResolvedBy = input.At, state.StatusResolved, c.Actor.String()
	case state.VerbSilence:
		in.SilencedUntil = c.Until
	case state.VerbFeedback:
		in.Feedback = append(in.Feedback, state.Feedback{Right: c.Right, Cause: c.Cause, Actor: c.Actor})
	case state.VerbDiagnose:
		in.EnrichAt = input.At
	case state.VerbHalt:
		w.Halts[input.Cluster] = state.Halt{At: input.At, Actor: c.Actor, Reason: c.Reason}
	case state.VerbResume:
		delete(w.Halts, input.Cluster)
	case state.VerbApprove, state.VerbDeny, state.VerbCancel:
		if w.Then != nil && c.Verb != state.VerbApprove {
			w.Actions[a.ID] = w.Then(a)
			return
		}
		to := map[state.Verb]state.ActionState{state.VerbApprove: state.Approved, state.VerbDeny: state.Denied,
			state.VerbCancel: state.Cancelled}[c.Verb]
		if a.Move(to, input.At, "", c.Actor) == nil {
			a.DecidedBy, a.DecidedAt = c.Actor, input.At
		} else if c.Verb == state.VerbCancel {
			a.Journal = map[string]string{state.CalledOff: c.Actor.String()}
		}
		w.Actions[a.ID] = a
		return
	}
	if in.ID != "" {
		w.Incidents[in.ID] = in
	}
}

// Incident implements state.View.
func (w *World) Incident(id state.IncidentID) (state.Incident, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	in, ok := w.Incidents[id]
	return in, ok
}

// ListIncidents implements state.View.
func (w *World) ListIncidents(q state.IncidentQuery) state.IncidentPage {
	w.mu.Lock()
	defer w.mu.Unlock()
	return statetest.ListIncidents(slices.Collect(maps.Values(w.Incidents)), q)
}

// Tally implements state.View.
func (w *World) Tally() (t state.Tally) {
	t.Open = len(w.ListIncidents(state.IncidentQuery{Which: state.OpenIncidents}).Incidents)
	return state.Tally{Open: t.Open, Resolved: len(w.Incidents) - t.Open, Actions: len(w.Actions)}
}

// Action implements state.View.
func (w *World) Action(id state.ActionID) (state.Action, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, ok := w.Actions[id]
	return a, ok
}

// ListActions implements state.View.
func (w *World) ListActions(q state.ActionQuery) state.ActionPage {
	w.mu.Lock()
	defer w.mu.Unlock()
	return statetest.ListActions(slices.Collect(maps.Values(w.Actions)), q)
}

// ActionsOf implements state.View.
func (w *World) ActionsOf(id state.IncidentID) []state.Action {
	return w.ListActions(state.ActionQuery{Match: func(a *state.Action) bool { return a.Incident == id }}).Actions
}

// BegunActions implements state.View.
func (w *World) BegunActions() []state.Action {
	return w.ListActions(state.ActionQuery{Match: (*state.Action).Begun}).Actions
}

// Evidence implements state.View.
func (w *World) Evidence(state.IncidentID) (state.Evidence, bool) { return state.Evidence{}, false }

// Alerts implements state.View.
func (w *World) Alerts(state.IncidentID) []state.AlertRecord { return nil }

// Timeline implements state.View.
func (w *World) Timeline(_ context.Context, id state.IncidentID) ([]state.Entry, error) {
	var out []state.Entry
	for _, e := range w.Entries {
		if e.Incident == id {
			out = append(out, e)
		}
	}
	return out, nil
}

// Halted implements state.View.
func (w *World) Halted(cluster string) (state.Halt, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h, ok := w.Halts[cluster]
	return h, ok
}

// Subscribe implements state.View.
func (w *World) Subscribe(ctx context.Context) <-chan state.Entry {
	ch := make(chan state.Entry, 16)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watchers = append(w.watchers, ch)
	context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.watchers = slices.DeleteFunc(w.watchers, func(c chan state.Entry) bool { return c == ch })
		close(ch)
	})
	return ch
}

// Tell sends an entry to every subscriber.
func (w *World) Tell(e state.Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ch := range w.watchers {
		ch <- e
	}
}

// Commands returns the commands that were appended.
func (w *World) Commands() []state.Command {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []state.Command
	for _, in := range w.Inputs {
		if in.Command != nil {
			out = append(out, *in.Command)
		}
	}
	return out
}

// The IDs of what Populate makes.
const (
	Incident = state.IncidentID("INC-01KAAAAAAAAAAAAAAAAAAAAAAA")
	Second   = state.IncidentID("INC-01KBBBBBBBBBBBBBBBBBBBBBBB")
	Action   = state.ActionID("ACT-01KAAAAAAAAAAAAAAAAAAAAAAA")
)

// Populate gives the world two incidents, the first with an action that awaits approval.
func (w *World) Populate() *World {
	base := 0.61
	w.Incidents[Incident] = state.Incident{
		ID: Incident, Number: 42, Cluster: "prod", Status: state.StatusOpen, Severity: state.Critical,
		Title: "KV cache exhausted on llama-70b (3 of 4 workers)",
		Scope: state.Scope{Cluster: "prod", Namespace: "llm", Model: "llama-70b", Pool: "vllm-llama",
			Pods: []string{"vllm-llama-7d9f8b6c5-a"}},
		Symptoms: []state.SymptomCount{{Symptom: "kv_pressure", Severity: state.Critical, Alerts: 3, Active: 3, First: Start, Last: Start}},
		Diagnosis: state.Diagnosis{
			Cause: "kv_exhaustion", Confidence: 0.93, Score: 11.2, Prior: 5, Margin: 8, Playbook: "kv_exhaustion",
			Findings: []state.Finding{{Signal: "kv_usage", Pod: "vllm-llama-7d9f8b6c5-a", Value: 0.98, Unit: "ratio", Baseline: &base,
				WeekAgo: &base, Weight: 6.2, Text: "KV cache 98 % full", At: Start}},
			Alternatives: []state.Alternative{{Cause: "kv_leak", Confidence: 0.04, WouldWinIf: "kv_idle_usage were high"}},
			Anomalies: []state.Anomaly{{Signal: "kv_usage", Value: 0.98, Unit: "ratio", Baseline: &base,
				Text: "KV cache in use 98 %: ×1.6 of an hour ago"}},
			Correlations: []state.Correlation{{Signal: "kv_usage", With: "ttft_p95", R: 0.94, Points: 51, Lead: 240,
				Text: "KV cache in use rose 4 min before time to first token (p95) rose"}},
			Chain: []state.Link{{Role: state.LinkCause, Signal: "kv_usage", Pod: "vllm-llama-7d9f8b6c5-a", Value: 0.98, Baseline: &base,
				Unit: "ratio", At: Start.Add(-2 * time.Minute), Text: "KV cache in use rose to 98 % (usual 61 %) at 02:58 UTC"},
				{Role: state.LinkSymptom, Signal: "requests_waiting", Value: 74, Text: "Requests waiting rose to 74 (usual 0) | *now*"}},
			Story: state.Story{What: "Three workers have no KV blocks left.", Why: "Prompts grew."},
		},
		AlertCount: 17, ActiveAlerts: 3, StartedAt: Start.Add(-time.Minute), OpenedAt: Start, DiagnosedAt: Start.Add(9 * time.Second),
		NamedAt: Start.Add(9 * time.Second),
		Actions: []state.ActionID{Action},
	}
	w.Incidents[Second] = state.Incident{ID: Second, Number: 43, Cluster: "default", Status: state.StatusResolved,
		Severity: state.Warning, ResolvedAt: Start}
	w.Actions[Action] = state.Action{
		ID: Action, Incident: Incident, Kind: "set_engine_arg", Mode: "approve", State: state.AwaitingApproval, PlanHash: "plan1",
		Target: state.Target{Cluster: "prod", Namespace: "llm", Kind: "Deployment", Name: "vllm-llama"},
		Change: "max_num_seqs 256 → 128", ExpiresAt: Start.Add(15 * time.Minute),
		Guards: []state.GuardResult{{Guard: "capacity", Decision: state.Allow, Reason: "the rest carries it"}},
	}
	w.Entries = []state.Entry{{Incident: Incident, N: 1, At: Start, Kind: "opened", Text: "opened by HighKV"}}
	return w
}
