package fold

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/state/fold/index"
	"paramedic/state/statetest"
)

type (
	simpleTriage  = statetest.Triage
	simpleRouting = statetest.Routing
)

// story drives a fold as the keeper does. After every input it checks that the board reported all
// of its changes: a board loaded from the records must equal it.
type story struct {
	t       testing.TB
	fold    *Fold
	board   *Board
	records map[string][]byte
	entries []state.Entry
	now     time.Time
	seq     uint64
}

func newStory(t testing.TB) *story {
	return &story{t: t, board: NewBoard(), records: map[string][]byte{}, now: time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC),
		fold: &Fold{Triage: simpleTriage{}, Routing: simpleRouting{}, Settings: state.DefaultSettings()}}
}

func (s *story) apply(in state.Input) {
	s.t.Helper()
	s.seq++
	in.Seq = s.seq
	if in.Cluster == "" {
		in.Cluster = "prod"
	}
	if in.At.IsZero() {
		in.At = s.now
	}
	before := map[*state.Effect]state.Effect{} // an agenda may hold them
	for _, e := range s.board.effects {
		before[e] = *e
	}
	s.fold.Apply(s.board, in)
	for e, was := range before {
		if *e != was {
			s.t.Fatalf("input %d changed effect %s in place: %+v, before %+v", s.seq, e.ID, *e, was)
		}
	}
	records, entries, err := s.board.Take()
	if err != nil {
		s.t.Fatal(err)
	}
	s.entries = append(s.entries, entries...)
	if len(records) > 999 {
		s.t.Fatalf("one input changed %d records: more than one commit takes", len(records))
	}
	for _, r := range records {
		if r.Value == nil {
			delete(s.records, r.Key)
		} else {
			s.records[r.Key] = r.Value
		}
	}
	loaded := loadBoard(s.t, s.stored())
	if got, want := dump(loaded), dump(s.board); got != want {
		i := 0
		for i < min(len(got), len(want)) && got[i] == want[i] {
			i++
		}
		s.t.Fatalf("after input %d a restart would remember something else:\n got …%.300s\nwant …%.300s", s.seq, got[max(0, i-60):],
			want[max(0, i-60):])
	}
}

// stored returns the records that a start reads.
func (s *story) stored() (all []state.Record) {
	for key, value := range s.records {
		if !strings.HasPrefix(key, state.TimelinePrefix+".") {
			all = append(all, state.Record{Key: key, Value: value})
		}
	}
	return all
}

// loadBoard returns a board of records, as at a start.
func loadBoard(tb testing.TB, records []state.Record) *Board {
	tb.Helper()
	board, err := LoadBoard(records)
	if err != nil {
		tb.Fatal(err)
	}
	return board
}

