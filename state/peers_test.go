package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// The tests of this file are named after failures that users of other tools have reported. Each says what happened there, and shows
// that it cannot happen here.

// channelCalls answers whatever is wanted of a channel and gives how many calls that took.
func (s *story) channelCalls(ch Channel) int {
	s.t.Helper()
	n := 0
	for _, id := range s.effects(EffectNotify) {
		if e := s.board.effects[EffectID(id)]; e.Channel == ch && !e.Due.After(s.now) {
			n++
			s.apply(Input{Outcome: &Outcome{Effect: e.ID, Turn: e.Turn, Done: true, Rev: s.board.incidents[e.Incident].Rev}})
		}
	}
	return n
}

// loud are the entries that people are shown in the incident's thread.
func (s *story) loud(in *Incident) (texts []string) {
	for _, e := range s.entries {
		if e.Incident == in.ID && !e.Quiet {
			texts = append(texts, e.Text)
		}
	}
	return texts
}

// told is an incident with a verdict that everybody has been told of.
func (s *story) told(name, symptom, pool, cause string) *Incident {
	s.t.Helper()
	before := len(s.board.incidents)
	s.alert(Firing, name, symptom, "critical", pool)
	if len(s.board.incidents) != before+1 {
		s.t.Fatalf("%s on %s opened no incident of its own", name, pool)
	}
	var in *Incident
	for _, other := range s.board.incidents {
		if in == nil || other.Number > in.Number {
			in = other
		}
	}
	s.evidence(in, cause)
	s.deliver(EffectNotify)
	return in
}

// Keep, issue 1549: the same alert twice within two seconds made two tickets. Here an alert's identity is its fingerprint and its
// start, so the twin of a high-availability pair is no news.
func TestKeep1549SameAlertTwoSecondsApartPagesOnce(t *testing.T) {
	s := newStory(t)
	twin := s.make(Firing, "KVFull", "kv_pressure", "critical", "llama")
	s.apply(Input{Alerts: &AlertBatch{Alerts: []Alert{twin}}})
	s.now = s.now.Add(2 * time.Second)
	s.apply(Input{Alerts: &AlertBatch{Alerts: []Alert{twin}}})
	s.wait(time.Minute)
	if in := s.only(); in.AlertCount != 1 || s.channelCalls(ChannelPagerDuty) != 1 {
		t.Fatalf("%d alerts counted, or not one page", in.AlertCount)
	}
}

// Keep, issues 5251 and 4766, and Robusta, issue 687: repeats of one alert were sent on, and counted 23,696 times. Here a repeat
// changes nothing that anybody sees, however often it comes.
func TestKeep5251RepeatsForADayAreNothingNew(t *testing.T) {
	s := newStory(t)
	in := s.told("KVFull", "kv_pressure", "llama", "kv_exhaustion")
	a := s.make(Firing, "KVFull", "kv_pressure", "critical", "llama")
	rev, loud := in.Rev, len(s.loud(in))
	for range 288 {
		s.now = s.now.Add(5 * time.Minute)
		repeat := a
		repeat.StartsAt = in.StartedAt
		s.apply(Input{Alerts: &AlertBatch{Alerts: []Alert{repeat}}})
		if got := s.effects(EffectNotify); len(got) != 0 {
			t.Fatalf("a repeat made %v", got)
		}
	}
	if s.only().AlertCount != 1 || in.Rev != rev || len(s.loud(in)) != loud {
		t.Fatalf("%d alerts, revision %d (was %d), told %v", in.AlertCount, in.Rev, rev, s.loud(in))
	}
}

// Keep, issue 5038: automation ran again with every flap of its alert. Here a flap within the hold is the same incident: no page, no
// line in the thread, no second plan; the one message is edited.
func TestKeep5038FlappingWithinTheHoldIsOneIncident(t *testing.T) {
	s := newStory(t)
	in := s.told("KVFull", "kv_pressure", "llama", "kv_exhaustion")
	s.deliver(EffectPlan)
	s.channelCalls(ChannelConsole)
	loud := s.loud(in)
	for range 20 {
		s.alert(Resolved, "KVFull", "kv_pressure", "critical", "llama")
		s.wait(time.Minute)
		s.alert(Firing, "KVFull", "kv_pressure", "critical", "llama")
		s.wait(time.Minute)
	}
	if s.only() != in || in.Status != StatusOpen || in.ActiveAlerts != 1 {
		t.Fatalf("status %s with %d active", in.Status, in.ActiveAlerts)
	}
	if got := s.loud(in); len(got) != len(loud) {
		t.Errorf("twenty flaps were told as %v", got[len(loud):])
	}
	if got := s.effects(EffectPlan); len(got) != 0 {
		t.Errorf("a flap planned first aid again: %v", got)
	}
	if got := s.channelCalls(ChannelSlack); got != 1 {
		t.Errorf("%d calls to Slack are pending after twenty flaps, want one edit", got)
	}
}

