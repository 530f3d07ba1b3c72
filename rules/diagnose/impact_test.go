package diagnose

import (
	"fmt"
	"math"
	"testing"
	"time"

	"paramedic/rules/rulestest"
	"paramedic/state"
)

// users builds evidence on what the users of pools feel.
type users struct{ ev state.Evidence }

// pool adds a pool of two healthy workers.
func (u *users) pool(name string) {
	for _, pod := range []string{name + "-0", name + "-1"} {
		u.ev.Workers = append(u.ev.Workers, state.Worker{Namespace: "llm", Pool: name, Pod: pod, Model: "m", Node: "node-" + pod, Ready: true})
		e := state.Entity{Namespace: "llm", Pool: name, Pod: pod, Model: "m"}
		for signal, v := range map[string]float64{"ttft_p99": 0.9, "ttft_p95": 0.4, "itl_p95": 0.03, "requests_waiting": 1, "error_rate": 0,
			"preemption_rate": 0, "requests_running": 20, "generation_tokens_rate": 900} {
			u.ev.Samples = append(u.ev.Samples, state.Sample{Signal: signal, Entity: e, Value: v, Baseline: &v, At: rulestest.Now})
		}
	}
}

// of changes the samples of a signal of one pod, or of every pod if pod is empty.
func (u *users) of(pod, signal string, change func(*state.Sample)) {
	for i := range u.ev.Samples {
		if s := &u.ev.Samples[i]; s.Signal == signal && (pod == "" || s.Entity.Pod == pod) {
			change(s)
		}
	}
}

func (u *users) set(pod, signal string, v float64) {
	u.of(pod, signal, func(s *state.Sample) { s.Value = v })
}

func (u *users) drop(pod, signal string) {
	u.of(pod, signal, func(s *state.Sample) { s.Signal = "kv_usage" })
}

func (u *users) add(signal string, v float64) {
	u.ev.Samples = append(u.ev.Samples, state.Sample{Signal: signal, Entity: state.Entity{Namespace: "llm", Pool: "chat", Model: "m"},
		Value: v, At: rulestest.Now})
}