func dump(b *Board) string {
	raw, err := json.Marshal(map[string]any{"i": b.incidents, "a": b.alerts, "x": b.actions, "e": b.effects, "ev": b.evidence,
		"w": b.workers, "h": b.halts, "m": b.meta})
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// wait advances the time, with every tick that becomes due.
func (s *story) alertCount() int { return len(slices.Collect(s.board.alerts.All())) }

func (s *story) wait(d time.Duration) {
	s.t.Helper()
	end := s.now.Add(d)
	for {
		due, _ := s.board.NextDue()
		if due.IsZero() || due.After(end) {
			break
		}
		if due.After(s.now) {
			s.now = due
		}
		s.apply(state.Input{})
	}
	s.now = end
}

func (s *story) alert(status state.AlertStatus, name, symptom, severity, pool string) {
	s.t.Helper()
	s.apply(state.Input{Alerts: &state.AlertBatch{Alerts: []state.Alert{s.newAlert(status, name, symptom, severity, pool)}}})
}

func (s *story) newAlert(status state.AlertStatus, name, symptom, severity, pool string) state.Alert {
	return state.Alert{Fingerprint: state.Fingerprint(state.Hash(name, pool)), Status: status, StartsAt: s.now.Add(-time.Minute),
		Labels: map[string]string{"alertname": name, "symptom": symptom, "severity": severity, "pool": pool}}
}

// deliver answers every due effect of a kind as its adapter would, and returns how many there were.
func (s *story) deliver(kind state.EffectKind) int {
	s.t.Helper()
	n := 0
	for _, e := range s.board.effects {
		if e.Kind != kind || e.Due.After(s.now) {
			continue
		}
		n++
		o := state.Outcome{Effect: e.ID, Turn: e.Turn, Done: true, Rev: s.board.incidents[e.Incident].Rev}
		s.apply(state.Input{Outcome: &o})
	}
	return n
}

func (s *story) evidence(in *state.Incident, cause string) {
	s.t.Helper()
	ev := state.Evidence{Incident: in.ID, At: s.now}
	if cause != "" {
		ev.Samples = []state.Sample{{Signal: "verdict", Text: cause}}
	}
	s.apply(state.Input{Evidence: &ev})
}

func (s *story) onlyIncident() *state.Incident {
	s.t.Helper()
	if len(s.board.incidents) != 1 {
		s.t.Fatalf("want one incident, have %d", len(s.board.incidents))
	}
	for _, in := range s.board.incidents {
		return in
	}
	return nil
}

func (s *story) effects(kind state.EffectKind) (ids []string) {
	for id, e := range s.board.effects {
		if e.Kind == kind {
			ids = append(ids, string(id))
		}
	}
	slices.Sort(ids)
	return ids
}

func TestSymptomsOfOnePoolAreOneIncident(t *testing.T) {
	s := newStory(t)
	s.alert(state.Firing, "HighTTFT", "ttft_high", "warning", "llama")
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	s.alert(state.Firing, "HighTTFT", "ttft_high", "warning", "llama") // a repeat
	in := s.onlyIncident()
	if in.AlertCount != 2 || in.ActiveAlerts != 2 || len(in.Symptoms) != 2 || in.Severity != state.Critical {
		t.Fatalf("alerts %d, active %d, symptoms %d, severity %s", in.AlertCount, in.ActiveAlerts, len(in.Symptoms), in.Severity)
	}
	s.alert(state.Firing, "HighTTFT", "ttft_high", "warning", "mistral")
	if len(s.board.incidents) != 2 {
		t.Fatal("another pool's trouble must be an incident of its own")
	}
}

func TestNotificationWaitsForVerdictOrThirtySeconds(t *testing.T) {
	s := newStory(t)
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	s.wait(29 * time.Second)
	if got := s.effects(state.EffectNotify); len(got) != 0 {
		t.Fatalf("told too early: %v", got)
	}
	s.wait(time.Second)
	if got := s.effects(state.EffectNotify); len(got) != 3 {
		t.Fatalf("30 s after a critical alert all three channels must hear of it, have %v", got)
	}
	s.deliver(state.EffectNotify)
	s.wait(time.Hour)
	if got := s.effects(state.EffectNotify); len(got) != 0 {
		t.Fatalf("nothing changed, and yet %v", got)
	}
}

func TestVerdictIsNotifiedImmediatelyOnce(t *testing.T) {
	s := newStory(t)
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	s.wait(10 * time.Second)
	if n := s.deliver(state.EffectEnrich); n != 1 {
		t.Fatalf("evidence is wanted once, when symptoms have settled; got %d", n)
	}
	in := s.onlyIncident()
	s.evidence(in, "kv_exhaustion")
	if got := s.effects(state.EffectNotify); len(got) != 3 {
		t.Fatalf("want three channels told, have %v", got)
	}
	if in.DiagnosedAt.IsZero() || in.Cause() != "kv_exhaustion" || !strings.Contains(in.Title, "kv_exhaustion") {
		t.Fatalf("verdict %s, title %q", in.Cause(), in.Title)
	}
	s.deliver(state.EffectNotify)
	s.evidence(in, "kv_exhaustion")
	if got := s.effects(state.EffectNotify); len(got) != 0 {
		t.Fatalf("the same verdict again is no news, and yet %v", got)
	}
	if got := s.effects(state.EffectPlan); len(got) != 1 {
		t.Fatalf("a verdict asks for remedies, have %v", got)
	}
}

// In a storm the incidents take turns to gather evidence again.
func TestCrowdedIncidentsGatherLessOften(t *testing.T) {
	for _, tt := range []struct {
		incidents int
		after     time.Duration
	}{{1, 15 * time.Second}, {320, 16 * time.Second}} {
		s := newStory(t)
		s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
		in := s.onlyIncident()
		for i := 1; i < tt.incidents; i++ {
			s.alert(state.Firing, "KVFull", "kv_pressure", "critical", fmt.Sprint("llama-", i))
		}
		s.wait(10 * time.Second)
		e := s.board.effects[state.EffectID("enrich:"+string(in.ID))]
		o := state.Outcome{Effect: e.ID, Turn: e.Turn, Done: true}
		s.apply(state.Input{Outcome: &o})
		if got := in.EnrichAt.Sub(s.now); got != tt.after {
			t.Errorf("%d incidents: the next gathering is %s later, want %s", tt.incidents, got, tt.after)
		}
	}
}

func TestBenignNeverPages(t *testing.T) {
	s := newStory(t)
	s.alert(state.Firing, "GPUMem", "gpu_memory_high", "critical", "llama")
	s.wait(10 * time.Second)
	s.evidence(s.onlyIncident(), string(state.BenignAlert))
	if got := s.effects(state.EffectNotify); len(got) != 1 || !strings.Contains(got[0], "console") {
		t.Fatalf("a benign alert is only logged, have %v", got)
	}
}

// NamedAt is the time of the current cause, not of an earlier "unknown" or another cause.
func TestNamedAtIsTimeOfCurrentCause(t *testing.T) {
	s := newStory(t)
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	in := s.onlyIncident()
	s.evidence(in, "")
	first := s.now
	if !in.DiagnosedAt.Equal(first) || !in.NamedAt.IsZero() {
		t.Fatalf("after an unknown: diagnosed at %s, named at %s", in.DiagnosedAt, in.NamedAt)
	}
	for _, cause := range []string{"kv_exhaustion", "kv_leak"} {
		s.wait(time.Minute)
		s.evidence(in, cause)
		named := s.now
		s.wait(time.Minute)
		s.evidence(in, cause)
		if !in.DiagnosedAt.Equal(first) || !in.NamedAt.Equal(named) {
			t.Errorf("%s: diagnosed at %s, named at %s, want %s and %s", cause, in.DiagnosedAt, in.NamedAt, first, named)
		}
	}
}

func TestFadingEvidenceKeepsVerdict(t *testing.T) {
	s := newStory(t)
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	in := s.onlyIncident()
	s.evidence(in, "kv_exhaustion")
	s.evidence(in, "")
	s.evidence(in, string(state.BenignAlert))
	if in.Cause() != "kv_exhaustion" {
		t.Fatalf("verdict became %s", in.Cause())
	}
	s.evidence(in, "gpu_fault")
	if in.Cause() != "gpu_fault" {
		t.Fatal("a better verdict must replace the one before")
	}
}

// A failed scrape is no evidence against the earlier verdict. A vanished signal is, if it is
// outweighed as well.
func TestMissingEvidenceKeepsVerdict(t *testing.T) {
	idle := state.Finding{Signal: "gpu_util", Pod: "a", Value: 30, Unit: "percent", Weight: 10,
		Reads: []string{"requests_running", "gpu_util"}}
	running := state.Sample{Signal: "requests_running", Entity: state.Entity{Pod: "a"}}
	noAnswer := state.Evidence{Samples: []state.Sample{running}, Missing: []state.Missing{{Signal: "gpu_util", Reason: "no answer"}}}
	for name, c := range map[string]struct {
		evidence state.Evidence
		score    float64 // of the other cause; the earlier one has 1
		later    time.Duration
		want     state.Cause
	}{
		"the exporter does not answer": {noAnswer, 21, time.Minute, "gpu_underutilization"},
		"one worker's was not scraped": {state.Evidence{Workers: []state.Worker{{Pod: "a"}},
			Samples: []state.Sample{running, {Signal: "gpu_util", Entity: state.Entity{Pod: "b"}}}}, 21, time.Minute,
			"gpu_underutilization"},
		"it was read and is well": {state.Evidence{Samples: []state.Sample{running,
			{Signal: "gpu_util", Entity: state.Entity{Pod: "a"}}}}, 21, time.Minute, "decode_saturation"},
		"its worker is gone": {state.Evidence{Samples: []state.Sample{running,
			{Signal: "gpu_util", Entity: state.Entity{Pod: "b"}}}}, 21, time.Minute, "decode_saturation"},
		"the other is clearer than it ever was": {noAnswer, 22, time.Minute, "decode_saturation"},
		"the exporter is gone for good":         {noAnswer, 21, 4 * time.Minute, "decode_saturation"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.alert(state.Firing, "Slow", "itl_high", "critical", "llama")
			in := s.onlyIncident()
			tell := func(ev state.Evidence, d state.Diagnosis) {
				s.fold.Triage = fixedVerdict{d: d}
				ev.Incident, ev.At = in.ID, s.now
				s.apply(state.Input{Evidence: &ev})
			}
			tell(state.Evidence{}, state.Diagnosis{Cause: "gpu_underutilization", Score: 12, Findings: []state.Finding{idle}})
			s.wait(c.later)
			tell(c.evidence, state.Diagnosis{Cause: "decode_saturation", Score: c.score,
				Alternatives: []state.Alternative{{Cause: "gpu_underutilization", Score: 1}}})
			if in.Cause() != c.want {
				t.Errorf("the verdict is %s, want %s", in.Cause(), c.want)
			}
		})
	}
}

