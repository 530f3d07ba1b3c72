package state

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// simpleTriage knows that an alert's symptom is its label "symptom" and that one pool is one
// trouble. A verdict is the evidence's one text sample.
type simpleTriage struct{}

func (simpleTriage) Classify(a Alert, cluster string) Sign {
	s := Sign{Symptom: Symptom(a.Labels["symptom"]), Severity: Severity(a.Labels["severity"]), By: "name",
		Entity: Entity{Cluster: cluster, Namespace: "llm", Pool: a.Labels["pool"], Pod: a.Labels["pod"], Node: a.Labels["node"]}}
	if s.Symptom == "" {
		s.Symptom = Unclassified
	}
	return s
}

func (simpleTriage) Correlate(s Sign, workers []Worker, open []*Incident, now time.Time) (IncidentID, bool) {
	for _, in := range open {
		if in.Scope.Pool == s.Entity.Pool || slices.Contains(in.Scope.Nodes, s.Entity.Node) && s.Entity.Node != "" {
			return in.ID, true
		}
	}
	return "", false
}

func (simpleTriage) Diagnose(in *Incident, ev *Evidence, now time.Time) Diagnosis {
	d := Diagnosis{Cause: Unknown, At: now, Title: "no idea", Scope: in.Scope}
	d.Scope.Pods = nil
	for _, s := range ev.Samples {
		d.Cause, d.Confidence, d.Title = Cause(s.Text), 0.9, s.Text+" on "+in.Scope.Pool
		d.Score += s.Value
		if s.Entity.Pod != "" {
			d.Scope.Pods = append(d.Scope.Pods, s.Entity.Pod)
		}
		if s.Entity.Node != "" {
			d.Scope.Nodes = []string{s.Entity.Node}
		}
	}
	return d
}

func (simpleTriage) Aside(*Incident, []*AlertRecord, *Evidence) []*AlertRecord { return nil }

func (simpleTriage) Absorbs(root, other *Incident) bool {
	return root.Cause() == "gpu_fault" && other.Cause() == Unknown
}

type simpleRouting struct{}

func (simpleRouting) Channels(in *Incident) []Channel {
	if in.Cause() == BenignAlert {
		return []Channel{ChannelConsole}
	}
	if in.Severity == Critical {
		return []Channel{ChannelPagerDuty, ChannelSlack, ChannelConsole}
	}
	return []Channel{ChannelSlack, ChannelConsole}
}

// story drives a fold as the keeper does, and after every input checks that what the board says it
// changed is all that it changed: a board loaded from the records must be the board itself.
type story struct {
	t       *testing.T
	fold    *Fold
	board   *Board
	records map[string][]byte
	entries []Entry
	now     time.Time
	seq     uint64
}

func newStory(t *testing.T) *story {
	return &story{t: t, board: NewBoard(), records: map[string][]byte{}, now: time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC),
		fold: &Fold{Triage: simpleTriage{}, Routing: simpleRouting{}, Settings: DefaultSettings()}}
}

func (s *story) apply(in Input) {
	s.t.Helper()
	s.seq++
	in.Seq = s.seq
	if in.Cluster == "" {
		in.Cluster = "prod"
	}
	if in.At.IsZero() {
		in.At = s.now
	}
	s.fold.Apply(s.board, in)
	records, entries, err := s.board.Take()
	if err != nil {
		s.t.Fatal(err)
	}
	s.entries = append(s.entries, entries...)
	if len(records) > 999 {
		s.t.Fatalf("one input changed %d records: more than one commit takes", len(records))
	}
	var all []Record
	for _, r := range records {
		if r.Value == nil {
			delete(s.records, r.Key)
		} else {
			s.records[r.Key] = r.Value
		}
	}
	for key, value := range s.records {
		if !strings.HasPrefix(key, TimelinePrefix+".") {
			all = append(all, Record{Key: key, Value: value})
		}
	}
	loaded := loadBoard(s.t, all)
	if got, want := dump(loaded), dump(s.board); got != want {
		i := 0
		for i < min(len(got), len(want)) && got[i] == want[i] {
			i++
		}
		s.t.Fatalf("after input %d a restart would remember something else:\n got …%.300s\nwant …%.300s", s.seq, got[max(0, i-60):], want[max(0, i-60):])
	}
}

// loadBoard makes a board of records, as a start does.
func loadBoard(tb testing.TB, records []Record) *Board {
	tb.Helper()
	board, err := LoadBoard(records)
	if err != nil {
		tb.Fatal(err)
	}
	return board
}

func dump(b *Board) string {
	raw, err := json.Marshal(map[string]any{"i": b.incidents, "a": b.alerts, "x": b.actions, "e": b.effects, "ev": b.evidence, "w": b.workers, "h": b.halts, "m": b.meta})
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// wait lets time pass, with every tick that falls due.
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
		s.apply(Input{})
	}
	s.now = end
}

func (s *story) alert(status AlertStatus, name, symptom, severity, pool string) {
	s.t.Helper()
	s.apply(Input{Alerts: &AlertBatch{Alerts: []Alert{s.make(status, name, symptom, severity, pool)}}})
}

func (s *story) make(status AlertStatus, name, symptom, severity, pool string) Alert {
	return Alert{Fingerprint: Fingerprint(Hash(name, pool)), Status: status, StartsAt: s.now.Add(-time.Minute),
		Labels: map[string]string{"alertname": name, "symptom": symptom, "severity": severity, "pool": pool}}
}

// deliver answers every effect of a kind that is due as its adapter would, and gives how many there
// were.
func (s *story) deliver(kind EffectKind) int {
	s.t.Helper()
	n := 0
	for _, e := range s.board.effects {
		if e.Kind != kind || e.Due.After(s.now) {
			continue
		}
		n++
		o := Outcome{Effect: e.ID, Turn: e.Turn, Done: true, Rev: s.board.incidents[e.Incident].Rev}
		s.apply(Input{Outcome: &o})
	}
	return n
}