// The impact is none only if everything that users feel is measured, fresh, healthy and usual.
func TestImpactNeedsEverythingThatUsersFeel(t *testing.T) {
	c := rulestest.MustLoad(t)
	none, felt, unknown := state.ImpactNone, state.ImpactFelt, state.ImpactUnknown
	for name, tc := range map[string]struct {
		change func(*users)
		want   state.Impact
	}{
		"healthy":                            {func(*users) {}, none},
		"no first tokens":                    {func(u *users) { u.drop("", "ttft_p99"); u.drop("", "ttft_p95") }, unknown},
		"first tokens by p95":                {func(u *users) { u.drop("", "ttft_p99") }, none},
		"no token gaps":                      {func(u *users) { u.drop("", "itl_p95") }, unknown},
		"no queue":                           {func(u *users) { u.drop("", "requests_waiting") }, unknown},
		"time in the queue":                  {func(u *users) { u.drop("", "requests_waiting"); u.add("queue_time_p95", 0.1) }, none},
		"long in the queue":                  {func(u *users) { u.add("queue_time_p95", 3) }, felt},
		"no failures counted":                {func(u *users) { u.drop("", "error_rate") }, unknown},
		"the gateway counts":                 {func(u *users) { u.drop("", "error_rate"); u.add("gateway_error_ratio", 0) }, none},
		"the gateway fails":                  {func(u *users) { u.add("gateway_error_ratio", 0.02) }, felt},
		"no preemptions":                     {func(u *users) { u.drop("", "preemption_rate") }, unknown},
		"no preemptions, but pauses counted": {func(u *users) { u.drop("", "preemption_rate"); u.add("requests_paused", 0) }, none},
		"paused":                             {func(u *users) { u.drop("", "preemption_rate"); u.add("requests_paused", 1) }, felt},
		"tokens that no reader waits for": {func(u *users) {
			u.of("", "itl_p95", func(s *state.Sample) { *s.Baseline, s.Value = 0.005, 0.011 })
		}, none},
		"first tokens that no reader waits for": {func(u *users) {
			u.of("", "ttft_p95", func(s *state.Sample) { *s.Baseline, s.Value = 0.08, 0.2 })
		}, none},
		"not a number":      {func(u *users) { u.set("", "itl_p95", math.NaN()) }, unknown},
		"one worker silent": {func(u *users) { u.drop("chat-1", "requests_waiting") }, unknown},
		"one worker no number": {func(u *users) {
			u.set("chat-1", "error_rate", math.NaN())
		}, unknown},
		"one worker silent, the pool is not": {func(u *users) { u.drop("chat-1", "error_rate"); u.add("error_rate", 0) }, none},
		"stale": {func(u *users) {
			u.of("chat-0", "requests_waiting", func(s *state.Sample) { s.At = s.At.Add(-11 * time.Minute) })
		}, unknown},
		"stale, and felt elsewhere": {func(u *users) {
			u.of("", "requests_waiting", func(s *state.Sample) { s.At = s.At.Add(-11 * time.Minute) })
			u.set("chat-0", "error_rate", 0.05)
		}, felt},
		"late first tokens":     {func(u *users) { u.set("chat-1", "ttft_p99", 2.1) }, felt},
		"later than usual":      {func(u *users) { u.set("", "ttft_p95", 0.9) }, felt},
		"no baseline":           {func(u *users) { u.of("", "ttft_p95", func(s *state.Sample) { s.Value, s.Baseline = 0.9, nil }) }, none},
		"slow tokens":           {func(u *users) { u.set("chat-0", "itl_p95", 0.16) }, felt},
		"slower than usual":     {func(u *users) { u.set("", "itl_p95", 0.07) }, felt},
		"a long queue":          {func(u *users) { u.set("chat-0", "requests_waiting", 51) }, felt},
		"a queue as never":      {func(u *users) { u.set("chat-0", "requests_waiting", 6) }, felt},
		"few wait":              {func(u *users) { u.set("chat-0", "requests_waiting", 5) }, none},
		"failures":              {func(u *users) { u.set("chat-0", "error_rate", 0.02) }, felt},
		"preemptions":           {func(u *users) { u.set("chat-0", "preemption_rate", 0.02) }, felt},
		"the usual preemptions": {func(u *users) { u.of("", "preemption_rate", func(s *state.Sample) { *s.Baseline, s.Value = 0.3, 0.5 }) }, none},
		"preemptions, no baseline": {func(u *users) {
			u.of("", "preemption_rate", func(s *state.Sample) { s.Baseline, s.Value = nil, 0.5 })
		}, felt},
		"a worker stands": {func(u *users) { u.set("chat-1", "generation_tokens_rate", 0) }, felt},
		"an idle worker":  {func(u *users) { u.set("chat-1", "generation_tokens_rate", 0); u.set("chat-1", "requests_running", 0) }, none},
	} {
		var u users
		u.ev.At = rulestest.Now
		u.pool("chat")
		tc.change(&u)
		in := &state.Incident{ID: "INC-1", Cluster: "c", Status: state.StatusOpen}
		rulestest.Attach(in, state.Sign{Symptom: state.Unclassified, Severity: state.Critical,
			Entity: state.Entity{Cluster: "c", Namespace: "llm", Pool: "chat"}}, "Odd", rulestest.Now)
		if d := Diagnose(c, in, &u.ev, rulestest.Now); d.Impact != tc.want {
			t.Errorf("%s: impact %s of %s, want %s", name, d.Impact, d.Cause, tc.want)
		}
	}
}