// A rollout in answer to a verdict moves queues and empties caches. That is no other cause.
func TestRolloutAfterVerdictKeepsVerdict(t *testing.T) {
	rollout := func(pool string, age time.Duration) []state.Sample {
		return []state.Sample{{Signal: "rollout_age", Entity: state.Entity{Pool: pool}, Value: age.Seconds()}}
	}
	for name, c := range map[string]struct {
		samples []state.Sample
		later   time.Duration
		want    state.Cause
	}{
		"a rollout since the verdict":      {rollout("llama", time.Minute), 2 * time.Minute, "kv_exhaustion"},
		"a rollout before it":              {rollout("llama", 3*time.Minute), 2 * time.Minute, "traffic_surge"},
		"another pool's":                   {rollout("mixtral", time.Minute), 2 * time.Minute, "traffic_surge"},
		"one that has long had its effect": {rollout("llama", 16*time.Minute), 20 * time.Minute, "traffic_surge"},
		"no rollout":                       {nil, 2 * time.Minute, "traffic_surge"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
			in := s.onlyIncident()
			s.evidence(in, "kv_exhaustion")
			s.wait(c.later)
			for i := range c.samples {
				c.samples[i].At = s.now
			}
			s.fold.Triage = fixedVerdict{d: state.Diagnosis{Cause: "traffic_surge", Score: 30}}
			s.apply(state.Input{Evidence: &state.Evidence{Incident: in.ID, At: s.now, Samples: c.samples}})
			if in.Cause() != c.want {
				t.Errorf("the verdict is %s, want %s", in.Cause(), c.want)
			}
		})
	}
}

// At a kill the memory had not grown before. Later growth does not change that, even if the kill is
// not visible any more.
func TestSettledCausesStayRuledOut(t *testing.T) {
	for next, want := range map[state.Cause]state.Cause{"host_memory_leak": "oom_killed", "node_failure": "node_failure"} {
		s := newStory(t)
		s.alert(state.Firing, "Killed", "oom", "critical", "llama")
		in := s.onlyIncident()
		s.fold.Triage = fixedVerdict{d: state.Diagnosis{Cause: "oom_killed", Score: 13,
			Findings: []state.Finding{{Weight: 9, Settles: []state.Cause{"host_memory_leak"}}}}}
		s.apply(state.Input{Evidence: &state.Evidence{Incident: in.ID, At: s.now}})
		s.wait(time.Minute)
		s.fold.Triage = fixedVerdict{d: state.Diagnosis{Cause: "oom_killed", Score: 16, Findings: []state.Finding{{Weight: 8}}}}
		s.apply(state.Input{Evidence: &state.Evidence{Incident: in.ID, At: s.now}})
		s.wait(4 * time.Minute)
		s.fold.Triage = fixedVerdict{d: state.Diagnosis{Cause: next, Score: 18}}
		s.apply(state.Input{Evidence: &state.Evidence{Incident: in.ID, At: s.now}})
		if in.Cause() != want {
			t.Errorf("after %s the verdict is %s, want %s", next, in.Cause(), want)
		}
	}
}

// fixedVerdict is a triage with a given verdict.
type fixedVerdict struct {
	simpleTriage
	d state.Diagnosis
}

// verdict gives the incident new evidence, whose verdict is d.
func (s *story) verdict(in *state.Incident, d state.Diagnosis) {
	s.t.Helper()
	s.fold.Triage = fixedVerdict{d: d}
	s.apply(state.Input{Evidence: &state.Evidence{Incident: in.ID, At: s.now}})
}

func (t fixedVerdict) Diagnose(in *state.Incident, _ *state.Evidence, now time.Time) state.Diagnosis {
	t.d.At = now
	if t.d.Scope.Pods == nil {
		t.d.Scope = in.Scope
	}
	return t.d
}

// A benign verdict must not stay once users are affected, by any cause.
func TestUnexplainedAlertWithdrawsBenignVerdict(t *testing.T) {
	s := newStory(t)
	tell := func(in *state.Incident, d state.Diagnosis) {
		s.fold.Triage = fixedVerdict{d: d}
		s.apply(state.Input{Evidence: &state.Evidence{Incident: in.ID, At: s.now}})
	}
	s.alert(state.Firing, "PrefixHits", "prefix_hit_low", "warning", "llama")
	in := s.onlyIncident()
	unknown := state.Diagnosis{Cause: state.Unknown, Title: "no idea"}
	tell(in, state.Diagnosis{Cause: state.BenignAlert, Explains: []state.Symptom{"prefix_hit_low", "gpu_idle"}})
	s.alert(state.Firing, "Idle", "gpu_idle", "warning", "llama")
	tell(in, unknown)
	if in.Cause() != state.BenignAlert {
		t.Fatalf("the verdict became %s, though it explains what came", in.Cause())
	}
	s.alert(state.Firing, "TTFT", "ttft_high", "warning", "llama")
	tell(in, unknown)
	if in.Cause() != state.Unknown {
		t.Errorf("users wait for their first token, and the verdict is still %s", in.Cause())
	}
	tell(in, state.Diagnosis{Cause: state.BenignAlert, Findings: []state.Finding{{Signal: "symptom:ttft_high", Weight: -3}},
		Explains: []state.Symptom{"prefix_hit_low", "gpu_idle"}})
	tell(in, unknown)
	if in.Cause() != state.BenignAlert {
		t.Errorf("the verdict became %s, though it was given with the same alerts", in.Cause())
	}
}

