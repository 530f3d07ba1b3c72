package casetest

import (
	"encoding/json"
	"fmt"
	"testing"

	"paramedic/rules"
	"paramedic/rules/rulestest"
	"paramedic/rules/signals"
	"paramedic/state"
	"paramedic/state/fold"
)

// An everywhereWorld is a board with the real rules. Each of its alerts is about one pod in a pool
// of its own.
type everywhereWorld struct {
	*storm
}

func newEverywhereWorld(t *testing.T) *everywhereWorld {
	return &everywhereWorld{storm: &storm{t: t, board: fold.NewBoard(), now: rulestest.Now,
		fold: fold.Fold{Triage: rules.Rules{Catalog: rulestest.MustLoad(t)}, Routing: nobody{}, Settings: state.DefaultSettings()}}}
}

func podAlert(rule string, n int) state.Alert {
	return state.Alert{Fingerprint: state.Fingerprint(fmt.Sprint(rule, n)), Status: state.Firing, StartsAt: rulestest.Now,
		Labels: map[string]string{"alertname": rule, "severity": "warning", "namespace": fmt.Sprint("team-", n%7),
			"pod": fmt.Sprintf("app%d-6d5f8c7b9-x2x4z", n)}}
}

func (w *everywhereWorld) fire(rule string, from, to int, status state.AlertStatus) {
	for n := from; n < to; n += 100 {
		var batch state.AlertBatch
		for i := n; i < min(n+100, to); i++ {
			a := podAlert(rule, i)
			if a.Status = status; status == state.Resolved {
				a.EndsAt = w.now
			}
			batch.Alerts = append(batch.Alerts, a)
		}
		w.apply(state.Input{Alerts: &batch})
	}
}

func TestUnclassifiedRuleOnFleetIsOneIncident(t *testing.T) {
	w := newEverywhereWorld(t)
	w.fire("SomebodysOwnRule", 0, 500, state.Firing)
	open := w.open()
	if len(open) != 1 {
		t.Fatalf("%d incidents are open for 500 alerts of one unknown rule, want 1", len(open))
	}
	in := open[0]
	if in.AlertCount != 500 || in.ActiveAlerts != 500 || in.Symptoms[0].Alerts != 500 || in.Symptoms[0].Active != 500 {
		t.Errorf("it counts %d alerts, %d active, %+v; want 500", in.AlertCount, in.ActiveAlerts, in.Symptoms)
	}
	if s := in.Scope; s.Pool != "" || s.Namespace != "" || len(s.Pods) > 0 {
		t.Errorf("its scope is %+v, want no single place", s)
	}
	if raw, err := json.Marshal(in); err != nil || len(raw) > 4096 {
		t.Errorf("its record has %d bytes (%v)", len(raw), err)
	}
	w.fire("SomebodysOwnRule", 0, 499, state.Resolved)
	if in := w.open()[0]; in.ActiveAlerts != 1 || in.Status != state.StatusOpen {
		t.Errorf("one alert still fires, and it counts %d and is %s", in.ActiveAlerts, in.Status)
	}
	w.fire("SomebodysOwnRule", 499, 500, state.Resolved)
	if in := w.open()[0]; in.ActiveAlerts != 0 || in.Symptoms[0].Active != 0 || in.Status != state.StatusMonitoring {
		t.Errorf("none fires any more, and it counts %d and is %s", in.ActiveAlerts, in.Status)
	}
	w.fire("SomebodysOwnRule", 100, 110, state.Firing) // they flap
	if in := w.open()[0]; len(w.open()) != 1 || in.AlertCount != 510 || in.ActiveAlerts != 10 || in.Scope.Pool != "" ||
		len(in.Scope.Pods) > 0 {
		t.Errorf("after ten came back: %d alerts, %d active, scope %+v", in.AlertCount, in.ActiveAlerts, in.Scope)
	}
}

// Alerts that name only an address share nothing but their scrape job, so the job joins them.
func TestAddressesOfOneJobAreOneIncident(t *testing.T) {
	w := newEverywhereWorld(t)
	down := func(rule, job, address string) {
		w.apply(state.Input{Alerts: &state.AlertBatch{Alerts: []state.Alert{{Fingerprint: state.Fingerprint(rule + address),
			Status: state.Firing, StartsAt: rulestest.Now,
			Labels: map[string]string{"alertname": rule, "severity": "warning", "job": job, "instance": address}}}}})
	}
	down("InstanceDown", "llm/chat", "10.0.0.1:8000")
	down("InstanceDown", "llm/chat", "10.0.0.2:8000")
	down("TargetDown", "llm/chat", "")
	if n := len(w.open()); n != 1 {
		t.Errorf("%d incidents for one job, want 1", n)
	}
	down("InstanceDown", "db/postgres", "10.0.0.3:9187")
	if n := len(w.open()); n != 2 {
		t.Errorf("%d incidents for two jobs, want 2", n)
	}
}