// Among many workers with few requests, some are twice as slow as before by chance.
func TestImpactOfLargePoolsAllowsForChance(t *testing.T) {
	c := rulestest.MustLoad(t)
	for slow, want := range map[int]state.Impact{3: state.ImpactNone, 5: state.ImpactFelt} {
		var u users
		u.ev.At = rulestest.Now
		for i := range 25 {
			u.pool(fmt.Sprintf("chat%d", i))
		}
		for i := range u.ev.Workers {
			u.ev.Workers[i].Pool = "chat"
		}
		for i := range u.ev.Samples {
			u.ev.Samples[i].Entity.Pool = "chat"
		}
		for i := range slow {
			u.set(fmt.Sprintf("chat%d-0", i), "ttft_p95", 0.9)
		}
		in := &state.Incident{ID: "INC-1", Cluster: "c", Status: state.StatusOpen}
		rulestest.Attach(in, state.Sign{Symptom: state.Unclassified, Severity: state.Critical,
			Entity: state.Entity{Cluster: "c", Namespace: "llm", Pool: "chat"}}, "Odd", rulestest.Now)
		if d := Diagnose(c, in, &u.ev, rulestest.Now); d.Impact != want {
			t.Errorf("%d of 50 workers slower: impact %s, want %s", slow, d.Impact, want)
		}
	}
}

// The pools that count are those that the alerts can mean. A pool that nothing names is a guess.
func TestImpactIsOfPoolsInScope(t *testing.T) {
	c := rulestest.MustLoad(t)
	for name, tc := range map[string]struct {
		symptom state.Symptom
		entity  state.Entity
		other   func(*users) // change of the pool batch
		want    state.Impact
	}{
		"the pool":                {"kv_pressure", state.Entity{Pool: "chat"}, func(u *users) { u.set("batch-0", "error_rate", 0.5) }, state.ImpactNone},
		"its worker":              {"kv_pressure", state.Entity{Pool: "chat", Pod: "chat-0"}, func(u *users) { u.set("batch-0", "error_rate", 0.5) }, state.ImpactNone},
		"its mate suffers":        {"kv_pressure", state.Entity{Pool: "batch", Pod: "batch-1"}, func(u *users) { u.set("batch-0", "error_rate", 0.5) }, state.ImpactFelt},
		"its node":                {"gpu_hardware", state.Entity{Node: "node-batch-1"}, func(u *users) { u.set("batch-0", "error_rate", 0.5) }, state.ImpactFelt},
		"another node":            {"gpu_hardware", state.Entity{Node: "node-chat-1"}, func(u *users) { u.set("batch-0", "error_rate", 0.5) }, state.ImpactNone},
		"a node without workers":  {"gpu_hardware", state.Entity{Node: "spare"}, func(*users) {}, state.ImpactUnknown},
		"both pools":              {"kv_pressure", state.Entity{}, func(*users) {}, state.ImpactNone},
		"one of both suffers":     {"kv_pressure", state.Entity{}, func(u *users) { u.set("batch-0", "error_rate", 0.5) }, state.ImpactFelt},
		"one of both is dark":     {"kv_pressure", state.Entity{}, func(u *users) { u.drop("batch-0", "requests_waiting") }, state.ImpactUnknown},
		"nothing names a pool":    {state.Unclassified, state.Entity{}, func(*users) {}, state.ImpactUnknown},
		"a pool without workers":  {"kv_pressure", state.Entity{Pool: "gone"}, func(*users) {}, state.ImpactUnknown},
		"a pod that is no worker": {state.Unclassified, state.Entity{Pod: "postgres-0"}, func(*users) {}, state.ImpactUnknown},
	} {
		var u users
		u.ev.At = rulestest.Now
		u.pool("chat")
		u.pool("batch")
		tc.other(&u)
		e := tc.entity
		e.Cluster = "c"
		if e.Node == "" {
			e.Namespace = "llm"
		}
		in := &state.Incident{ID: "INC-1", Cluster: "c", Status: state.StatusOpen}
		rulestest.Attach(in, state.Sign{Symptom: tc.symptom, Severity: state.Critical, Entity: e}, "Odd", rulestest.Now)
		if d := Diagnose(c, in, &u.ev, rulestest.Now); d.Impact != tc.want {
			t.Errorf("%s: impact %s of %s, want %s", name, d.Impact, d.Cause, tc.want)
		}
		if d := Diagnose(c, in, nil, rulestest.Now); d.Impact != state.ImpactUnknown {
			t.Errorf("%s: impact %s without evidence", name, d.Impact)
		}
	}
}