// While a trouble ends, its consequences look like other causes. A weaker verdict replaces only
// unknown or benign, except for a root cause that an alert or a broken worker shows, or after a
// long time without evidence of the first.
func TestAftermathDoesNotReplaceVerdict(t *testing.T) {
	verdict := func(cause state.Cause, score float64, leads ...state.Cause) state.Diagnosis {
		return state.Diagnosis{Cause: cause, Score: score, LeadsTo: leads, Explains: []state.Symptom{"ttft_high"}}
	}
	found := verdict("gpu_fault", 8, "kv_exhaustion")
	found.Scope.Pods = []string{"vllm-0"}
	untold := verdict("kv_exhaustion", 17)
	untold.Explains = nil
	for name, c := range map[string]struct {
		before, next state.Diagnosis
		wait         time.Duration
		want         state.Cause
	}{
		"weaker":   {verdict("routing_skew", 17), verdict("retry_storm", 8), 4 * time.Minute, "routing_skew"},
		"stronger": {verdict("routing_skew", 8), verdict("retry_storm", 17), 4 * time.Minute, "retry_storm"},
		"a root while all alerts fire": {verdict("concurrency_cap", 17), verdict("traffic_surge", 8, "concurrency_cap"), 4 * time.Minute,
			"traffic_surge"},
		"a root that an alert tells of":  {untold, verdict("gpu_fault", 8, "kv_exhaustion"), 4 * time.Minute, "gpu_fault"},
		"a root that is a broken worker": {verdict("kv_exhaustion", 17), found, 4 * time.Minute, "gpu_fault"},
		"weaker, long afterwards":        {verdict("routing_skew", 17), verdict("retry_storm", 8), fadeTime + time.Second, "retry_storm"},
		"weaker than that all is well":   {verdict(state.BenignAlert, 17), verdict("retry_storm", 8), 4 * time.Minute, "retry_storm"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.alert(state.Firing, "TTFT", "ttft_high", "warning", "llama")
			in := s.onlyIncident()
			for _, d := range []state.Diagnosis{c.before, c.next} {
				s.fold.Triage = fixedVerdict{d: d}
				s.apply(state.Input{Evidence: &state.Evidence{Incident: in.ID, At: s.now}})
				s.wait(c.wait)
			}
			if in.Cause() != c.want {
				t.Errorf("the verdict is %s, want %s", in.Cause(), c.want)
			}
		})
	}
}

// kube-prometheus' Watchdog always fires. An incident about it would never end, and take in others.
func TestSeverityNoneOpensNoIncident(t *testing.T) {
	s := newStory(t)
	s.alert(state.Firing, "Watchdog", "", "none", "")
	s.alert(state.Resolved, "Watchdog", "", "none", "")
	if n := len(s.board.incidents); n != 0 {
		t.Errorf("%d incidents", n)
	}
	s.alert(state.Firing, "TTFT", "ttft_high", "info", "llama")
	s.onlyIncident()
}

// An alert has resolved, so the trouble may be ending.
func TestRootOfEndingTroubleIsAftermath(t *testing.T) {
	s := newStory(t)
	s.alert(state.Firing, "TTFT", "ttft_high", "warning", "llama")
	s.alert(state.Firing, "Queue", "queue_buildup", "warning", "llama")
	in := s.onlyIncident()
	verdict := func(d state.Diagnosis) { s.verdict(in, d) }
	explains := []state.Symptom{"ttft_high", "queue_buildup"}
	verdict(state.Diagnosis{Cause: "concurrency_cap", Score: 17, Explains: explains})
	s.alert(state.Resolved, "Queue", "queue_buildup", "warning", "llama")
	verdict(state.Diagnosis{Cause: "traffic_surge", Score: 8, Explains: explains, LeadsTo: []state.Cause{"concurrency_cap"}})
	if in.Cause() != "concurrency_cap" {
		t.Errorf("the verdict is %s, want concurrency_cap", in.Cause())
	}
}

// All alerts had resolved when another trouble came within the hold, together with an alert of the
// first. The new verdict is used although it is weaker and was ruled out before. Without an alert
// that the first trouble does not lead to, it is aftermath.
func TestNewTroubleWithinHoldGetsItsVerdict(t *testing.T) {
	first := state.Diagnosis{Cause: "traffic_surge", Score: 25, Explains: []state.Symptom{"ttft_high", "kv_pressure"},
		Findings: []state.Finding{{Text: "seen", Settles: []state.Cause{"oom_killed"}}}}
	next := state.Diagnosis{Cause: "oom_killed", Score: 12, Explains: []state.Symptom{"ttft_high", "kv_pressure", "oom"}}
	for what, want := range map[state.Symptom]state.Cause{"oom": "oom_killed", "kv_pressure": "traffic_surge"} {
		s := newStory(t)
		s.alert(state.Firing, "TTFT", "ttft_high", "warning", "llama")
		in := s.onlyIncident()
		verdict := func(d state.Diagnosis) { s.verdict(in, d) }
		verdict(first)
		s.wait(5 * time.Minute)
		s.alert(state.Resolved, "TTFT", "ttft_high", "warning", "llama")
		s.wait(30 * time.Second)
		s.fold.Triage = simpleTriage{}
		s.alert(state.Firing, "TTFT", "ttft_high", "warning", "llama")
		s.alert(state.Firing, "Other", string(what), "critical", "llama")
		if s.onlyIncident(); in.Status != state.StatusOpen || in.ActiveAlerts != 2 {
			t.Fatalf("%s with %d alerts", in.Status, in.ActiveAlerts)
		}
		verdict(next)
		if in.Cause() != want {
			t.Errorf("with %s the cause is %s, want %s", what, in.Cause(), want)
		}
	}
}

