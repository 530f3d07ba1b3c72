package fold

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"paramedic/state"
	"paramedic/state/fold/packed"
)

// applyAlerts applies a webhook payload.
func (x *step) applyAlerts(batch state.AlertBatch) {
	moved := map[state.IncidentID]bool{}
	var order []*state.Incident
	for _, a := range batch.Alerts {
		in := x.applyAlert(a)
		if in != nil && !moved[in.ID] {
			moved[in.ID] = true
			order = append(order, in)
		}
	}
	delivery := deliveryOf(batch)
	for _, in := range order {
		if !in.Open() {
			continue // a later alert of the payload merged it into an incident that is in order, too
		}
		x.recordDelivery(in, delivery)
		if batch.Truncated > 0 {
			x.record(in, state.Entry{Kind: "note", Quiet: true, Text: fmt.Sprintf(
				"Alertmanager left %d alerts out of a payload (max_alerts of receiver %q): more alerts may fire "+
					"than this incident shows", batch.Truncated, batch.Receiver)})
		}
		x.updateStatus(in)
	}
}

// deliveryOf describes the Alertmanager notification of a batch. It is nil if there is nothing to
// describe.
func deliveryOf(b state.AlertBatch) *state.Delivery {
	if b.Receiver == "" && b.ExternalURL == "" && b.GroupLabels == nil {
		return nil
	}
	return &state.Delivery{Receiver: b.Receiver, ExternalURL: b.ExternalURL, GroupLabels: b.GroupLabels}
}

// recordDelivery records the Alertmanager notification that brought an incident's alerts. The
// incidents of one notification share it.
func (x *step) recordDelivery(in *state.Incident, d *state.Delivery) {
	before := in.Delivery
	known := before != nil && (before.Receiver != "" || before.ExternalURL != "")
	if known && d != nil && !maps.Equal(before.GroupLabels, d.GroupLabels) {
		common := maps.Clone(d.GroupLabels)
		maps.DeleteFunc(common,
			func(name, value string) bool { have, ok := before.GroupLabels[name]; return !ok || have != value })
		d = &state.Delivery{Receiver: d.Receiver, ExternalURL: d.ExternalURL, GroupLabels: common}
	}
	in.Delivery = d
	x.changedIncident(in)
}

// haSkew bounds how much later the other Prometheus of an HA pair may see the same alert. Each
// evaluates its rules at its own phase, by default once a minute.
const haSkew = time.Minute

// applyAlert applies one alert and returns the incident that it changed, or nil.
func (x *step) applyAlert(a state.Alert) *state.Incident {
	if state.ForNoPerson(a.Labels) {
		return nil
	}
	known := x.alerts.Get(a.Fingerprint)
	if a.Status == state.Resolved {
		return x.resolveAlert(known, a)
	}
	x.touch(kindAlert, string(a.Fingerprint))
	rec := state.AlertRecord{FirstAt: x.now}
	var old *state.Incident
	wasActive := false
	if known != nil {
		if known.Active() && a.StartsAt.Before(known.StartsAt().Add(haSkew)) {
			known.SetLastAt(x.now)
			return nil // a repeat, or the same alert from the other Prometheus or Alertmanager of an HA pair
		}
		rec.FirstAt, rec.Incident, rec.Episodes = known.FirstAt(), known.Incident(), known.Episodes()
		old = x.root(rec.Incident)
		wasActive = known.Active() && old != nil && old.Open()
	}
	rec.Alert, rec.Active, rec.LastAt = a, true, x.now
	rec.Sign = x.Triage.Classify(a, x.in.Cluster)
	rec.Episodes++
	in := old
	if old == nil || !old.Open() {
		in = x.attach(&rec)
	} else if countsEverywhere(old, &rec) {
		clearPlace(&rec)
	}
	stored := packed.Of(&rec)
	x.shared.Share(stored)
	x.alerts.Put(stored)
	rec.Sign.Entity = stored.Entity() // its texts may be parts of longer ones
	x.count(in, &rec, wasActive)
	return in
}

func (x *step) resolveAlert(rec *packed.Alert, a state.Alert) *state.Incident {
	x.touch(kindAlert, string(a.Fingerprint))
	if rec == nil {
		// Resolved before it was ever seen firing. It is stored for later questions, and opens
		// nothing.
		x.alerts.Put(packed.Of(&state.AlertRecord{Alert: a, Sign: x.Triage.Classify(a, x.in.Cluster),
			FirstAt: x.now, LastAt: x.now}))
		return nil
	}
	rec.SetLastAt(x.now)
	older := a.StartsAt.Before(rec.StartsAt()) && !a.EndsAt.After(rec.StartsAt())
	if older || !rec.Active() {
		return nil // already resolved, or the late end of an older episode
	}
	return x.endEpisode(rec, a.EndsAt)
}

