package webhook_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/state/fold"
	"paramedic/state/jetstream"
	"paramedic/state/keeper"
	"paramedic/webhook"
	"paramedic/webhook/hooktest"
)

// lagging is a backlog per cluster that the test sets.
type lagging map[string]state.Lag

func (l lagging) LagOf(cluster string) state.Lag { return l[cluster] }

func (l lagging) Lag() []state.Lag {
	var out []state.Lag
	for _, lag := range l {
		out = append(out, lag)
	}
	return out
}

// Above the limit, alerts are refused until half of the backlog is triaged. The log reports the
// beginning and the end, once each.
func TestOverloadRefusesAlertsUntilHalfIsTriaged(t *testing.T) {
	w := hooktest.NewWorld().Populate()
	var log bytes.Buffer
	lag := lagging{"default": {Partition: 1}, "prod": {Partition: 2}}
	s, clock := hooktest.Serve(t, w, func(c *webhook.Config) {
		c.Logger, c.Backlog, c.Limits.Lag = slog.New(slog.NewTextHandler(&log, nil)), lag, time.Minute
	})
	send := func(cluster string) int {
		return hooktest.Do(s, "POST", "/webhook/alertmanager", hooktest.Payload(hooktest.Alert(cluster, 1))).Code
	}
	step := func(behind time.Duration, want int) {
		t.Helper()
		lag["prod"] = state.Lag{Partition: 2, Inputs: 700, Alerts: 70_000, Work: behind}
		if got := send("prod"); got != want {
			t.Errorf("%s behind: answered %d, want %d", behind, got, want)
		}
	}
	step(time.Minute, 200)
	step(61*time.Second, 503)
	got := hooktest.Do(s, "POST", "/webhook/alertmanager", hooktest.Payload(hooktest.Alert("prod", 1)))
	hooktest.Expect(t, got, 503, "70000 alerts wait for triage, about 1m1s of work", "triage.max_lag")
	if got.Header().Get("Retry-After") != "32" {
		t.Errorf("Retry-After %s", got.Header().Get("Retry-After"))
	}
	step(45*time.Second, 503)
	step(31*time.Second, 503)
	if code := send("default"); code != 200 {
		t.Errorf("another partition's alerts: %d", code)
	}
	hooktest.Expect(t, hooktest.Do(s, "GET", "/readyz", ""), 200, "Paramedic refuses new alerts now")
	hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/status", ""), 200, `"alerts":70000`, `"work_s":31`, "Paramedic refuses new alerts now")
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/actions/"+string(hooktest.Action)+"/approve", `{"plan_hash":"plan1"}`), 200)
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/halt", ``), 200)
	calls := w.Calls
	both := hooktest.Do(s, "POST", "/webhook/alertmanager", hooktest.Payload(hooktest.Alert("default", 1), hooktest.Alert("prod", 1)))
	if both.Code != 503 || w.Calls != calls {
		t.Errorf("a payload of both: %d, and %d appends", both.Code, w.Calls-calls)
	}
	clock.Advance(90 * time.Second)
	step(30*time.Second, 200)
	step(time.Minute, 200)
	hooktest.Expect(t, hooktest.Do(s, "GET", "/readyz", ""), 200, `{"status":"ok"}`)
	if text := log.String(); strings.Count(text, "Paramedic refuses alerts with 503") != 1 ||
		strings.Count(text, "Paramedic accepts alerts again") != 1 ||
		!strings.Contains(text, "refused_for=1m30s refused_payloads=5") {
		t.Errorf("logged:\n%s", text)
	}
}

// A partition that caught up without a new payload is not reported as refusing.
func TestRefusingEndsWithoutNewPayload(t *testing.T) {
	lag := lagging{"default": {Partition: 1, Age: 2 * time.Minute}}
	var log bytes.Buffer
	s, _ := hooktest.Serve(t, hooktest.NewWorld(), func(c *webhook.Config) {
		c.Clusters, c.Backlog, c.Limits.Lag, c.Logger = []string{"default"}, lag, time.Minute, slog.New(slog.NewTextHandler(&log, nil))
	})
	hooktest.Expect(t, hooktest.Do(s, "POST", "/webhook/alertmanager", "not even read"), 503)
	if s.Refusing() == "" {
		t.Error("it does not say that it refuses")
	}
	lag["default"] = state.Lag{Partition: 1}
	if text := s.Refusing(); text != "" || strings.Count(log.String(), "Paramedic accepts alerts again") != 1 {
		t.Errorf("it says %q, and logs %s", text, log.String())
	}
}