func (s *story) evidence(in *Incident, cause string) {
	s.t.Helper()
	ev := Evidence{Incident: in.ID, At: s.now}
	if cause != "" {
		ev.Samples = []Sample{{Signal: "verdict", Text: cause}}
	}
	s.apply(Input{Evidence: &ev})
}

func (s *story) only() *Incident {
	s.t.Helper()
	if len(s.board.incidents) != 1 {
		s.t.Fatalf("want one incident, have %d", len(s.board.incidents))
	}
	for _, in := range s.board.incidents {
		return in
	}
	return nil
}

func (s *story) effects(kind EffectKind) (ids []string) {
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
	s.alert(Firing, "HighTTFT", "ttft_high", "warning", "llama")
	s.alert(Firing, "KVFull", "kv_pressure", "critical", "llama")
	s.alert(Firing, "HighTTFT", "ttft_high", "warning", "llama") // a repeat
	in := s.only()
	if in.AlertCount != 2 || in.ActiveAlerts != 2 || len(in.Symptoms) != 2 || in.Severity != Critical {
		t.Fatalf("alerts %d, active %d, symptoms %d, severity %s", in.AlertCount, in.ActiveAlerts, len(in.Symptoms), in.Severity)
	}
	s.alert(Firing, "HighTTFT", "ttft_high", "warning", "mistral")
	if len(s.board.incidents) != 2 {
		t.Fatal("another pool's trouble must be an incident of its own")
	}
}

func TestNobodyIsToldBeforeTheVerdictOrThirtySeconds(t *testing.T) {
	s := newStory(t)
	s.alert(Firing, "KVFull", "kv_pressure", "critical", "llama")
	s.wait(29 * time.Second)
	if got := s.effects(EffectNotify); len(got) != 0 {
		t.Fatalf("told too early: %v", got)
	}
	s.wait(time.Second)
	if got := s.effects(EffectNotify); len(got) != 3 {
		t.Fatalf("30 s after a critical alert all three channels must hear of it, have %v", got)
	}
	s.deliver(EffectNotify)
	s.wait(time.Hour)
	if got := s.effects(EffectNotify); len(got) != 0 {
		t.Fatalf("nothing changed, and yet %v", got)
	}
}

func TestTheVerdictIsToldAtOnceAndOnce(t *testing.T) {
	s := newStory(t)
	s.alert(Firing, "KVFull", "kv_pressure", "critical", "llama")
	s.wait(10 * time.Second)
	if n := s.deliver(EffectEnrich); n != 1 {
		t.Fatalf("evidence is wanted once, when symptoms have settled; got %d", n)
	}
	in := s.only()
	s.evidence(in, "kv_exhaustion")
	if got := s.effects(EffectNotify); len(got) != 3 {
		t.Fatalf("want three channels told, have %v", got)
	}
	if in.DiagnosedAt.IsZero() || in.Cause() != "kv_exhaustion" || !strings.Contains(in.Title, "kv_exhaustion") {
		t.Fatalf("verdict %s, title %q", in.Cause(), in.Title)
	}
	s.deliver(EffectNotify)
	s.evidence(in, "kv_exhaustion")
	if got := s.effects(EffectNotify); len(got) != 0 {
		t.Fatalf("the same verdict again is no news, and yet %v", got)
	}
	if got := s.effects(EffectPlan); len(got) != 1 {
		t.Fatalf("a verdict asks for remedies, have %v", got)
	}
}

func TestBenignNeverPages(t *testing.T) {
	s := newStory(t)
	s.alert(Firing, "GPUMem", "gpu_memory_high", "critical", "llama")
	s.wait(10 * time.Second)
	s.evidence(s.only(), string(BenignAlert))
	if got := s.effects(EffectNotify); len(got) != 1 || !strings.Contains(got[0], "console") {
		t.Fatalf("a benign alert is only logged, have %v", got)
	}
}

// How long the diagnosis took is told of the verdict that stands: an "unknown" before it was none,
// nor was another cause.
func TestACauseIsNamedWhenTheVerdictThatStandsCame(t *testing.T) {
	s := newStory(t)
	s.alert(Firing, "KVFull", "kv_pressure", "critical", "llama")
	in := s.only()
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

func TestAVerdictIsNotTakenBackWhenItsEvidenceFades(t *testing.T) {
	s := newStory(t)
	s.alert(Firing, "KVFull", "kv_pressure", "critical", "llama")
	in := s.only()
	s.evidence(in, "kv_exhaustion")
	s.evidence(in, "")
	s.evidence(in, string(BenignAlert))
	if in.Cause() != "kv_exhaustion" {
		t.Fatalf("verdict became %s", in.Cause())
	}
	s.evidence(in, "gpu_fault")
	if in.Cause() != "gpu_fault" {
		t.Fatal("a better verdict must replace the one before")
	}
}

// A scrape that fails is no evidence against what the one before it showed; what is gone, and
// outweighed besides, is.
func TestAVerdictIsNotReplacedWhileItsEvidenceCannotBeRead(t *testing.T) {
	idle := Finding{Signal: "gpu_util", Pod: "a", Value: 30, Unit: "percent", Weight: 10, Reads: []string{"requests_running", "gpu_util"}}
	running := Sample{Signal: "requests_running", Entity: Entity{Pod: "a"}}
	noAnswer := Evidence{Samples: []Sample{running}, Missing: []Missing{{Signal: "gpu_util", Reason: "no answer"}}}
	for name, c := range map[string]struct {
		evidence Evidence
		score    float64 // of the other cause; the one before it has 1
		later    time.Duration
		want     Cause
	}{
		"the exporter does not answer":          {noAnswer, 21, time.Minute, "gpu_underutilization"},
		"one worker's was not scraped":          {Evidence{Workers: []Worker{{Pod: "a"}}, Samples: []Sample{running, {Signal: "gpu_util", Entity: Entity{Pod: "b"}}}}, 21, time.Minute, "gpu_underutilization"},
		"it was read and is well":               {Evidence{Samples: []Sample{running, {Signal: "gpu_util", Entity: Entity{Pod: "a"}}}}, 21, time.Minute, "decode_saturation"},
		"its worker is gone":                    {Evidence{Samples: []Sample{running, {Signal: "gpu_util", Entity: Entity{Pod: "b"}}}}, 21, time.Minute, "decode_saturation"},
		"the other is clearer than it ever was": {noAnswer, 22, time.Minute, "decode_saturation"},
		"the exporter is gone for good":         {noAnswer, 21, 4 * time.Minute, "decode_saturation"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.alert(Firing, "Slow", "itl_high", "critical", "llama")
			in := s.only()
			tell := func(ev Evidence, d Diagnosis) {
				s.fold.Triage = told{d: d}
				ev.Incident, ev.At = in.ID, s.now
				s.apply(Input{Evidence: &ev})
			}
			tell(Evidence{}, Diagnosis{Cause: "gpu_underutilization", Score: 12, Findings: []Finding{idle}})
			s.wait(c.later)
			tell(c.evidence, Diagnosis{Cause: "decode_saturation", Score: c.score, Alternatives: []Alternative{{Cause: "gpu_underutilization", Score: 1}}})
			if in.Cause() != c.want {
				t.Errorf("the verdict is %s, want %s", in.Cause(), c.want)
			}
		})
	}
}