// endEpisode ends an alert's episode.
func (x *step) endEpisode(rec *packed.Alert, at time.Time) *state.Incident {
	rec.Resolve(at)
	x.touch(kindAlert, string(rec.Fingerprint()))
	in := x.root(rec.Incident())
	if in == nil || !in.Open() {
		return nil
	}
	in.ActiveAlerts--
	if c := in.Symptom(rec.Symptom()); c != nil {
		c.Active--
	}
	x.changedIncident(in)
	return in
}

// attach finds the open incident of an alert, or opens one.
func (x *step) attach(rec *state.AlertRecord) *state.Incident {
	e, keys := rec.Sign.Entity, x.signKeys(rec)
	var in *state.Incident
	x.near = x.open.AppendCandidates(x.near[:0], keys)
	if open := x.near; len(open) > 0 {
		if id, ok := x.Triage.Correlate(rec.Sign, x.workersAround(e, open), open, x.now); ok {
			in = x.incidents[id]
		}
	}
	if in == nil {
		in = x.everywhereIncident(rec)
		keys = x.signKeys(rec)
	}
	if in == nil {
		in = x.openIncident(rec)
	}
	rec.Incident = in.ID
	x.open.Add(in, keys)
	return in
}

// openIncident opens an incident for an alert.
func (x *step) openIncident(rec *state.AlertRecord) *state.Incident {
	seed := fmt.Sprintf("%s/%d/%s", x.in.Cluster, x.in.Turn(), rec.Alert.Fingerprint)
	in := &state.Incident{
		ID: state.NewIncidentID(x.now, seed), Number: x.nextNumber(), Cluster: x.in.Cluster, Status: state.StatusOpen,
		Severity: state.Info,
		OpenedAt: x.now, StartedAt: rec.Alert.StartsAt,
		Scope: state.Scope{Cluster: rec.Sign.Entity.Cluster}, Trace: x.in.Trace,
	}
	if in.StartedAt.IsZero() || in.StartedAt.After(x.now) {
		in.StartedAt = x.now
	}
	in.EnrichAt = x.now.Add(x.Settings.Settle)
	in.NotifyBy = x.now.Add(2 * x.Settings.SpeakWithin)
	x.setTimer(in, in.NotifyBy)
	x.incidents[in.ID] = in
	text := fmt.Sprintf("opened by alert %s: %s", orDash(rec.Alert.Name()), state.InSentence(x.title(rec.Sign.Symptom)))
	x.record(in, state.Entry{Kind: "opened", Text: text})
	return in
}

// nextNumber returns the cluster's next short number. Clusters in one partition count separately.
// Older boards had one count for all clusters, which goes on from there.
func (x *step) nextNumber() int {
	if x.meta.Numbers == nil {
		x.meta.Numbers = map[string]int{}
	}
	n := max(x.meta.Numbers[x.in.Cluster], x.meta.Incidents) + 1
	x.meta.Numbers[x.in.Cluster] = n
	x.touch(kindMeta, "board")
	return n
}

// count adds an alert's new episode to its incident. If counted is set, an older episode already
// counts as active.
func (x *step) count(in *state.Incident, rec *state.AlertRecord, counted bool) {
	if in.Count(rec, counted, x.now) {
		if in.Entries > 1 {
			x.record(in, state.Entry{Kind: "symptom", Quiet: true,
				Text: fmt.Sprintf("alert %s: %s", orDash(rec.Alert.Name()), state.InSentence(x.title(rec.Sign.Symptom)))})
		}
		in.EnrichAt = sooner(in.EnrichAt, x.now.Add(x.Settings.Settle))
		in.Rev++
	}
	x.changedIncident(in)
}

// forgetAck withdraws the acknowledgement of an incident that becomes critical, unless its page was
// critical before. The person has seen a warning only. PagerDuty does not escalate a page that is
// acknowledged.
func (x *step) forgetAck(in *state.Incident) {
	page := in.Told.On(state.ChannelPagerDuty).Ref
	paged := page["status"] != "" && (page["severity"] == "" || page["severity"] == string(state.Critical))
	if in.AckedAt.IsZero() || paged {
		return
	}
	was := in.Acker()
	in.AckedAt, in.AckedBy = time.Time{}, nil
	if in.Status == state.StatusAcked {
		in.Status = state.StatusOpen
	}
	x.record(in, state.Entry{Kind: "unacked", Text: fmt.Sprintf("no longer acknowledged by %s: it became critical", was)})
}