// Keep, issue 958: deduplication dropped alerts that differed. Here only what has the same fingerprint is the same alert.
func TestKeep958DistinctAlertsAreAllCounted(t *testing.T) {
	s := newStory(t)
	a, b := s.make(Firing, "KVFull", "kv_pressure", "critical", "llama"), s.make(Firing, "KVFull", "kv_pressure", "critical", "llama")
	a.Labels["pod"], b.Labels["pod"] = "llama-0", "llama-1"
	b.Fingerprint = "other"
	s.apply(Input{Alerts: &AlertBatch{Alerts: []Alert{a, b}}})
	if in := s.only(); in.AlertCount != 2 || in.ActiveAlerts != 2 || !slices.Equal(in.Scope.Pods, []string{"llama-0", "llama-1"}) {
		t.Fatalf("%d alerts, %d active, pods %v", in.AlertCount, in.ActiveAlerts, in.Scope.Pods)
	}
}

// Keep, issue 2481: an incident that was over took new alerts, and nobody heard of them. Here what comes after the end is a new
// incident with a page of its own.
func TestKeep2481ResolvedIncidentTakesNoNewAlerts(t *testing.T) {
	s := newStory(t)
	old := s.told("KVFull", "kv_pressure", "llama", "kv_exhaustion")
	s.alert(Resolved, "KVFull", "kv_pressure", "critical", "llama")
	s.wait(3 * time.Minute)
	s.deliver(EffectNotify)
	count := old.AlertCount
	s.alert(Firing, "KVFull", "kv_pressure", "critical", "llama")
	s.alert(Firing, "HighTTFT", "ttft_high", "critical", "llama")
	s.wait(time.Minute)
	if old.Status != StatusResolved || old.AlertCount != count || len(s.board.incidents) != 2 {
		t.Fatalf("old incident %s with %d alerts, %d incidents", old.Status, old.AlertCount, len(s.board.incidents))
	}
	if got := s.effects(EffectNotify); len(got) != 3 || strings.Contains(strings.Join(got, " "), string(old.ID)) {
		t.Fatalf("the new trouble is told on %v", got)
	}
}

// Keep, issue 4839: an incident that a person had acknowledged no longer ended with its alerts. Here it does, after the hold.
func TestKeep4839AcknowledgedIncidentStillEnds(t *testing.T) {
	s := newStory(t)
	in := s.told("KVFull", "kv_pressure", "llama", "kv_exhaustion")
	s.apply(Input{Command: &Command{Verb: VerbAck, Incident: in.ID, Actor: Actor{ID: "ana", Via: "slack"}}})
	s.alert(Resolved, "KVFull", "kv_pressure", "critical", "llama")
	s.wait(time.Minute)
	s.alert(Firing, "KVFull", "kv_pressure", "critical", "llama")
	if in.Status != StatusAcked {
		t.Fatalf("reopened within its hold as %s: ana still has it", in.Status)
	}
	s.alert(Resolved, "KVFull", "kv_pressure", "critical", "llama")
	s.wait(3 * time.Minute)
	if in.Status != StatusResolved || in.ResolvedBy != "alerts" {
		t.Fatalf("status %s by %q", in.Status, in.ResolvedBy)
	}
}

// Keep, issue 6732: an incident that had been deleted was used again. Here an alert that comes after its incident was forgotten opens
// a new one.
func TestKeep6732ForgottenIncidentIsNotUsedAgain(t *testing.T) {
	s := newStory(t)
	old := s.told("KVFull", "kv_pressure", "llama", "kv_exhaustion")
	s.apply(Input{Command: &Command{Verb: VerbResolve, Incident: old.ID, Actor: Actor{ID: "ana", Via: "api"}}})
	s.deliver(EffectNotify)
	s.now = s.now.Add(721 * time.Hour)
	s.apply(Input{})
	s.alert(Firing, "KVFull", "kv_pressure", "critical", "llama")
	if in := s.only(); in.ID == old.ID || in.AlertCount != 1 || !in.Open() {
		t.Fatalf("incident %s (was %s), %d alerts", in.ID, old.ID, in.AlertCount)
	}
}