// Two workers of one pool are broken by two causes. When the evidence of one fades, the other does
// not become its cause.
func TestOtherIncidentsCauseDoesNotReplaceVerdict(t *testing.T) {
	s := newStory(t)
	seen := func(in *state.Incident, cause, pod string) {
		t.Helper()
		s.apply(state.Input{Evidence: &state.Evidence{Incident: in.ID, At: s.now,
			Samples: []state.Sample{{Signal: "verdict", Text: cause, Value: 20, Entity: state.Entity{Pod: pod}}}}})
	}
	s.alert(state.Firing, "Xid", "gpu_hardware", "critical", "llama")
	first := s.onlyIncident()
	seen(first, "gpu_fault", "a")
	s.alert(state.Firing, "Stalled", "throughput_drop", "critical", "qwen")
	var second *state.Incident
	for _, in := range s.board.incidents {
		if in != first {
			second = in
		}
	}
	seen(second, "engine_hang", "b")
	seen(first, "engine_hang", "b")
	if first.Cause() != "gpu_fault" || first.Diagnosis.Scope.Pods[0] != "a" {
		t.Errorf("the verdict on a became %s on %v", first.Cause(), first.Diagnosis.Scope.Pods)
	}
	seen(first, "engine_hang", "a")
	if first.Cause() != "engine_hang" {
		t.Errorf("a better verdict on the same worker did not replace %s", first.Cause())
	}
}

// The report has the peak of the trouble, not its remains.
func TestVerdictKeepsPeakScore(t *testing.T) {
	s := newStory(t)
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	in := s.onlyIncident()
	for _, c := range []struct {
		score float64
		pods  []string
		want  int
	}{{12, []string{"a"}, 1}, {20, []string{"a", "b", "c"}, 3}, {11, []string{"a"}, 3}, {15, []string{"a", "b", "c", "d"}, 4}, {22,
		[]string{"d"}, 1}} {
		ev := state.Evidence{Incident: in.ID, At: s.now}
		for _, pod := range c.pods {
			ev.Samples = append(ev.Samples, state.Sample{Signal: "verdict", Text: "kv_exhaustion", Value: c.score / float64(len(c.pods)),
				Entity: state.Entity{Pod: pod}})
		}
		s.apply(state.Input{Evidence: &ev})
		if got := in.Diagnosis.Scope.Pods; len(got) != c.want {
			t.Errorf("after %v at %g dB the verdict is about %v", c.pods, c.score, got)
		}
	}
}

func TestResolvedIncidentDoesNotAbsorbNewAlerts(t *testing.T) {
	s := newStory(t)
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	in := s.onlyIncident()
	s.evidence(in, "kv_exhaustion")
	s.deliver(state.EffectNotify)
	s.alert(state.Resolved, "KVFull", "kv_pressure", "critical", "llama")
	if in.Status != state.StatusMonitoring {
		t.Fatalf("status %s", in.Status)
	}
	s.wait(time.Minute)
	s.now = s.now.Add(time.Second)
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	if in.Status != state.StatusOpen || len(s.board.incidents) != 1 {
		t.Fatalf("an alert within the hold reopens: status %s, %d incidents", in.Status, len(s.board.incidents))
	}
	s.alert(state.Resolved, "KVFull", "kv_pressure", "critical", "llama")
	s.wait(2 * time.Minute)
	if in.Status != state.StatusResolved || in.ResolvedBy != "alerts" {
		t.Fatalf("status %s by %q", in.Status, in.ResolvedBy)
	}
	if got := s.effects(state.EffectNotify); len(got) != 3 {
		t.Fatalf("everybody who was told is told the end, have %v", got)
	}
	s.deliver(state.EffectNotify)
	s.wait(time.Minute)
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	if len(s.board.incidents) != 2 {
		t.Fatal("new trouble after the end is a new incident")
	}
}

func TestResolvedFirstOpensNothing(t *testing.T) {
	s := newStory(t)
	s.alert(state.Resolved, "KVFull", "kv_pressure", "critical", "llama")
	if len(s.board.incidents) != 0 || s.alertCount() != 1 {
		t.Fatalf("%d incidents, %d alerts", len(s.board.incidents), s.alertCount())
	}
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	s.onlyIncident()
}

func TestLateEndOfAnOlderEpisodeIsIgnored(t *testing.T) {
	s := newStory(t)
	old := s.newAlert(state.Resolved, "KVFull", "kv_pressure", "critical", "llama")
	s.now = s.now.Add(time.Hour)
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	s.apply(state.Input{Alerts: &state.AlertBatch{Alerts: []state.Alert{old}}})
	if in := s.onlyIncident(); in.ActiveAlerts != 1 {
		t.Fatalf("active %d", in.ActiveAlerts)
	}
}

func TestRepeatsAfterAPersonResolvedStayQuiet(t *testing.T) {
	s := newStory(t)
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	first := s.newAlert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	in := s.onlyIncident()
	s.apply(state.Input{Command: &state.Command{Verb: state.VerbResolve, Incident: in.ID, Actor: state.Actor{ID: "ana", Via: "api"}}})
	s.now = s.now.Add(4 * time.Hour)
	s.apply(state.Input{Alerts: &state.AlertBatch{Alerts: []state.Alert{first}}})
	if in := s.onlyIncident(); in.Status != state.StatusResolved {
		t.Fatalf("status %s", in.Status)
	}
}

// hinting is a triage that finds a hint in one pool's alerts.
type hinting struct{ simpleTriage }

func (t hinting) Classify(a state.Alert, cluster string) state.Sign {
	s := t.simpleTriage.Classify(a, cluster)
	s.Entity.Model = "llama-70b"
	if a.Labels["pool"] == "decode" {
		s.Hints = map[string]string{"xid": "79"}
	}
	return s
}

// Most alerts have no hints. A record without hints is loaded without hints.
func TestRootTakesHintsOfAbsorbedIncident(t *testing.T) {
	s := newStory(t)
	s.fold.Triage = hinting{}
	s.alert(state.Firing, "Xid", "gpu_hardware", "critical", "prefill")
	root := s.onlyIncident()
	s.alert(state.Firing, "Xid", "gpu_hardware", "critical", "decode")
	s.evidence(root, "gpu_fault")
	if len(root.Absorbed) != 1 || root.Symptoms[0].Hints["xid"] != "79" {
		t.Errorf("absorbed %v, hints %v", root.Absorbed, root.Symptoms[0].Hints)
	}
}

