package webhook

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"paramedic/state"
	"paramedic/state/statetest"
	"paramedic/webhook/access"
	"paramedic/webhook/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is when the tests' stories begin.
var start = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

// testClock stands still but for what a test adds; waiting takes as long as it says, which a
// synctest bubble makes instant.
type testClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *testClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

func (c *testClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// world is a log that records and a view that applies commands as the fold would, when told to.
type world struct {
	mu        sync.Mutex
	inputs    []state.Input
	calls     int
	err       error
	block     chan struct{}                   // Append waits for it
	entered   chan struct{}                   // told when Append begins to wait
	idle      bool                            // apply nothing
	then      func(state.Action) state.Action // what an action is by the time that a no to it is applied
	incidents map[state.IncidentID]state.Incident
	actions   map[state.ActionID]state.Action
	entries   []state.Entry
	halts     map[string]state.Halt
	watchers  []chan state.Entry
}

func newWorld() *world {
	return &world{incidents: map[state.IncidentID]state.Incident{}, actions: map[state.ActionID]state.Action{}, halts: map[string]state.Halt{}}
}

func (w *world) Append(ctx context.Context, inputs ...state.Input) error {
	if w.block != nil {
		w.entered <- struct{}{}
		select {
		case <-w.block:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	if w.err != nil {
		return w.err
	}
	w.inputs = append(w.inputs, inputs...)
	for _, in := range inputs {
		if in.Command != nil && !w.idle && in.Command.Refused == "" {
			w.apply(in)
		}
	}
	return nil
}

func (w *world) apply(input state.Input) {
	c := *input.Command
	in, a := w.incidents[c.Incident], w.actions[c.Action]
	switch c.Verb {
	case state.VerbAck:
		in.AckedAt, in.AckedBy, in.Status = input.At, c.Actor, state.StatusAcked
	case state.VerbResolve:
		in.ResolvedAt, in.Status, in.ResolvedBy = input.At, state.StatusResolved, c.Actor.String()
	case state.VerbSilence:
		in.SilencedUntil = c.Until
	case state.VerbFeedback:
		in.Feedback = append(in.Feedback, state.Feedback{Right: c.Right, Cause: c.Cause, Actor: c.Actor})
	case state.VerbDiagnose:
		in.EnrichAt = input.At
	case state.VerbHalt:
		w.halts[input.Cluster] = state.Halt{At: input.At, Actor: c.Actor, Reason: c.Reason}
	case state.VerbResume:
		delete(w.halts, input.Cluster)
	case state.VerbApprove, state.VerbDeny, state.VerbCancel:
		if w.then != nil && c.Verb != state.VerbApprove {
			w.actions[a.ID] = w.then(a)
			return
		}
		to := map[state.Verb]state.ActionState{state.VerbApprove: state.Approved, state.VerbDeny: state.Denied, state.VerbCancel: state.Cancelled}[c.Verb]
		if a.Move(to, input.At, "", c.Actor) == nil {
			a.DecidedBy, a.DecidedAt = c.Actor, input.At
		} else if c.Verb == state.VerbCancel {
			a.Journal = map[string]string{state.CalledOff: c.Actor.String()}
		}
		w.actions[a.ID] = a
		return
	}
	if in.ID != "" {
		w.incidents[in.ID] = in
	}
}

func (w *world) Incident(id state.IncidentID) (state.Incident, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	in, ok := w.incidents[id]
	return in, ok
}

func (w *world) ListIncidents(q state.IncidentQuery) state.IncidentPage {
	w.mu.Lock()
	defer w.mu.Unlock()
	return statetest.ListIncidents(slices.Collect(maps.Values(w.incidents)), q)
}

func (w *world) Tally() (t state.Tally) {
	t.Open = len(w.ListIncidents(state.IncidentQuery{Which: state.OpenIncidents}).Incidents)
	return state.Tally{Open: t.Open, Resolved: len(w.incidents) - t.Open, Actions: len(w.actions)}
}

func (w *world) Action(id state.ActionID) (state.Action, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, ok := w.actions[id]
	return a, ok
}

func (w *world) ListActions(q state.ActionQuery) state.ActionPage {
	w.mu.Lock()
	defer w.mu.Unlock()
	return statetest.ListActions(slices.Collect(maps.Values(w.actions)), q)
}

func (w *world) ActionsOf(id state.IncidentID) []state.Action {
	return w.ListActions(state.ActionQuery{Match: func(a *state.Action) bool { return a.Incident == id }}).Actions
}

func (w *world) BegunActions() []state.Action {
	return w.ListActions(state.ActionQuery{Match: (*state.Action).Begun}).Actions
}

func (w *world) Evidence(state.IncidentID) (state.Evidence, bool) { return state.Evidence{}, false }
func (w *world) Alerts(state.IncidentID) []state.AlertRecord      { return nil }

func (w *world) Timeline(_ context.Context, id state.IncidentID) ([]state.Entry, error) {
	var out []state.Entry
	for _, e := range w.entries {
		if e.Incident == id {
			out = append(out, e)
		}
	}
	return out, nil
}

func (w *world) Halted(cluster string) (state.Halt, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h, ok := w.halts[cluster]
	return h, ok
}

func (w *world) Subscribe(ctx context.Context) <-chan state.Entry {
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

func (w *world) tell(e state.Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ch := range w.watchers {
		ch <- e
	}
}

func (w *world) commands() []state.Command {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []state.Command
	for _, in := range w.inputs {
		if in.Command != nil {
			out = append(out, *in.Command)
		}
	}
	return out
}

const (
	incident = state.IncidentID("INC-01KAAAAAAAAAAAAAAAAAAAAAAA")
	second   = state.IncidentID("INC-01KBBBBBBBBBBBBBBBBBBBBBBB")
	action   = state.ActionID("ACT-01KAAAAAAAAAAAAAAAAAAAAAAA")
)

// populate gives the world two incidents, the first with an action that awaits approval.
func (w *world) populate() *world {
	base := 0.61
	w.incidents[incident] = state.Incident{
		ID: incident, Number: 42, Cluster: "prod", Status: state.StatusOpen, Severity: state.Critical,
		Title:    "KV cache exhausted on llama-70b (3 of 4 workers)",
		Scope:    state.Scope{Cluster: "prod", Namespace: "llm", Model: "llama-70b", Pool: "vllm-llama", Pods: []string{"vllm-llama-7d9f8b6c5-a"}},
		Symptoms: []state.SymptomCount{{Symptom: "kv_pressure", Severity: state.Critical, Alerts: 3, Active: 3, First: start, Last: start}},
		Diagnosis: state.Diagnosis{
			Cause: "kv_exhaustion", Confidence: 0.93, Score: 11.2, Prior: 5, Margin: 8, Playbook: "kv_exhaustion",
			Findings:     []state.Finding{{Signal: "kv_usage", Pod: "vllm-llama-7d9f8b6c5-a", Value: 0.98, Unit: "ratio", Baseline: &base, WeekAgo: &base, Weight: 6.2, Text: "KV cache 98 % full", At: start}},
			Alternatives: []state.Alternative{{Cause: "kv_leak", Confidence: 0.04, WouldWinIf: "kv_idle_usage were high"}},
			Anomalies:    []state.Anomaly{{Signal: "kv_usage", Value: 0.98, Unit: "ratio", Baseline: &base, Text: "KV cache in use 98 %: ×1.6 of an hour ago"}},
			Correlations: []state.Correlation{{Signal: "kv_usage", With: "ttft_p95", R: 0.94, Points: 51, Lead: 240, Text: "KV cache in use rose 4 min before time to first token (p95) rose"}},
			Story:        state.Story{What: "Three workers have no KV blocks left.", Why: "Prompts grew."},
		},
		AlertCount: 17, ActiveAlerts: 3, StartedAt: start.Add(-time.Minute), OpenedAt: start, DiagnosedAt: start.Add(9 * time.Second), NamedAt: start.Add(9 * time.Second),
		Actions: []state.ActionID{action},
	}
	w.incidents[second] = state.Incident{ID: second, Number: 43, Cluster: "default", Status: state.StatusResolved, Severity: state.Warning, ResolvedAt: start}
	w.actions[action] = state.Action{
		ID: action, Incident: incident, Kind: "set_engine_arg", Mode: "approve", State: state.AwaitingApproval, PlanHash: "plan1",
		Target: state.Target{Cluster: "prod", Namespace: "llm", Kind: "Deployment", Name: "vllm-llama"},
		Change: "max_num_seqs 256 → 128", ExpiresAt: start.Add(15 * time.Minute),
		Guards: []state.GuardResult{{Guard: "capacity", Decision: state.Allow, Reason: "the rest carries it"}},
	}
	w.entries = []state.Entry{{Incident: incident, N: 1, At: start, Kind: "opened", Text: "opened by HighKV"}}
	return w
}

// door is a server over the world; change may adjust its config.
func door(t testing.TB, w *world, change func(*Config)) (*Server, *testClock) {
	t.Helper()
	clock := &testClock{now: start}
	c := Config{
		Log: w, View: w, Clock: clock, Clusters: []string{"default", "prod"},
		Alertmanager: access.AlertmanagerAuth{Open: true}, API: access.APIAuth{Open: true},
	}
	if change != nil {
		change(&c)
	}
	s := New(c)
	t.Cleanup(s.Close)
	return s, clock
}

// do sends a request as a program on this machine would.
func do(h http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func expect(t testing.TB, w *httptest.ResponseRecorder, code int, words ...string) {
	t.Helper()
	if w.Code != code {
		t.Fatalf("answered %d, want %d: %s", w.Code, code, w.Body)
	}
	for _, word := range words {
		if !strings.Contains(w.Body.String(), word) {
			t.Fatalf("answer does not say %q: %s", word, w.Body)
		}
	}
	if code >= 400 {
		var e api.ErrorJSON
		if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Error == "" {
			t.Fatalf("error is not {\"error\": …}: %s", w.Body)
		}
	}
}