// Who answers a verdict with a rollout moves queues and empties caches: what that looks like is no
// other cause.
func TestAVerdictStandsWhileSomebodyAnswersItWithARollout(t *testing.T) {
	rollout := func(pool string, age time.Duration) []Sample {
		return []Sample{{Signal: "rollout_age", Entity: Entity{Pool: pool}, Value: age.Seconds()}}
	}
	for name, c := range map[string]struct {
		samples []Sample
		later   time.Duration
		want    Cause
	}{
		"a rollout since the verdict":      {rollout("llama", time.Minute), 2 * time.Minute, "kv_exhaustion"},
		"a rollout before it":              {rollout("llama", 3*time.Minute), 2 * time.Minute, "traffic_surge"},
		"another pool's":                   {rollout("mixtral", time.Minute), 2 * time.Minute, "traffic_surge"},
		"one that has long had its effect": {rollout("llama", 16*time.Minute), 20 * time.Minute, "traffic_surge"},
		"no rollout":                       {nil, 2 * time.Minute, "traffic_surge"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.alert(Firing, "KVFull", "kv_pressure", "critical", "llama")
			in := s.only()
			s.evidence(in, "kv_exhaustion")
			s.wait(c.later)
			for i := range c.samples {
				c.samples[i].At = s.now
			}
			s.fold.Triage = told{d: Diagnosis{Cause: "traffic_surge", Score: 30}}
			s.apply(Input{Evidence: &Evidence{Incident: in.ID, At: s.now, Samples: c.samples}})
			if in.Cause() != c.want {
				t.Errorf("the verdict is %s, want %s", in.Cause(), c.want)
			}
		})
	}
}

// What was seen at a kill, that memory had not grown before, is not undone by what grows after it,
// even when it is not seen any more.
func TestWhatAVerdictSettlesIsNotTakenOverLater(t *testing.T) {
	for next, want := range map[Cause]Cause{"host_memory_leak": "oom_killed", "node_failure": "node_failure"} {
		s := newStory(t)
		s.alert(Firing, "Killed", "oom", "critical", "llama")
		in := s.only()
		s.fold.Triage = told{d: Diagnosis{Cause: "oom_killed", Score: 13, Findings: []Finding{{Weight: 9, Settles: []Cause{"host_memory_leak"}}}}}
		s.apply(Input{Evidence: &Evidence{Incident: in.ID, At: s.now}})
		s.wait(time.Minute)
		s.fold.Triage = told{d: Diagnosis{Cause: "oom_killed", Score: 16, Findings: []Finding{{Weight: 8}}}}
		s.apply(Input{Evidence: &Evidence{Incident: in.ID, At: s.now}})
		s.wait(4 * time.Minute)
		s.fold.Triage = told{d: Diagnosis{Cause: next, Score: 18}}
		s.apply(Input{Evidence: &Evidence{Incident: in.ID, At: s.now}})
		if in.Cause() != want {
			t.Errorf("after %s the verdict is %s, want %s", next, in.Cause(), want)
		}
	}
}

// told is a triage whose verdict is given.
type told struct {
	simpleTriage
	d Diagnosis
}

func (t told) Diagnose(in *Incident, _ *Evidence, now time.Time) Diagnosis {
	t.d.At = now
	if t.d.Scope.Pods == nil {
		t.d.Scope = in.Scope
	}
	return t.d
}

// "Nothing is wrong" must not stand once users suffer, whoever is to blame.
func TestABenignVerdictIsTakenBackWhenItDoesNotExplainWhatComes(t *testing.T) {
	s := newStory(t)
	tell := func(in *Incident, d Diagnosis) {
		s.fold.Triage = told{d: d}
		s.apply(Input{Evidence: &Evidence{Incident: in.ID, At: s.now}})
	}
	s.alert(Firing, "PrefixHits", "prefix_hit_low", "warning", "llama")
	in := s.only()
	unknown := Diagnosis{Cause: Unknown, Title: "no idea"}
	tell(in, Diagnosis{Cause: BenignAlert, Explains: []Symptom{"prefix_hit_low", "gpu_idle"}})
	s.alert(Firing, "Idle", "gpu_idle", "warning", "llama")
	tell(in, unknown)
	if in.Cause() != BenignAlert {
		t.Fatalf("the verdict became %s, though it explains what came", in.Cause())
	}
	s.alert(Firing, "TTFT", "ttft_high", "warning", "llama")
	tell(in, unknown)
	if in.Cause() != Unknown {
		t.Errorf("users wait for their first token, and the verdict is still %s", in.Cause())
	}
	tell(in, Diagnosis{Cause: BenignAlert, Findings: []Finding{{Signal: "symptom:ttft_high", Weight: -3}}, Explains: []Symptom{"prefix_hit_low", "gpu_idle"}})
	tell(in, unknown)
	if in.Cause() != BenignAlert {
		t.Errorf("the verdict became %s, though it was given with the same alerts", in.Cause())
	}
}