// slowTriage pauses at each alert.
type slowTriage struct{ pause func() }

func (s slowTriage) Classify(_ state.Alert, cluster string) state.Sign {
	s.pause()
	return state.Sign{Symptom: "kv_pressure", Severity: state.Warning, By: "name",
		Entity: state.Entity{Cluster: cluster, Namespace: "llm", Pool: "vllm"}}
}

func (slowTriage) Correlate(_ state.Sign, _ []state.Worker, open []*state.Incident, _ time.Time) (state.IncidentID, bool) {
	if len(open) == 0 {
		return "", false
	}
	return open[0].ID, true
}

func (slowTriage) Diagnose(in *state.Incident, _ *state.Evidence, now time.Time) state.Diagnosis {
	return state.Diagnosis{Cause: state.Unknown, At: now, Scope: in.Scope}
}

func (slowTriage) SplitOff(*state.Incident, func() []*state.AlertRecord, *state.Evidence) []*state.AlertRecord {
	return nil
}
func (slowTriage) Absorbs(_, _ *state.Incident) bool        { return false }
func (slowTriage) Channels(*state.Incident) []state.Channel { return nil }

// With the real keeper and log, triage takes ten seconds of its clock per alert. A storm is
// accepted up to the limit and refused above it, while a person's halt still works. When triage has
// caught up, alerts are accepted again. No accepted alert is lost.
func TestAlertStormIsRefusedAtLimitThenAccepted(t *testing.T) {
	clock := hooktest.NewClock()
	store, err := jetstream.Open(t.Context(), jetstream.Config{Dir: t.TempDir(), Retain: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	keeper := keeper.New(keeper.Config{Store: store, Clock: clock, Logger: slog.New(slog.DiscardHandler), Fold: &fold.Fold{
		Triage: slowTriage{func() {
			if _, held := <-gate; held {
				clock.Advance(10 * time.Second)
			}
		}}, Routing: slowTriage{}, Settings: state.DefaultSettings()}})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- keeper.Run(ctx) }()
	defer func() {
		open()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	s, _ := hooktest.Serve(t, hooktest.NewWorld(), func(c *webhook.Config) {
		c.Log, c.View, c.Clock, c.Clusters, c.Backlog, c.Limits.Lag = keeper, keeper, clock, []string{"prod"}, keeper, time.Minute
	})
	await(t, "ready", func() bool { return keeper.Ready(t.Context()) == nil })
	sent, accepted := 0, 0
	send := func() int {
		sent++
		code := hooktest.Do(s, http.MethodPost, "/webhook/alertmanager", hooktest.Payload(hooktest.Alert("prod", sent))).Code
		if code == http.StatusOK {
			accepted++
		}
		return code
	}
	for range 4 {
		if code := send(); code != http.StatusOK {
			t.Fatalf("the first are answered with %d", code)
		}
	}
	gate <- struct{}{} // ten seconds for the first; three wait
	await(t, "one is triaged", func() bool { return keeper.LagOf("prod").Alerts == 3 })
	for send() == http.StatusOK {
		if accepted > 20 {
			t.Fatal("a storm is taken without end")
		}
	}
	if work := keeper.LagOf("prod").Work; accepted < 6 || accepted > 10 || work < time.Minute {
		t.Errorf("%d alerts were accepted, %s of work", accepted, work)
	}
	halted := make(chan int)
	// answered when it is applied, after the earlier inputs
	go func() { halted <- hooktest.Do(s, http.MethodPost, "/api/v1/halt", `{"actor":"ana"}`).Code }()
	await(t, "the halt is recorded", func() bool { return keeper.LagOf("prod").Inputs > accepted-1 })
	open()
	if code := <-halted; code/100 != 2 {
		t.Errorf("a halt was answered with %d", code)
	}
	await(t, "all that was accepted is triaged", func() bool { return keeper.LagOf("prod").Behind() == 0 })
	if code := send(); code != http.StatusOK {
		t.Errorf("after the storm: %d", code)
	}
	await(t, "nothing is lost", func() bool {
		in := keeper.Incidents()
		return len(in) == 1 && in[0].AlertCount == accepted
	})
	if _, halted := keeper.Halted("prod"); !halted {
		t.Error("the halt was lost")
	}
}

// await polls until ok returns true.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 20_000 {
		if ok() {
			return
		}
		<-time.After(time.Millisecond)
	}
	t.Fatal(fmt.Sprint("never: ", what))
}