// Keep, issue 6702: a service that stood alone in the topology was left out of correlation. Here an alert whose place nobody knows is
// an incident too, and is told.
func TestKeep6702AlertOfAnUnknownPlaceIsTold(t *testing.T) {
	s := newStory(t)
	s.apply(Input{Alerts: &AlertBatch{Alerts: []Alert{{Fingerprint: "f", Status: Firing, StartsAt: s.now,
		Labels: map[string]string{"alertname": "NobodyKnowsThis", "severity": "critical"}}}}})
	s.wait(time.Minute)
	if in := s.only(); in.Title == "" || len(s.effects(EffectNotify)) != 3 {
		t.Fatalf("title %q, told on %v", in.Title, s.effects(EffectNotify))
	}
}

// Robusta, issue 850: alerts that Alertmanager had grouped became one message each. Here a payload about one pool is one message.
func TestRobusta850GroupedAlertsAreOneMessage(t *testing.T) {
	s := newStory(t)
	var batch AlertBatch
	for i := range MaxBatch {
		a := s.make(Firing, fmt.Sprint("Rule", i), "kv_pressure", "critical", "llama")
		batch.Alerts = append(batch.Alerts, a)
	}
	s.apply(Input{Alerts: &batch})
	s.wait(time.Minute)
	if in := s.only(); in.AlertCount != MaxBatch || s.channelCalls(ChannelSlack) != 1 {
		t.Fatalf("%d alerts in the incident, or not one message", in.AlertCount)
	}
}

// Grafana OnCall, issue 4087, and GoAlert, issue 4188: a storm ran into Slack's rate limit, and alerts of all teams were late by up to
// 16 minutes. Here what is pending for an incident and channel is one effect that shows the newest state: two thousand alerts on four
// pools cost a channel a handful of calls, and Slack's silence does not hold up a page.
func TestOnCall4087StormCostsAHandfulOfCalls(t *testing.T) {
	s := newStory(t)
	slack := 0
	for i := range 20 {
		var batch AlertBatch
		for j := range MaxBatch {
			n := i*MaxBatch + j
			a := s.make(Firing, fmt.Sprint("Rule", n), []string{"kv_pressure", "ttft_high", "queue_buildup"}[n%3], "critical", fmt.Sprint("pool-", n%4))
			batch.Alerts = append(batch.Alerts, a)
		}
		s.apply(Input{Alerts: &batch})
		s.wait(3 * time.Second)
		if i == 12 {
			// Slack takes nothing for a while.
			for _, id := range s.effects(EffectNotify) {
				if e := s.board.effects[EffectID(id)]; e.Channel == ChannelSlack {
					s.apply(Input{Outcome: &Outcome{Effect: e.ID, Turn: e.Turn, Error: "429", RetryAt: s.now.Add(20 * time.Second)}})
				}
			}
			if pages := s.channelCalls(ChannelPagerDuty); pages != 4 {
				t.Fatalf("Slack is busy and %d of 4 pages went out", pages)
			}
		}
		slack += s.channelCalls(ChannelSlack)
	}
	s.wait(time.Minute)
	slack += s.channelCalls(ChannelSlack)
	if len(s.board.incidents) != 4 || slack < 4 || slack > 12 {
		t.Fatalf("2,000 alerts on 4 pools: %d incidents, %d calls to Slack", len(s.board.incidents), slack)
	}
}

// Kubernaut, issue 209: two duplicates each waited for the other for ever. Here a merge has one direction: two incidents of one
// trouble leave exactly one open.
func TestKubernaut209DuplicatesLeaveOneOpen(t *testing.T) {
	s := newStory(t)
	s.fold.Triage = mutual{}
	a, b := s.told("A", "kv_pressure", "llama", "x"), (*Incident)(nil)
	s.alert(Firing, "B", "kv_pressure", "critical", "mistral")
	for _, in := range s.board.incidents {
		if in != a {
			b = in
		}
	}
	s.apply(Input{Evidence: &Evidence{Incident: b.ID, At: s.now, Samples: []Sample{{Signal: "verdict", Text: "x", Entity: Entity{Node: "gpu-1"}}}}})
	s.apply(Input{Evidence: &Evidence{Incident: a.ID, At: s.now, Samples: []Sample{{Signal: "verdict", Text: "x", Value: 1, Entity: Entity{Node: "gpu-1"}}}}})
	if a.Open() == b.Open() {
		t.Fatalf("both open or none: %s and %s", a.Status, b.Status)
	}
	if root := s.board.home(a.ID); root != s.board.home(b.ID) || root.ActiveAlerts != 2 {
		t.Fatalf("the trouble has two homes, or %d of its 2 alerts", root.ActiveAlerts)
	}
}