// While a trouble ends, what it leaves behind looks like others: a weaker verdict takes the name
// only from nothing and from benign, as a root that an alert tells of or that is a broken worker,
// and when what was seen before is long ago.
func TestAVerdictIsNotReplacedByWhatTheTroubleLeavesBehind(t *testing.T) {
	verdict := func(cause Cause, score float64, leads ...Cause) Diagnosis {
		return Diagnosis{Cause: cause, Score: score, LeadsTo: leads, Explains: []Symptom{"ttft_high"}}
	}
	found := verdict("gpu_fault", 8, "kv_exhaustion")
	found.Scope.Pods = []string{"vllm-0"}
	untold := verdict("kv_exhaustion", 17)
	untold.Explains = nil
	for name, c := range map[string]struct {
		before, next Diagnosis
		wait         time.Duration
		want         Cause
	}{
		"weaker":                         {verdict("routing_skew", 17), verdict("retry_storm", 8), 4 * time.Minute, "routing_skew"},
		"stronger":                       {verdict("routing_skew", 8), verdict("retry_storm", 17), 4 * time.Minute, "retry_storm"},
		"weaker, and might be a root":    {verdict("kv_exhaustion", 17), verdict("retry_storm", 8, "kv_exhaustion"), 4 * time.Minute, "kv_exhaustion"},
		"a root that an alert tells of":  {untold, verdict("gpu_fault", 8, "kv_exhaustion"), 4 * time.Minute, "gpu_fault"},
		"a root that is a broken worker": {verdict("kv_exhaustion", 17), found, 4 * time.Minute, "gpu_fault"},
		"weaker, long afterwards":        {verdict("routing_skew", 17), verdict("retry_storm", 8), fading + time.Second, "retry_storm"},
		"weaker than that all is well":   {verdict(BenignAlert, 17), verdict("retry_storm", 8), 4 * time.Minute, "retry_storm"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.alert(Firing, "TTFT", "ttft_high", "warning", "llama")
			in := s.only()
			for _, d := range []Diagnosis{c.before, c.next} {
				s.fold.Triage = told{d: d}
				s.apply(Input{Evidence: &Evidence{Incident: in.ID, At: s.now}})
				s.wait(c.wait)
			}
			if in.Cause() != c.want {
				t.Errorf("the verdict is %s, want %s", in.Cause(), c.want)
			}
		})
	}
}

// All alerts of a trouble were gone when another came within the hold, with one that the first
// reopened: the name is the new one's, though it is weaker, and though that was ruled out before.
// Without an alert that the first does not lead to it is what the first left behind.
func TestATroubleThatComesAfterTheEndGetsItsName(t *testing.T) {
	first := Diagnosis{Cause: "traffic_surge", Score: 25, Explains: []Symptom{"ttft_high", "kv_pressure"}, Findings: []Finding{{Text: "seen", Settles: []Cause{"oom_killed"}}}}
	next := Diagnosis{Cause: "oom_killed", Score: 12, Explains: []Symptom{"ttft_high", "kv_pressure", "oom"}}
	for what, want := range map[Symptom]Cause{"oom": "oom_killed", "kv_pressure": "traffic_surge"} {
		s := newStory(t)
		s.alert(Firing, "TTFT", "ttft_high", "warning", "llama")
		in := s.only()
		verdict := func(d Diagnosis) {
			s.fold.Triage = told{d: d}
			s.apply(Input{Evidence: &Evidence{Incident: in.ID, At: s.now}})
		}
		verdict(first)
		s.wait(5 * time.Minute)
		s.alert(Resolved, "TTFT", "ttft_high", "warning", "llama")
		s.wait(30 * time.Second)
		s.fold.Triage = simpleTriage{}
		s.alert(Firing, "TTFT", "ttft_high", "warning", "llama")
		s.alert(Firing, "Other", string(what), "critical", "llama")
		if s.only(); in.Status != StatusOpen || in.ActiveAlerts != 2 {
			t.Fatalf("%s with %d alerts", in.Status, in.ActiveAlerts)
		}
		verdict(next)
		if in.Cause() != want {
			t.Errorf("with %s the cause is %s, want %s", what, in.Cause(), want)
		}
	}
}