func TestLateRootAbsorbsItsConsequences(t *testing.T) {
	s := newStory(t)
	s.alert(state.Firing, "HighTTFT", "ttft_high", "critical", "llama")
	first := s.onlyIncident()
	s.evidence(first, "")
	s.deliver(state.EffectNotify)
	s.apply(state.Input{Alerts: &state.AlertBatch{Alerts: []state.Alert{{Fingerprint: "xid", Status: state.Firing, StartsAt: s.now,
		Labels: map[string]string{"alertname": "Xid", "symptom": "gpu_hardware", "severity": "critical", "node": "gpu-3"}}}}})
	var root *state.Incident
	for _, in := range s.board.incidents {
		if in != first {
			root = in
		}
	}
	if root == nil {
		t.Fatal("nothing tells yet that the node serves the pool: two incidents")
	}
	s.apply(state.Input{Evidence: &state.Evidence{Incident: root.ID, At: s.now,
		Samples: []state.Sample{{Signal: "verdict", Text: "gpu_fault", Entity: state.Entity{Node: "gpu-3"}}},
		Workers: []state.Worker{{Namespace: "llm", Pod: "llama-1", Pool: "llama", Node: "gpu-3"}}}})
	if first.MergedInto != root.ID || first.Status != state.StatusResolved || root.AlertCount != 2 || root.ActiveAlerts != 2 {
		t.Fatalf("merged into %q, status %s, root has %d alerts, %d active", first.MergedInto, first.Status, root.AlertCount,
			root.ActiveAlerts)
	}
	s.alert(state.Resolved, "HighTTFT", "ttft_high", "critical", "llama")
	if root.ActiveAlerts != 1 {
		t.Fatalf("the end of an absorbed alert counts at the root: active %d", root.ActiveAlerts)
	}
}

func TestIncidentIsFoundByOwnerAndRoute(t *testing.T) {
	s := newStory(t)
	s.apply(state.Input{Alerts: &state.AlertBatch{Alerts: []state.Alert{{Fingerprint: "kv", Status: state.Firing, StartsAt: s.now,
		Labels: map[string]string{"alertname": "KVFull", "symptom": "kv_pressure", "severity": "critical", "pool": "llama"}}}}})
	in := s.onlyIncident()
	worker := state.Worker{Namespace: "llm", Pod: "llama-1", Pool: "llama", Group: "1", Owner: "llama-graph",
		OwnerKind: "DynamoGraphDeployment", Routes: []string{"InferencePool/front"}}
	s.apply(state.Input{Evidence: &state.Evidence{Incident: in.ID, At: s.now, Workers: []state.Worker{worker}}})
	pod := state.Entity{Cluster: in.Cluster, Namespace: "llm", Pod: "llama-1"}
	for _, name := range []string{"llama", "llama-graph", "front"} {
		if keys := s.board.entityKeys(pod, ""); !slices.Contains(keys, index.PlaceKey("pool", name)) {
			t.Errorf("a worker is not found by %s: %v", name, keys)
		}
	}
	changed := worker
	changed.Routes = []string{"InferencePool/other"}
	if worker.Equal(changed) || !worker.Equal(worker) {
		t.Error("a worker that is routed to by another pool is not the same record")
	}
}

func TestApprovalNeedsCurrentPlanInTime(t *testing.T) {
	s := newStory(t)
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	in := s.onlyIncident()
	s.evidence(in, "kv_exhaustion")
	propose := func(id state.ActionID) {
		a := state.Action{ID: id, Incident: in.ID, State: state.Proposed, Change: "max_num_seqs 256 → 128", PlanHash: "plan",
			ExpiresAt: s.now.Add(15 * time.Minute)}
		if err := a.Move(state.AwaitingApproval, s.now, "", state.Actor{}); err != nil {
			t.Fatal(err)
		}
		s.apply(state.Input{Action: &state.ActionEvent{Action: a}})
	}
	approve := func(id state.ActionID, hash string) {
		s.apply(state.Input{Command: &state.Command{Verb: state.VerbApprove, Action: id, PlanHash: hash,
			Actor: state.Actor{ID: "U1", Name: "ana", Via: "slack"}}})
	}
	propose("ACT-1")
	approve("ACT-1", "another plan")
	if got := s.board.actions["ACT-1"].State; got != state.AwaitingApproval {
		t.Fatalf("an approval of another plan moved the action to %s", got)
	}
	approve("ACT-1", "plan")
	if got := s.board.actions["ACT-1"]; got.State != state.Approved || got.DecidedBy.ID != "U1" {
		t.Fatalf("state %s by %v", got.State, got.DecidedBy)
	}
	if got := s.effects(state.EffectRun); len(got) != 1 {
		t.Fatalf("an approved action runs, have %v", got)
	}
	steps := len(s.board.actions["ACT-1"].Steps)
	approve("ACT-1", "plan")
	if len(s.board.actions["ACT-1"].Steps) != steps {
		t.Fatal("a replayed click had an effect")
	}
	propose("ACT-2")
	s.wait(15 * time.Minute)
	if got := s.board.actions["ACT-2"].State; got != state.Expired {
		t.Fatalf("state %s after the approval's time", got)
	}
	approve("ACT-2", "plan")
	if got := s.board.actions["ACT-2"].State; got != state.Expired {
		t.Fatalf("a late approval moved the action to %s", got)
	}
}

func TestStaleRunnerChangesNothing(t *testing.T) {
	s := newStory(t)
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	in := s.onlyIncident()
	s.apply(state.Input{Action: &state.ActionEvent{Action: state.Action{ID: "ACT-1", Incident: in.ID, Mode: "auto", State: state.Proposed,
		Steps: []state.ActionStep{{State: state.Proposed}}}}})
	step := func(from, to state.ActionState) {
		a := s.board.actions["ACT-1"].Clone()
		a.State = to
		a.Steps = append(a.Steps, state.ActionStep{State: to, At: s.now})
		s.apply(state.Input{Action: &state.ActionEvent{From: from, Action: a}})
	}
	step(state.Proposed, state.Admitted)
	step(state.Proposed, state.Denied) // a late step
	if got := s.board.actions["ACT-1"].State; got != state.Admitted {
		t.Fatalf("state %s", got)
	}
	step(state.Admitted, state.Succeeded) // not legal
	if got := s.board.actions["ACT-1"].State; got != state.Admitted {
		t.Fatalf("state %s", got)
	}
	step(state.Admitted, state.Intent)
	if in.Status != state.StatusMitigating {
		t.Fatalf("incident status %s while first aid is under way", in.Status)
	}
}