// updateStatus updates an incident after a payload: severity, status and timers.
func (x *step) updateStatus(in *state.Incident) {
	worst := state.Info
	for _, s := range in.Symptoms {
		if s.Active > 0 && s.Severity.Rank() > worst.Rank() {
			worst = s.Severity
		}
	}
	if worst.Rank() > in.Severity.Rank() {
		in.Severity = worst
		in.Rev++
		if worst == state.Critical {
			in.SilencedUntil = time.Time{} // a rise in severity ends a silence
			x.forgetAck(in)
			if len(in.Channels) == 0 {
				in.NotifyBy = sooner(in.NotifyBy, x.now.Add(x.Settings.SpeakWithin))
				x.setTimer(in, in.NotifyBy)
			}
		}
	}
	if in.Diagnosis.Title == "" {
		in.Title = x.provisionalTitle(in)
	}
	switch {
	case in.ActiveAlerts == 0 && in.Status != state.StatusMonitoring:
		in.Status = state.StatusMonitoring
		in.HoldUntil = x.now.Add(x.holdOf(in))
		in.Over = nil
		for _, s := range in.Symptoms {
			in.Over = append(in.Over, s.Symptom)
		}
		x.setTimer(in, in.HoldUntil)
		x.record(in, state.Entry{Kind: "monitoring", Quiet: true,
			Text: fmt.Sprintf("no alert fires any more: it is resolved if none returns within %s",
				state.FormatDuration(x.holdOf(in)))})
		in.Rev++
	case in.ActiveAlerts > 0 && in.Status == state.StatusMonitoring:
		in.HoldUntil = time.Time{}
		in.Status = x.activeStatus(in)
		// No channel has reported the end: messages show the status, and a flapping alert needs no
		// entry in the thread.
		x.record(in, state.Entry{Kind: "reopened", Quiet: true, Text: "alerts fire again, before it was resolved"})
		in.Rev++
	}
	x.changedIncident(in)
	x.wantEvidence(in)
	x.notifyChannels(in)
}

// activeStatus returns the status of an incident with active alerts. It depends on its actions and
// its acknowledgement.
func (x *step) activeStatus(in *state.Incident) state.Status {
	for _, id := range in.Actions {
		switch x.actions[id].State {
		case state.Intent, state.Applied, state.Verifying, state.RollbackIntent:
			return state.StatusMitigating
		}
	}
	if !in.AckedAt.IsZero() {
		return state.StatusAcked
	}
	return state.StatusOpen
}

// wantEvidence schedules the enrich effect at the incident's EnrichAt.
func (x *step) wantEvidence(in *state.Incident) {
	if in.Open() && !in.EnrichAt.IsZero() {
		x.wantEffect(state.Effect{ID: state.EffectID("enrich:" + string(in.ID)), Kind: state.EffectEnrich,
			Cluster: in.Cluster, Incident: in.ID, Due: in.EnrichAt})
	}
}

func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

func orDash(s string) string {
	if s == "" {
		return "—"
	}
	return s
}

// provisionalTitle returns a title for an incident without a verdict: its symptoms and their place.
func (f *Fold) provisionalTitle(in *state.Incident) string {
	if in.Everywhere != "" {
		return oneLine(fmt.Sprintf("%s, %d alerts, on %s", in.Everywhere, in.ActiveAlerts, in.Cluster))
	}
	var names []string
	for _, s := range in.Symptoms[:min(3, len(in.Symptoms))] {
		if s.Symptom == state.Unclassified && len(s.Rules) > 0 {
			names = append(names, s.Rules[0])
			continue
		}
		name := strings.ReplaceAll(f.title(s.Symptom), "_", " ")
		if len(names) > 0 {
			name = state.InSentence(name)
		}
		names = append(names, name)
	}
	if more := len(in.Symptoms) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	where := in.Scope.Model
	for _, w := range []string{in.Scope.Pool, in.Scope.Namespace, in.Cluster} {
		if where == "" {
			where = w
		}
	}
	if len(in.Scope.Nodes) > 0 && in.Scope.Model == "" && in.Scope.Pool == "" {
		where = in.Scope.Nodes[0]
	}
	return oneLine(strings.Join(names, ", ") + " on " + where)
}