// Two workers of one place are broken by two causes. When the signs of the one fade, the other does
// not become its cause.
func TestAVerdictIsNotReplacedByAnotherIncidents(t *testing.T) {
	s := newStory(t)
	seen := func(in *Incident, cause, pod string) {
		t.Helper()
		s.apply(Input{Evidence: &Evidence{Incident: in.ID, At: s.now, Samples: []Sample{{Signal: "verdict", Text: cause, Value: 20, Entity: Entity{Pod: pod}}}}})
	}
	s.alert(Firing, "Xid", "gpu_hardware", "critical", "llama")
	first := s.only()
	seen(first, "gpu_fault", "a")
	s.alert(Firing, "Stalled", "throughput_drop", "critical", "qwen")
	var second *Incident
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

// The report tells how far the trouble went, not what was left of it when it faded.
func TestAVerdictKeepsItsPeak(t *testing.T) {
	s := newStory(t)
	s.alert(Firing, "KVFull", "kv_pressure", "critical", "llama")
	in := s.only()
	for _, c := range []struct {
		score float64
		pods  []string
		want  int
	}{{12, []string{"a"}, 1}, {20, []string{"a", "b", "c"}, 3}, {11, []string{"a"}, 3}, {15, []string{"a", "b", "c", "d"}, 4}, {22, []string{"d"}, 1}} {
		ev := Evidence{Incident: in.ID, At: s.now}
		for _, pod := range c.pods {
			ev.Samples = append(ev.Samples, Sample{Signal: "verdict", Text: "kv_exhaustion", Value: c.score / float64(len(c.pods)), Entity: Entity{Pod: pod}})
		}
		s.apply(Input{Evidence: &ev})
		if got := in.Diagnosis.Scope.Pods; len(got) != c.want {
			t.Errorf("after %v at %g dB the verdict is about %v", c.pods, c.score, got)
		}
	}
}

func TestResolvedIncidentHoldsThenEndsAndNeverSwallowsNewTrouble(t *testing.T) {
	s := newStory(t)
	s.alert(Firing, "KVFull", "kv_pressure", "critical", "llama")
	in := s.only()
	s.evidence(in, "kv_exhaustion")
	s.deliver(EffectNotify)
	s.alert(Resolved, "KVFull", "kv_pressure", "critical", "llama")
	if in.Status != StatusMonitoring {
		t.Fatalf("status %s", in.Status)
	}
	s.wait(time.Minute)
	s.now = s.now.Add(time.Second)
	s.alert(Firing, "KVFull", "kv_pressure", "critical", "llama")
	if in.Status != StatusOpen || len(s.board.incidents) != 1 {
		t.Fatalf("an alert within the hold reopens: status %s, %d incidents", in.Status, len(s.board.incidents))
	}
	s.alert(Resolved, "KVFull", "kv_pressure", "critical", "llama")
	s.wait(2 * time.Minute)
	if in.Status != StatusResolved || in.ResolvedBy != "alerts" {
		t.Fatalf("status %s by %q", in.Status, in.ResolvedBy)
	}
	if got := s.effects(EffectNotify); len(got) != 3 {
		t.Fatalf("everybody who was told is told the end, have %v", got)
	}
	s.deliver(EffectNotify)
	s.wait(time.Minute)
	s.alert(Firing, "KVFull", "kv_pressure", "critical", "llama")
	if len(s.board.incidents) != 2 {
		t.Fatal("new trouble after the end is a new incident")
	}
}

func TestResolvedFirstOpensNothing(t *testing.T) {
	s := newStory(t)
	s.alert(Resolved, "KVFull", "kv_pressure", "critical", "llama")
	if len(s.board.incidents) != 0 || len(s.board.alerts) != 1 {
		t.Fatalf("%d incidents, %d alerts", len(s.board.incidents), len(s.board.alerts))
	}
	s.alert(Firing, "KVFull", "kv_pressure", "critical", "llama")
	s.only()
}

func TestLateEndOfAnOlderEpisodeIsIgnored(t *testing.T) {
	s := newStory(t)
	old := s.make(Resolved, "KVFull", "kv_pressure", "critical", "llama")
	s.now = s.now.Add(time.Hour)
	s.alert(Firing, "KVFull", "kv_pressure", "critical", "llama")
	s.apply(Input{Alerts: &AlertBatch{Alerts: []Alert{old}}})
	if in := s.only(); in.ActiveAlerts != 1 {
		t.Fatalf("active %d", in.ActiveAlerts)
	}
}

func TestRepeatsAfterAPersonResolvedStayQuiet(t *testing.T) {
	s := newStory(t)
	s.alert(Firing, "KVFull", "kv_pressure", "critical", "llama")
	first := s.make(Firing, "KVFull", "kv_pressure", "critical", "llama")
	in := s.only()
	s.apply(Input{Command: &Command{Verb: VerbResolve, Incident: in.ID, Actor: Actor{ID: "ana", Via: "api"}}})
	s.now = s.now.Add(4 * time.Hour)
	s.apply(Input{Alerts: &AlertBatch{Alerts: []Alert{first}}})
	if in := s.only(); in.Status != StatusResolved {
		t.Fatalf("status %s", in.Status)
	}
}

// hinting is a triage that learns a hint from one pool's alerts.
type hinting struct{ simpleTriage }

func (t hinting) Classify(a Alert, cluster string) Sign {
	s := t.simpleTriage.Classify(a, cluster)
	s.Entity.Model = "llama-70b"
	if a.Labels["pool"] == "decode" {
		s.Hints = map[string]string{"xid": "79"}
	}
	return s
}

// Most alerts give no hints, and a record that has none is read back without.
func TestARootLearnsTheHintsOfWhatItAbsorbs(t *testing.T) {
	s := newStory(t)
	s.fold.Triage = hinting{}
	s.alert(Firing, "Xid", "gpu_hardware", "critical", "prefill")
	root := s.only()
	s.alert(Firing, "Xid", "gpu_hardware", "critical", "decode")
	s.evidence(root, "gpu_fault")
	if len(root.Absorbed) != 1 || root.Symptoms[0].Hints["xid"] != "79" {
		t.Errorf("absorbed %v, hints %v", root.Absorbed, root.Symptoms[0].Hints)
	}
}

func TestLateRootAbsorbsItsConsequences(t *testing.T) {
	s := newStory(t)
	s.alert(Firing, "HighTTFT", "ttft_high", "critical", "llama")
	first := s.only()
	s.evidence(first, "")
	s.deliver(EffectNotify)
	s.apply(Input{Alerts: &AlertBatch{Alerts: []Alert{{Fingerprint: "xid", Status: Firing, StartsAt: s.now,
		Labels: map[string]string{"alertname": "Xid", "symptom": "gpu_hardware", "severity": "critical", "node": "gpu-3"}}}}})
	var root *Incident
	for _, in := range s.board.incidents {
		if in != first {
			root = in
		}
	}
	if root == nil {
		t.Fatal("nothing tells yet that the node serves the pool: two incidents")
	}
	s.apply(Input{Evidence: &Evidence{Incident: root.ID, At: s.now, Samples: []Sample{{Signal: "verdict", Text: "gpu_fault", Entity: Entity{Node: "gpu-3"}}},
		Workers: []Worker{{Namespace: "llm", Pod: "llama-1", Pool: "llama", Node: "gpu-3"}}}})
	if first.MergedInto != root.ID || first.Status != StatusResolved || root.AlertCount != 2 || root.ActiveAlerts != 2 {
		t.Fatalf("merged into %q, status %s, root has %d alerts, %d active", first.MergedInto, first.Status, root.AlertCount, root.ActiveAlerts)
	}
	s.alert(Resolved, "HighTTFT", "ttft_high", "critical", "llama")
	if root.ActiveAlerts != 1 {
		t.Fatalf("the end of an absorbed alert counts at the root: active %d", root.ActiveAlerts)
	}
}

func TestAnIncidentIsFoundByTheNamesOfWhatStandsBeforeItsPool(t *testing.T) {
	s := newStory(t)
	s.apply(Input{Alerts: &AlertBatch{Alerts: []Alert{{Fingerprint: "kv", Status: Firing, StartsAt: s.now,
		Labels: map[string]string{"alertname": "KVFull", "symptom": "kv_pressure", "severity": "critical", "pool": "llama"}}}}})
	in := s.only()
	worker := Worker{Namespace: "llm", Pod: "llama-1", Pool: "llama", Group: "1", Owner: "llama-graph", OwnerKind: "DynamoGraphDeployment", Routes: []string{"InferencePool/front"}}
	s.apply(Input{Evidence: &Evidence{Incident: in.ID, At: s.now, Workers: []Worker{worker}}})
	pod := Entity{Cluster: in.Cluster, Namespace: "llm", Pod: "llama-1"}
	for _, name := range []string{"llama", "llama-graph", "front"} {
		if keys := s.board.entityKeys(pod, ""); !slices.Contains(keys, "pool:"+name) {
			t.Errorf("a worker is not found by %s: %v", name, keys)
		}
	}
	changed := worker
	changed.Routes = []string{"InferencePool/other"}
	if sameWorker(worker, changed) || !sameWorker(worker, worker) {
		t.Error("a worker that is routed to by another pool is not the same record")
	}
}

func TestApprovalIsForOnePlanOnceAndInTime(t *testing.T) {
	s := newStory(t)
	s.alert(Firing, "KVFull", "kv_pressure", "critical", "llama")
	in := s.only()
	s.evidence(in, "kv_exhaustion")
	propose := func(id ActionID) {
		a := Action{ID: id, Incident: in.ID, State: Proposed, Change: "max_num_seqs 256 → 128", PlanHash: "plan", ExpiresAt: s.now.Add(15 * time.Minute)}
		if err := a.Move(AwaitingApproval, s.now, "", Actor{}); err != nil {
			t.Fatal(err)
		}
		s.apply(Input{Action: &ActionEvent{Action: a}})
	}
	approve := func(id ActionID, hash string) {
		s.apply(Input{Command: &Command{Verb: VerbApprove, Action: id, PlanHash: hash, Actor: Actor{ID: "U1", Name: "ana", Via: "slack"}}})
	}
	propose("ACT-1")
	approve("ACT-1", "another plan")
	if got := s.board.actions["ACT-1"].State; got != AwaitingApproval {
		t.Fatalf("an approval of another plan moved the action to %s", got)
	}
	approve("ACT-1", "plan")
	if got := s.board.actions["ACT-1"]; got.State != Approved || got.DecidedBy.ID != "U1" {
		t.Fatalf("state %s by %v", got.State, got.DecidedBy)
	}
	if got := s.effects(EffectRun); len(got) != 1 {
		t.Fatalf("an approved action runs, have %v", got)
	}
	steps := len(s.board.actions["ACT-1"].Steps)
	approve("ACT-1", "plan")
	if len(s.board.actions["ACT-1"].Steps) != steps {
		t.Fatal("a replayed click had an effect")
	}
	propose("ACT-2")
	s.wait(15 * time.Minute)
	if got := s.board.actions["ACT-2"].State; got != Expired {
		t.Fatalf("state %s after the approval's time", got)
	}
	approve("ACT-2", "plan")
	if got := s.board.actions["ACT-2"].State; got != Expired {
		t.Fatalf("a late approval moved the action to %s", got)
	}
}

func TestStaleRunnerChangesNothing(t *testing.T) {
	s := newStory(t)
	s.alert(Firing, "KVFull", "kv_pressure", "critical", "llama")
	in := s.only()
	s.apply(Input{Action: &ActionEvent{Action: Action{ID: "ACT-1", Incident: in.ID, Mode: "auto", State: Proposed, Steps: []ActionStep{{State: Proposed}}}}})
	step := func(from, to ActionState) {
		a := s.board.actions["ACT-1"].Clone()
		a.State = to
		a.Steps = append(a.Steps, ActionStep{State: to, At: s.now})
		s.apply(Input{Action: &ActionEvent{From: from, Action: a}})
	}
	step(Proposed, Admitted)
	step(Proposed, Denied) // it was overtaken
	if got := s.board.actions["ACT-1"].State; got != Admitted {
		t.Fatalf("state %s", got)
	}
	step(Admitted, Succeeded) // not legal
	if got := s.board.actions["ACT-1"].State; got != Admitted {
		t.Fatalf("state %s", got)
	}
	step(Admitted, Intent)
	if in.Status != StatusMitigating {
		t.Fatalf("incident status %s while first aid is under way", in.Status)
	}
}

func TestIncidentEndsOnlyAfterItsActionIsVerified(t *testing.T) {
	s := newStory(t)
	s.alert(Firing, "KVFull", "kv_pressure", "critical", "llama")
	in := s.only()
	s.apply(Input{Action: &ActionEvent{Action: Action{ID: "ACT-1", Incident: in.ID, Mode: "auto", State: Proposed, Steps: []ActionStep{{State: Proposed}}}}})
	for _, to := range []ActionState{Admitted, Intent, Applied, Verifying} {
		a := s.board.actions["ACT-1"].Clone()
		from := a.State
		if err := a.Move(to, s.now, "", Actor{}); err != nil {
			t.Fatal(err)
		}
		s.apply(Input{Action: &ActionEvent{From: from, Action: a}})
	}
	s.alert(Resolved, "KVFull", "kv_pressure", "critical", "llama")
	s.wait(10 * time.Minute)
	if in.Status == StatusResolved {
		t.Fatal("resolved while its action was being verified")
	}
	a := s.board.actions["ACT-1"].Clone()
	if err := a.Move(Succeeded, s.now, "better", Actor{}); err != nil {
		t.Fatal(err)
	}
	s.apply(Input{Action: &ActionEvent{From: Verifying, Action: a}})
	s.wait(3 * time.Minute)
	if in.Status != StatusResolved {
		t.Fatalf("status %s", in.Status)
	}
}

func TestVanishedAlertIsReconciled(t *testing.T) {
	s := newStory(t)
	s.alert(Firing, "KVFull", "kv_pressure", "critical", "llama")
	s.alert(Firing, "HighTTFT", "ttft_high", "critical", "llama")
	s.now = s.now.Add(time.Minute)
	s.apply(Input{Vanished: &Vanished{At: s.now, Fingerprints: []Fingerprint{Fingerprint(Hash("KVFull", "llama"))}}})
	if in := s.only(); in.ActiveAlerts != 1 {
		t.Fatalf("active %d: a silenced alert that resolved is never announced, so its absence must tell", in.ActiveAlerts)
	}
}

func TestAcknowledgedInPagerDutyIsSeenHere(t *testing.T) {
	s := newStory(t)
	s.alert(Firing, "KVFull", "kv_pressure", "critical", "llama")
	in := s.only()
	s.apply(Input{Foreign: &Foreign{Source: "pagerduty", Event: "acknowledged", ID: "Q1", Key: string(in.ID), Actor: Actor{ID: "P1", Name: "Ben", Via: "pagerduty"}}})
	if in.Status != StatusAcked || in.AckedBy.Name != "Ben" || in.Told[ChannelPagerDuty].Ref["status"] != "acknowledged" {
		t.Fatalf("status %s by %v, told %v", in.Status, in.AckedBy, in.Told)
	}
}

func TestAnotherToolsIncidentGetsTheVerdictAndNoSecondPage(t *testing.T) {
	s := newStory(t)
	s.apply(Input{Foreign: &Foreign{Source: "pagerduty", Event: "triggered", ID: "Q1", Title: "TTFT high", Labels: map[string]string{
		"alertname": "HighTTFT", "symptom": "ttft_high", "severity": "critical", "pool": "llama"}}})
	in := s.only()
	s.evidence(in, "kv_exhaustion")
	if got := s.effects(EffectNote); len(got) != 1 {
		t.Fatalf("want one note, have %v", got)
	}
	if slices.Contains(in.Channels, ChannelPagerDuty) {
		t.Fatal("somebody was paged already by the other tool")
	}
	s.deliver(EffectNote)
	s.evidence(in, "kv_exhaustion")
	if got := s.effects(EffectNote); len(got) != 0 {
		t.Fatalf("noted twice: %v", got)
	}
	s.apply(Input{Foreign: &Foreign{Source: "pagerduty", Event: "triggered", ID: "Q2", Title: "Shop is down", Labels: map[string]string{"alertname": "ShopDown"}}})
	s.only()
}

func TestHaltIsRememberedUntilResume(t *testing.T) {
	s := newStory(t)
	by := Actor{ID: "ana", Via: "api"}
	s.apply(Input{Command: &Command{Verb: VerbHalt, Actor: by, Reason: "game day"}})
	if h := s.board.halts["prod"]; h == nil || h.Reason != "game day" {
		t.Fatalf("halt %v", h)
	}
	s.apply(Input{Command: &Command{Verb: VerbResume, Actor: by}})
	if s.board.halts["prod"] != nil {
		t.Fatal("still halted")
	}
}

func TestOutcomeOfAnOlderTurnIsIgnored(t *testing.T) {
	s := newStory(t)
	s.alert(Firing, "KVFull", "kv_pressure", "critical", "llama")
	in := s.only()
	s.wait(30 * time.Second)
	id := EffectID("notify:slack:" + string(in.ID))
	turn := s.board.effects[id].Turn
	retry := Input{Outcome: &Outcome{Effect: id, Turn: turn, Error: "503", RetryAt: s.now.Add(time.Minute)}}
	s.apply(retry)
	s.apply(retry)
	if got := s.board.effects[id].Attempts; got != 1 {
		t.Fatalf("%d attempts counted", got)
	}
}

func TestAStormOfAHundredPoolsFitsOneCommit(t *testing.T) {
	s := newStory(t)
	var batch AlertBatch
	for i := range MaxBatch {
		batch.Alerts = append(batch.Alerts, s.make(Firing, "KVFull", "kv_pressure", "critical", fmt.Sprint("pool-", i)))
	}
	s.apply(Input{Alerts: &batch}) // apply fails where a commit would be too large
	s.wait(time.Minute)
	if got := len(s.effects(EffectNotify)); got != 3*MaxBatch {
		t.Fatalf("%d notify effects", got)
	}
}

func TestRetentionForgetsAllOfAnIncident(t *testing.T) {
	s := newStory(t)
	s.alert(Firing, "KVFull", "kv_pressure", "critical", "llama")
	s.evidence(s.only(), "kv_exhaustion")
	s.deliver(EffectNotify)
	s.alert(Resolved, "KVFull", "kv_pressure", "critical", "llama")
	s.wait(5 * time.Minute)
	s.deliver(EffectNotify)
	s.now = s.now.Add(721 * time.Hour)
	s.apply(Input{})
	for key := range s.records {
		if !strings.HasPrefix(key, "meta.") {
			t.Errorf("still remembered: %s", key)
		}
	}
}

// A root that absorbed another incident is found by what that one was about, also after a restart.
func TestARestartKeepsWhereAMergedIncidentWas(t *testing.T) {
	s := newStory(t)
	s.alert(Firing, "HighTTFT", "ttft_high", "critical", "llama")
	first := s.only()
	s.evidence(first, "")
	s.apply(Input{Alerts: &AlertBatch{Alerts: []Alert{{Fingerprint: "xid", Status: Firing, StartsAt: s.now,
		Labels: map[string]string{"alertname": "Xid", "symptom": "gpu_hardware", "severity": "critical", "node": "gpu-3"}}}}})
	for _, in := range s.board.incidents {
		if in != first {
			s.apply(Input{Evidence: &Evidence{Incident: in.ID, At: s.now, Samples: []Sample{{Signal: "verdict", Text: "gpu_fault", Entity: Entity{Node: "gpu-3"}}},
				Workers: []Worker{{Namespace: "llm", Pod: "llama-1", Pool: "llama", Node: "gpu-3"}}}})
		}
	}
	if first.MergedInto == "" {
		t.Fatal("not merged")
	}
	root := s.board.home(first.ID)
	var all []Record
	for key, value := range s.records {
		if !strings.HasPrefix(key, TimelinePrefix+".") && !strings.HasPrefix(key, kindWorker+".") { // a worker is forgotten sooner
			all = append(all, Record{Key: key, Value: value})
		}
	}
	loaded := loadBoard(t, all)
	for key := range s.board.keys[root.ID] {
		if !loaded.keys[root.ID][key] {
			t.Errorf("after a restart the root is no longer found by %q", key)
		}
	}
}

// What goes without a word may be of many incidents, and all of them are told of.
func TestVanishedAlertsFitOneCommit(t *testing.T) {
	s := newStory(t)
	var batch AlertBatch
	var gone []Fingerprint
	for i := range 2 * MaxBatch {
		a := s.make(Firing, "KVFull", "kv_pressure", "critical", fmt.Sprint("pool-", i))
		gone = append(gone, a.Fingerprint)
		if batch.Alerts = append(batch.Alerts, a); len(batch.Alerts) == MaxBatch {
			s.apply(Input{Alerts: &batch})
			batch = AlertBatch{}
		}
	}
	s.wait(time.Minute)
	for i := range s.board.incidents { // every channel shows it
		for _, ch := range s.board.incidents[i].Channels {
			e := s.board.effects[EffectID(fmt.Sprintf("notify:%s:%s", ch, i))]
			s.board.incidents[i].Told[ch] = Told{Rev: s.board.incidents[i].Rev}
			s.board.unwant(e)
			delete(s.records, recordKey(kindEffect, string(e.ID)))
		}
		s.board.touch(kindIncident, string(i))
	}
	if _, _, err := s.board.Take(); err != nil {
		t.Fatal(err)
	}
	s.fold.Apply(s.board, Input{Seq: 10_000, At: s.now, Cluster: "prod", Vanished: &Vanished{At: s.now, Fingerprints: gone}})
	records, _, err := s.board.Take()
	if err != nil || len(records) > 700 { // the keeper may have had 299 to commit before
		t.Errorf("one input changed %d records (%v)", len(records), err)
	}
	ended := func() (n int) {
		for _, in := range s.board.incidents {
			if in.Status == StatusMonitoring {
				n++
			}
		}
		return n
	}
	if ended() == 0 {
		t.Error("none ended")
	}
	for range 5 {
		s.fold.Apply(s.board, Input{Seq: 10_001, At: s.now, Cluster: "prod", Vanished: &Vanished{At: s.now, Fingerprints: gone}})
	}
	if got := ended(); got != len(gone) {
		t.Errorf("%d of %d ended", got, len(gone))
	}
}

func TestForgottenWorkersFitOneCommit(t *testing.T) {
	s := newStory(t)
	for i := range 6 {
		s.alert(Firing, "KVFull", "kv_pressure", "critical", fmt.Sprint("llama-", i))
	}
	for i, in := range s.open() {
		ev := Evidence{Incident: in.ID, At: s.now}
		for n := range 400 {
			ev.Workers = append(ev.Workers, Worker{Namespace: "llm", Pod: fmt.Sprintf("llama-%d-%d", i, n), Pool: fmt.Sprint("llama-", i)})
		}
		s.fold.Apply(s.board, Input{Seq: uint64(100 + i), At: s.now, Cluster: "prod", Evidence: &ev})
		if _, _, err := s.board.Take(); err != nil {
			t.Fatal(err)
		}
	}
	s.now = s.now.Add(7 * time.Hour)
	for i := range 10 {
		s.fold.Apply(s.board, Input{Seq: uint64(200 + i), At: s.now, Cluster: "prod"})
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
	s.alert(Firing, "KVFull", "kv_pressure", "critical", "llama")
	var workers []Worker
	for n := range 1200 {
		workers = append(workers, Worker{Namespace: "llm", Pod: fmt.Sprint("llama-", n), Pool: "llama"})
	}
	for range 5 { // apply fails where a commit would be too large
		s.apply(Input{Evidence: &Evidence{Incident: s.only().ID, At: s.now, Workers: workers}})
	}
	if got := len(s.board.workers); got != len(workers) {
		t.Errorf("%d workers are known, want %d", got, len(workers))
	}
}