func TestIncidentEndsOnlyAfterItsActionIsVerified(t *testing.T) {
	s := newStory(t)
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	in := s.onlyIncident()
	s.apply(state.Input{Action: &state.ActionEvent{Action: state.Action{ID: "ACT-1", Incident: in.ID, Mode: "auto", State: state.Proposed,
		Steps: []state.ActionStep{{State: state.Proposed}}}}})
	for _, to := range []state.ActionState{state.Admitted, state.Intent, state.Applied, state.Verifying} {
		a := s.board.actions["ACT-1"].Clone()
		from := a.State
		if err := a.Move(to, s.now, "", state.Actor{}); err != nil {
			t.Fatal(err)
		}
		s.apply(state.Input{Action: &state.ActionEvent{From: from, Action: a}})
	}
	s.alert(state.Resolved, "KVFull", "kv_pressure", "critical", "llama")
	s.wait(10 * time.Minute)
	if in.Status == state.StatusResolved {
		t.Fatal("resolved while its action was being verified")
	}
	a := s.board.actions["ACT-1"].Clone()
	if err := a.Move(state.Succeeded, s.now, "better", state.Actor{}); err != nil {
		t.Fatal(err)
	}
	s.apply(state.Input{Action: &state.ActionEvent{From: state.Verifying, Action: a}})
	s.wait(3 * time.Minute)
	if in.Status != state.StatusResolved {
		t.Fatalf("status %s", in.Status)
	}
}

func TestVanishedAlertIsReconciled(t *testing.T) {
	s := newStory(t)
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	s.alert(state.Firing, "HighTTFT", "ttft_high", "critical", "llama")
	s.now = s.now.Add(time.Minute)
	s.apply(state.Input{Vanished: &state.Vanished{At: s.now,
		Fingerprints: []state.Fingerprint{state.Fingerprint(state.Hash("KVFull", "llama"))}}})
	if in := s.onlyIncident(); in.ActiveAlerts != 1 {
		t.Fatalf("active %d: a silenced alert that resolved is never announced, so its absence must tell", in.ActiveAlerts)
	}
}

func TestPagerDutyAckAcknowledgesIncident(t *testing.T) {
	s := newStory(t)
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	in := s.onlyIncident()
	s.apply(state.Input{Foreign: &state.Foreign{Source: "pagerduty", Event: "acknowledged", ID: "Q1", Key: string(in.ID),
		Actor: state.Actor{ID: "P1", Name: "Ben", Via: "pagerduty"}}})
	if in.Status != state.StatusAcked || in.AckedBy.Name != "Ben" || in.Told.Ref(state.ChannelPagerDuty, "status") != "acknowledged" {
		t.Fatalf("status %s by %v, told %v", in.Status, in.AckedBy, in.Told)
	}
}

func TestForeignIncidentGetsNoteAndNoSecondPage(t *testing.T) {
	s := newStory(t)
	s.apply(state.Input{Foreign: &state.Foreign{Source: "pagerduty", Event: "triggered", ID: "Q1", Title: "TTFT high",
		Labels: map[string]string{
			"alertname": "HighTTFT", "symptom": "ttft_high", "severity": "critical", "pool": "llama"}}})
	in := s.onlyIncident()
	s.evidence(in, "kv_exhaustion")
	if got := s.effects(state.EffectNote); len(got) != 1 {
		t.Fatalf("want one note, have %v", got)
	}
	if slices.Contains(in.Channels, state.ChannelPagerDuty) {
		t.Fatal("somebody was paged already by the other tool")
	}
	s.deliver(state.EffectNote)
	s.evidence(in, "kv_exhaustion")
	if got := s.effects(state.EffectNote); len(got) != 0 {
		t.Fatalf("noted twice: %v", got)
	}
	s.apply(state.Input{Foreign: &state.Foreign{Source: "pagerduty", Event: "triggered", ID: "Q2", Title: "Shop is down",
		Labels: map[string]string{"alertname": "ShopDown"}}})
	s.onlyIncident()
}

func TestHaltIsRememberedUntilResume(t *testing.T) {
	s := newStory(t)
	by := state.Actor{ID: "ana", Via: "api"}
	s.apply(state.Input{Command: &state.Command{Verb: state.VerbHalt, Actor: by, Reason: "game day"}})
	if h := s.board.halts["prod"]; h == nil || h.Reason != "game day" {
		t.Fatalf("halt %v", h)
	}
	s.apply(state.Input{Command: &state.Command{Verb: state.VerbResume, Actor: by}})
	if s.board.halts["prod"] != nil {
		t.Fatal("still halted")
	}
}

func TestOutcomeOfAnOlderTurnIsIgnored(t *testing.T) {
	s := newStory(t)
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	in := s.onlyIncident()
	s.wait(30 * time.Second)
	id := state.EffectID("notify:slack:" + string(in.ID))
	turn := s.board.effects[id].Turn
	retry := state.Input{Outcome: &state.Outcome{Effect: id, Turn: turn, Error: "503", RetryAt: s.now.Add(time.Minute)}}
	s.apply(retry)
	s.apply(retry)
	if got := s.board.effects[id].Attempts; got != 1 {
		t.Fatalf("%d attempts counted", got)
	}
}

func TestStormOfHundredPoolsFitsOneCommit(t *testing.T) {
	s := newStory(t)
	var batch state.AlertBatch
	for i := range state.MaxBatch {
		batch.Alerts = append(batch.Alerts, s.newAlert(state.Firing, "KVFull", "kv_pressure", "critical", fmt.Sprint("pool-", i)))
	}
	s.apply(state.Input{Alerts: &batch}) // apply fails if a commit would be too large
	s.wait(time.Minute)
	if got := len(s.effects(state.EffectNotify)); got != 3*state.MaxBatch {
		t.Fatalf("%d notify effects", got)
	}
}