func TestUnclassifiedRuleOnFewPoolsStaysThere(t *testing.T) {
	w := newEverywhereWorld(t)
	known := podAlert("VLLMKVCacheExhaustion", 3)
	w.apply(state.Input{Alerts: &state.AlertBatch{Alerts: []state.Alert{known}}})
	w.fire("SomebodysOwnRule", 0, 6, state.Firing)
	if open := w.open(); len(open) != 6 || open[0].AlertCount != 2 || open[0].Scope.Pool != "app3" {
		t.Errorf("%d incidents, the pool's has %d alerts; want 6, and the pool's with both", len(open), open[0].AlertCount)
	}
}

func TestUnclassifiedRuleAttractsNoOtherAlerts(t *testing.T) {
	w := newEverywhereWorld(t)
	w.fire("SomebodysOwnRule", 0, 50, state.Firing)
	for _, n := range []int{2, 30, 70} { // merged into it, counted by it, beside it
		w.apply(state.Input{Alerts: &state.AlertBatch{Alerts: []state.Alert{podAlert("VLLMKVCacheExhaustion", n)}}})
	}
	open := w.open()
	if len(open) != 4 || open[0].AlertCount != 50 {
		t.Fatalf("%d incidents, the rule's has %d alerts; want 4 and 50", len(open), open[0].AlertCount)
	}
	w.apply(state.Input{Alerts: &state.AlertBatch{Alerts: []state.Alert{podAlert("SomebodysOwnRule", 70)}}})
	if open := w.open(); len(open) != 4 || open[3].AlertCount != 2 {
		t.Errorf("an alert of the rule about a pool that has an incident is not part of it: %d incidents, %d alerts", len(open),
			open[3].AlertCount)
	}
}

func TestUnclassifiedRuleIsOneAfterRestart(t *testing.T) {
	w := newEverywhereWorld(t)
	kept := map[string]state.Record{}
	for n := range 40 {
		w.seq++
		w.fold.Apply(w.board, state.Input{Seq: w.seq, At: w.now, Cluster: "test",
			Alerts: &state.AlertBatch{Alerts: []state.Alert{podAlert("SomebodysOwnRule", n)}}})
		records, _, err := w.board.Take()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if kept[r.Key] = r; r.Value == nil {
				delete(kept, r.Key)
			}
		}
		if n%9 == 0 {
			var all []state.Record
			for key, r := range kept {
				if key[:8] != "timeline" {
					all = append(all, r)
				}
			}
			if w.board, err = fold.LoadBoard(all); err != nil {
				t.Fatal(err)
			}
		}
	}
	if open := w.open(); len(open) != 1 || open[0].ActiveAlerts != 40 {
		t.Errorf("%d incidents, the first counts %d", len(open), open[0].ActiveAlerts)
	}
}

func TestMissingReasonIsShownOnceWithoutSources(t *testing.T) {
	const none = "the cluster test has no Prometheus, engines or Kubernetes configured"
	w := newEverywhereWorld(t)
	w.apply(state.Input{Alerts: &state.AlertBatch{Alerts: []state.Alert{podAlert("VLLMKVCacheExhaustion", 1)}}})
	all, err := signals.LoadSignals()
	if err != nil {
		t.Fatal(err)
	}
	ev := state.Evidence{Incident: w.open()[0].ID, At: w.now}
	for _, s := range all {
		ev.Missing = append(ev.Missing, state.Missing{Signal: s.ID, Reason: none})
	}
	w.apply(state.Input{Evidence: &ev})
	in := w.open()[0]
	if got := in.Diagnosis.Missing; len(got) != 1 || got[0] != "every signal ("+none+")" {
		t.Errorf("missing %q", got)
	}
	if raw, err := json.Marshal(in); err != nil || len(raw) > 3072 {
		t.Errorf("the incident's record has %d bytes (%v)", len(raw), err)
	}
}
