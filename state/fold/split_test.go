package fold

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"paramedic/state"
)

// twoTroubles is a triage that knows the trouble of each pod. A pod outside the verdict has another
// trouble.
type twoTroubles struct{ simpleTriage }

func (twoTroubles) SplitOff(in *state.Incident, firing func() []*state.AlertRecord, _ *state.Evidence) []*state.AlertRecord {
	return slices.DeleteFunc(firing(), func(rec *state.AlertRecord) bool {
		return rec.Sign.Entity.Pod == "" || slices.Contains(in.Diagnosis.Scope.Pods, rec.Sign.Entity.Pod)
	})
}

// The verdict is the cause of the pods that the incident's alerts are about, unless another
// incident reports them.
func (t twoTroubles) Diagnose(in *state.Incident, ev *state.Evidence, now time.Time) state.Diagnosis {
	mine := *ev
	mine.Samples = slices.DeleteFunc(slices.Clone(ev.Samples), func(s state.Sample) bool {
		told := func(b state.Beside) bool { return slices.Contains(b.Scope.Pods, s.Entity.Pod) }
		alerted := func(c state.SymptomCount) bool {
			return slices.ContainsFunc(c.Entities, func(e state.Entity) bool { return e.Pod == s.Entity.Pod })
		}
		return slices.ContainsFunc(ev.Beside, told) || !slices.ContainsFunc(in.Symptoms, alerted)
	})
	mine.Samples = mine.Samples[:min(1, len(mine.Samples))]
	return t.simpleTriage.Diagnose(in, &mine, now)
}

// A second trouble in an incident, even in one that was merged into it, gets its own incident with
// its alerts. Each is notified, counted and resolved by itself.
func TestSecondTroubleGetsItsOwnIncident(t *testing.T) {
	s := newStory(t)
	s.fold.Triage = twoTroubles{}
	alert := func(status state.AlertStatus, name, symptom, severity, pod string) {
		a := s.newAlert(status, name, symptom, severity, "llama")
		a.Labels["pod"] = pod
		s.apply(state.Input{Alerts: &state.AlertBatch{Alerts: []state.Alert{a}}})
	}
	gather := func(in *state.Incident) {
		s.apply(state.Input{Evidence: &state.Evidence{Incident: in.ID, At: s.now, Samples: []state.Sample{
			{Signal: "verdict", Text: "engine_hang", Entity: state.Entity{Pod: "llama-1"}}, {Signal: "verdict",
				Text: "kv_leak", Entity: state.Entity{Pod: "llama-2"}}}}})
	}
	alert(state.Firing, "Hang", "throughput_drop", "warning", "llama-1")
	first := s.onlyIncident()
	alert(state.Firing, "Slow", "ttft_high", "warning", "")
	gather(first)
	alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama-2")
	alert(state.Firing, "SlowToo", "ttft_high", "critical", "llama-2")
	gather(first)

	if len(s.board.incidents) != 2 {
		t.Fatalf("%d incidents, want 2", len(s.board.incidents))
	}
	var second *state.Incident
	for _, in := range s.board.incidents {
		if in != first {
			second = in
		}
	}
	for _, tt := range []struct {
		in       *state.Incident
		cause    state.Cause
		severity state.Severity
		symptoms string
	}{{first, "engine_hang", state.Critical, "[{throughput_drop 1 1 [Hang]} {ttft_high 1 1 [Slow]}]"}, {second, "kv_leak", state.Critical,
		"[{kv_pressure 1 1 [KVFull]} {ttft_high 1 1 [SlowToo]}]"}} {
		type count struct {
			Symptom        state.Symptom
			Alerts, Active int
			Rules          []string
		}
		var symptoms []count
		for _, c := range tt.in.Symptoms {
			symptoms = append(symptoms, count{c.Symptom, c.Alerts, c.Active, c.Rules})
		}
		if tt.in.Cause() != tt.cause || fmt.Sprint(symptoms) != tt.symptoms || tt.in.ActiveAlerts != 2 || tt.in.AlertCount != 2 ||
			tt.in.Severity != tt.severity {
			t.Errorf("%s: %s, %v, %d of %d alerts fire, %s", tt.cause, tt.in.Cause(), symptoms, tt.in.ActiveAlerts, tt.in.AlertCount,
				tt.in.Severity)
		}
		if s.board.effects[state.EffectID("notify:slack:"+string(tt.in.ID))] == nil ||
			s.board.effects[state.EffectID("enrich:"+string(tt.in.ID))] == nil {
			t.Errorf("%s is not told, or not looked at again", tt.cause)
		}
	}
	if !slices.ContainsFunc(s.entries, func(e state.Entry) bool {
		return e.Incident == first.ID && e.Kind == "split" && !e.Quiet &&
			e.Text == string(second.ID)+" (kv_leak on llama) is another problem: its alerts were moved there"
	}) {
		t.Error("the first incident does not say that the second was split off")
	}
	gather(first)
	alert(state.Resolved, "KVFull", "kv_pressure", "critical", "llama-2")
	alert(state.Resolved, "SlowToo", "ttft_high", "critical", "llama-2")
	if first.ActiveAlerts != 2 || second.Status != state.StatusMonitoring || len(s.board.incidents) != 2 {
		t.Errorf("%d alerts fire for the first, the second is %s, there are %d incidents", first.ActiveAlerts, second.Status,
			len(s.board.incidents))
	}
}

// The evidence of the first trouble may have faded when the second is found. Its verdict stays, and
// its thread reports the split all the same.
func TestSplitIsRecordedOnFirstIncident(t *testing.T) {
	s := newStory(t)
	s.fold.Triage = twoTroubles{}
	alert := func(name, symptom, pod string) {
		a := s.newAlert(state.Firing, name, symptom, "critical", "llama")
		a.Labels["pod"] = pod
		s.apply(state.Input{Alerts: &state.AlertBatch{Alerts: []state.Alert{a}}})
	}
	seen := func(in *state.Incident, cause, pod string) {
		s.apply(state.Input{Evidence: &state.Evidence{Incident: in.ID, At: s.now,
			Samples: []state.Sample{{Signal: "verdict", Text: cause, Entity: state.Entity{Pod: pod}}}}})
	}
	alert("Hang", "throughput_drop", "llama-1")
	first := s.onlyIncident()
	seen(first, "engine_hang", "llama-1")
	alert("KVFull", "kv_pressure", "llama-2")
	s.deliver(state.EffectNotify)
	told := first.Told.Rev(state.ChannelSlack)
	seen(first, "kv_leak", "llama-2")
	if len(s.board.incidents) != 2 || first.Cause() != "engine_hang" {
		t.Fatalf("%d incidents, the first is %s", len(s.board.incidents), first.Cause())
	}
	if e := s.board.effects[state.EffectID("notify:slack:"+string(first.ID))]; e == nil || e.Want <= told {
		t.Errorf("Slack is not told: %+v, it has revision %d", e, told)
	}
}