func TestRetentionErasesWholeIncident(t *testing.T) {
	s := newStory(t)
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	s.evidence(s.onlyIncident(), "kv_exhaustion")
	s.deliver(state.EffectNotify)
	s.alert(state.Resolved, "KVFull", "kv_pressure", "critical", "llama")
	s.wait(5 * time.Minute)
	s.deliver(state.EffectNotify)
	s.now = s.now.Add(721 * time.Hour)
	s.apply(state.Input{})
	for key := range s.records {
		if !strings.HasPrefix(key, "meta.") {
			t.Errorf("still remembered: %s", key)
		}
	}
}

// A root that absorbed another incident is found by the places of that one, also after a restart.
func TestRestartKeepsPlacesOfAbsorbedIncident(t *testing.T) {
	s := newStory(t)
	s.alert(state.Firing, "HighTTFT", "ttft_high", "critical", "llama")
	first := s.onlyIncident()
	s.evidence(first, "")
	s.apply(state.Input{Alerts: &state.AlertBatch{Alerts: []state.Alert{{Fingerprint: "xid", Status: state.Firing, StartsAt: s.now,
		Labels: map[string]string{"alertname": "Xid", "symptom": "gpu_hardware", "severity": "critical", "node": "gpu-3"}}}}})
	for _, in := range s.board.incidents {
		if in != first {
			s.apply(state.Input{Evidence: &state.Evidence{Incident: in.ID, At: s.now,
				Samples: []state.Sample{{Signal: "verdict", Text: "gpu_fault", Entity: state.Entity{Node: "gpu-3"}}},
				Workers: []state.Worker{{Namespace: "llm", Pod: "llama-1", Pool: "llama", Node: "gpu-3"}}}})
		}
	}
	if first.MergedInto == "" {
		t.Fatal("not merged")
	}
	root := s.board.root(first.ID)
	var all []state.Record
	for key, value := range s.records {
		if !strings.HasPrefix(key, state.TimelinePrefix+".") && !strings.HasPrefix(key, kindWorker+".") { // a worker expires earlier
			all = append(all, state.Record{Key: key, Value: value})
		}
	}
	loaded := loadBoard(t, all)
	for _, key := range s.board.open.Keys(root.ID) {
		if !slices.Contains(loaded.open.Keys(root.ID), key) {
			t.Errorf("after a restart the root is no longer found by %d", key)
		}
	}
}

// Vanished alerts may belong to many incidents, and each of them is notified.
func TestVanishedAlertsFitOneCommit(t *testing.T) {
	s := newStory(t)
	var batch state.AlertBatch
	var gone []state.Fingerprint
	for i := range 2 * state.MaxBatch {
		a := s.newAlert(state.Firing, "KVFull", "kv_pressure", "critical", fmt.Sprint("pool-", i))
		gone = append(gone, a.Fingerprint)
		if batch.Alerts = append(batch.Alerts, a); len(batch.Alerts) == state.MaxBatch {
			s.apply(state.Input{Alerts: &batch})
			batch = state.AlertBatch{}
		}
	}
	s.wait(time.Minute)
	for i, in := range s.board.incidents { // every channel has shown it
		for _, ch := range in.Channels {
			e := s.board.effects[state.EffectID(fmt.Sprintf("notify:%s:%s", ch, i))]
			in.Told = in.Told.With(ch, state.Told{Rev: in.Rev})
			s.board.removeEffect(e)
			delete(s.records, recordKey(kindEffect, string(e.ID)))
		}
		s.board.touch(kindIncident, string(i))
	}
	if _, _, err := s.board.Take(); err != nil {
		t.Fatal(err)
	}
	s.fold.Apply(s.board, state.Input{Seq: 10_000, At: s.now, Cluster: "prod", Vanished: &state.Vanished{At: s.now, Fingerprints: gone}})
	records, _, err := s.board.Take()
	if err != nil || len(records) > 700 { // the keeper may already have 299 records to commit
		t.Errorf("one input changed %d records (%v)", len(records), err)
	}
	ended := func() (n int) {
		for _, in := range s.board.incidents {
			if in.Status == state.StatusMonitoring {
				n++
			}
		}
		return n
	}
	if ended() == 0 {
		t.Error("none ended")
	}
	for range 5 {
		s.fold.Apply(s.board, state.Input{Seq: 10_001, At: s.now, Cluster: "prod",
			Vanished: &state.Vanished{At: s.now, Fingerprints: gone}})
	}
	if got := ended(); got != len(gone) {
		t.Errorf("%d of %d ended", got, len(gone))
	}
}

func TestForgottenWorkersFitOneCommit(t *testing.T) {
	s := newStory(t)
	for i := range 6 {
		s.alert(state.Firing, "KVFull", "kv_pressure", "critical", fmt.Sprint("llama-", i))
	}
	for i, in := range s.open() {
		ev := state.Evidence{Incident: in.ID, At: s.now}
		for n := range 400 {
			ev.Workers = append(ev.Workers, state.Worker{Namespace: "llm", Pod: fmt.Sprintf("llama-%d-%d", i, n),
				Pool: fmt.Sprint("llama-", i)})
		}
		s.fold.Apply(s.board, state.Input{Seq: uint64(100 + i), At: s.now, Cluster: "prod", Evidence: &ev})
		if _, _, err := s.board.Take(); err != nil {
			t.Fatal(err)
		}
	}
	s.now = s.now.Add(7 * time.Hour)
	for i := range 10 {
		s.fold.Apply(s.board, state.Input{Seq: uint64(200 + i), At: s.now, Cluster: "prod"})
		if records, _, err := s.board.Take(); err != nil || len(records) > 700 {
			t.Errorf("a sweep changed %d records (%v)", len(records), err)
		}
	}
	if got := len(s.board.workers); got != 0 {
		t.Errorf("%d workers are still remembered", got)
	}
}

func TestVeryManyWorkersFitOneCommit(t *testing.T) {
	s := newStory(t)
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	var workers []state.Worker
	for n := range 1200 {
		workers = append(workers, state.Worker{Namespace: "llm", Pod: fmt.Sprint("llama-", n), Pool: "llama"})
	}
	for range 5 { // apply fails if a commit would be too large
		s.apply(state.Input{Evidence: &state.Evidence{Incident: s.onlyIncident().ID, At: s.now, Workers: workers}})
	}
	if got := len(s.board.workers); got != len(workers) {
		t.Errorf("%d workers are known, want %d", got, len(workers))
	}
}