// mutual lets every incident absorb every other, which no rule should.
type mutual struct{ simpleTriage }

func (mutual) Absorbs(_, _ *Incident) bool { return true }

// Kubernaut, issue 1067: a fix replaced the pod, the new pod's alert had a new fingerprint, and deduplication did not know it. Here an
// alert belongs to the trouble of its pool, whatever its pod is called.
func TestKubernaut1067ReplacedPodIsTheSameTrouble(t *testing.T) {
	s := newStory(t)
	in := s.told("KVFull", "kv_pressure", "llama", "kv_exhaustion")
	a := s.make(Firing, "KVFull", "kv_pressure", "critical", "llama")
	a.Labels["pod"], a.Fingerprint = "llama-new", "new"
	s.alert(Resolved, "KVFull", "kv_pressure", "critical", "llama")
	s.wait(time.Minute)
	s.apply(Input{Alerts: &AlertBatch{Alerts: []Alert{a}}})
	if s.only() != in || in.Status != StatusOpen || in.ActiveAlerts != 1 {
		t.Fatalf("status %s, %d active", in.Status, in.ActiveAlerts)
	}
}

// Kubernaut, issue 314: "no action needed" closed the case, the alert fired again, and so on for ever. Here a benign verdict closes
// nothing: the incident stays while its alert does, and nobody is told twice or paged.
func TestKubernaut314NoActionIsNoLoop(t *testing.T) {
	s := newStory(t)
	s.alert(Firing, "GPUMem", "gpu_memory_high", "warning", "llama")
	in := s.only()
	first := s.make(Firing, "GPUMem", "gpu_memory_high", "warning", "llama")
	s.evidence(in, string(BenignAlert))
	s.deliver(EffectNotify)
	for range 12 {
		s.now = s.now.Add(2 * time.Hour)
		s.apply(Input{Alerts: &AlertBatch{Alerts: []Alert{first}}})
		s.evidence(in, string(BenignAlert))
	}
	if s.only() != in || !in.Open() || len(s.effects(EffectNotify)) != 0 || len(s.effects(EffectPlan)) != 0 {
		t.Fatalf("status %s, wanted %v %v", in.Status, s.effects(EffectNotify), s.effects(EffectPlan))
	}
}

// lateRoot is a storm whose root shows itself after its consequence was paged and acknowledged in PagerDuty.
func (s *story) lateRoot() (root, consequence *Incident) {
	s.t.Helper()
	consequence = s.told("HighTTFT", "ttft_high", "llama", "")
	s.apply(Input{Foreign: &Foreign{Source: "pagerduty", Event: "acknowledged", ID: "Q1", Key: string(consequence.ID), Actor: Actor{ID: "P1", Name: "Ben", Via: "pagerduty"}}})
	s.deliver(EffectNotify)
	s.apply(Input{Alerts: &AlertBatch{Alerts: []Alert{{Fingerprint: "xid", Status: Firing, StartsAt: s.now,
		Labels: map[string]string{"alertname": "Xid", "symptom": "gpu_hardware", "severity": "critical", "node": "gpu-3"}}}}})
	for _, in := range s.board.incidents {
		if in != consequence {
			root = in
		}
	}
	s.apply(Input{Evidence: &Evidence{Incident: root.ID, At: s.now, Samples: []Sample{{Signal: "verdict", Text: "gpu_fault", Entity: Entity{Node: "gpu-3"}}},
		Workers: []Worker{{Namespace: "llm", Pod: "llama-1", Pool: "llama", Node: "gpu-3"}}}})
	return root, consequence
}

// HolmesGPT, pull request 2155: loud symptoms were blamed and the cause came too late to count. Here a root that shows itself late
// takes the symptoms that were paged before it, and whoever acknowledged them has the root too.
func TestHolmes2155LateRootTakesItsConsequences(t *testing.T) {
	s := newStory(t)
	root, consequence := s.lateRoot()
	if consequence.MergedInto != root.ID || root.ActiveAlerts != 2 || root.AckedBy.Name != "Ben" {
		t.Fatalf("merged into %q; the root has %d alerts and is acknowledged by %v", consequence.MergedInto, root.ActiveAlerts, root.AckedBy)
	}
	if root.AckedBy.Via == "pagerduty" {
		t.Error("PagerDuty is taken to know that the root's page is acknowledged, which would leave it ringing")
	}
	if got := s.loud(consequence); !strings.Contains(got[len(got)-1], "merged into "+string(root.ID)) {
		t.Errorf("the thread of the merged incident ends with %q", got)
	}
	if got := s.loud(root); !strings.Contains(strings.Join(got, "\n"), string(consequence.ID)) {
		t.Errorf("the thread of the root does not name what it took: %q", got)
	}
}

// The page of a merged incident is resolved by us, and PagerDuty then reports that end back. It is not the end of the root.
func TestTheEndOfAMergedPageDoesNotEndTheRoot(t *testing.T) {
	s := newStory(t)
	root, consequence := s.lateRoot()
	for _, event := range []string{"resolved", "acknowledged"} {
		s.apply(Input{Foreign: &Foreign{Source: "pagerduty", Event: event, ID: "Q1", Key: string(consequence.ID), Actor: Actor{ID: "P1", Name: "Ben", Via: "pagerduty"}}})
		if !root.Open() {
			t.Fatalf("the root is %s by %q: a page that was %s elsewhere ended it", root.Status, root.ResolvedBy, event)
		}
		if got := root.Told[ChannelPagerDuty].Ref["status"]; got != "" {
			t.Fatalf("the root's own page is taken for %s, and would never be sent", got)
		}
	}
}

// NVSentinel, issue 121: a drain that had been cancelled went on. Here the cancelling is remembered though the runner takes a step at the
// same time, and the runner looks at once.
func TestNVSentinel121CancellingADrainIsNotLost(t *testing.T) {
	s := newStory(t)
	in := s.told("KVHeld", "kv_pressure", "llama", "kv_leak")
	a := Action{ID: "ACT-1", Incident: in.ID, Kind: "restart_worker", Mode: "approve", State: AwaitingApproval, PlanHash: "p", ExpiresAt: s.now.Add(time.Hour),
		Change: "restart pod llm/llama-1", Target: Target{Cluster: "prod"}, Steps: []ActionStep{{State: AwaitingApproval, At: s.now}}}
	s.apply(Input{Action: &ActionEvent{Action: a}})
	s.apply(Input{Command: &Command{Verb: VerbApprove, Action: a.ID, PlanHash: "p", Actor: Actor{ID: "ana"}}})
	run := func(to ActionState, journal map[string]string, wait time.Duration) {
		t.Helper()
		next := *s.board.actions[a.ID]
		next.Steps, next.Journal, next.NextAt = slices.Clone(next.Steps), journal, s.now.Add(wait)
		from := next.State
		if to != from {
			if err := next.Move(to, s.now, "", Actor{ID: "paramedic"}); err != nil {
				t.Fatal(err)
			}
		}
		s.apply(Input{Action: &ActionEvent{From: from, Action: next}})
	}
	run(Admitted, nil, 0)
	run(Intent, nil, 0)
	run(Intent, map[string]string{"isolated": "now"}, time.Minute)
	s.apply(Input{Command: &Command{Verb: VerbCancel, Action: a.ID, Actor: Actor{ID: "ana"}}})
	run(Intent, map[string]string{"isolated": "now"}, time.Minute) // a step that was under way, and does not know
	got := s.board.actions[a.ID]
	if got.Journal[CalledOff] != "ana" || got.Journal["isolated"] != "now" {
		t.Fatalf("journal %v", got.Journal)
	}
	if e := s.board.effects["run:ACT-1"]; e == nil || e.Due.After(s.now) || got.NextAt.After(s.now) {
		t.Fatalf("the runner looks at %v (%+v), not at once", got.NextAt, e)
	}
	if loud := s.loud(in); !strings.Contains(loud[len(loud)-1], "called off by ana") {
		t.Errorf("the thread ends with %q", loud)
	}
}
