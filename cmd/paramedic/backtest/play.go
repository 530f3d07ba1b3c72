package backtest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"paramedic/lab/alerting"
	"paramedic/remediate"
	"paramedic/remediate/cluster"
	"paramedic/remediate/guard"
	"paramedic/rules/catalog"
	"paramedic/rules/enrich"
	"paramedic/state"
	"paramedic/state/fold"
	"paramedic/webhook/alertmanager"
)

const (
	// kept is the time for which a resolved incident stays on the board. Guards look back a day.
	kept = 25 * time.Hour
	// aged is the age of an incident from which its evidence is read every agedEvery only. An alert
	// that fires for weeks would otherwise cost Prometheus thousands of queries a day.
	aged      = 6 * time.Hour
	agedEvery = time.Hour
)

// unjudged lists the guards that need objects of Kubernetes, which the past does not show.
var unjudged = []string{"target", "ownership", "verifiability"}

// A player plays the alerts through the parts of the bot, in simulated time and in one goroutine.
type player struct {
	cluster string
	from    time.Time // the begin of the window
	now     time.Time
	rules   rulebook
	severe  func(labels map[string]string) state.Severity

	fold   *fold.Fold
	board  *fold.Board
	bot    *dispatcher // the Alertmanager that sends to the bot
	plain  *dispatcher // the Alertmanager without the bot
	paging map[string]bool
	seq    uint64
	tally  *tally

	gather *enrich.Gatherer
	aid    *remediate.Remediate
	past   *pastCluster
	failed func() error // reports whether evidence can no longer be trusted
}

// Now returns the simulated time.
func (p *player) Now() time.Time { return p.now }

// After returns nil: nothing waits on simulated time.
func (*player) After(time.Duration) <-chan time.Time { return nil }

// Read reads current values for the guards, with the times of their scrapes.
func (p *player) Read(ctx context.Context, cluster string, scope state.Scope, onset time.Time, signals []string) state.Evidence {
	return p.gather.Gather(ctx, enrich.Request{Cluster: cluster, Scope: scope, Onset: onset, Now: p.now, Signals: signals,
		Fresh: true})
}

// play plays the events until a moment.
func (p *player) play(ctx context.Context, events []event, to time.Time) error {
	for {
		next := to
		if len(events) > 0 && events[0].at.Before(next) {
			next = events[0].at
		}
		for _, at := range []time.Time{p.bot.next(), p.plain.next(), p.due()} {
			if !at.IsZero() && at.Before(next) {
				next = at
			}
		}
		if next.After(p.now) {
			p.now = next
		}
		for ; len(events) > 0 && !events[0].at.After(p.now); events = events[1:] {
			p.receive(events[0])
		}
		if err := p.deliver(); err != nil {
			return err
		}
		if err := p.answer(ctx); err != nil {
			return err
		}
		if len(events) == 0 && !p.now.Before(to) && !p.pending() {
			return nil
		}
	}
}

// due returns the time of the next timer or effect, or zero.
func (p *player) due() time.Time {
	at, _ := p.board.NextDue()
	for e := range p.board.EveryEffect() {
		if at.IsZero() || e.Due.Before(at) {
			at = e.Due
		}
	}
	return at
}

// pending reports whether something is due now.
func (p *player) pending() bool {
	for _, at := range []time.Time{p.bot.next(), p.plain.next(), p.due()} {
		if !at.IsZero() && !at.After(p.now) {
			return true
		}
	}
	return false
}

// receive passes the start or the end of an alert to both Alertmanagers, unless no person gets it.
func (p *player) receive(e event) {
	if state.ForNoPerson(e.alert.Labels) {
		if !e.ends {
			p.tally.None++
		}
		return
	}
	if !e.ends {
		p.tally.Alerts++
		r := p.tally.rule(e.alert.Labels["alertname"])
		r.Fired++
		if _, known := p.rules.of(e.alert.Labels); !known {
			r.Gone = true
		}
		if e.alert.StartsAt.Sub(p.from) <= 2*e.alert.Step {
			p.tally.Cut++
		}
	}
	p.bot.receive(p.now, e)
	p.plain.receive(p.now, e)
}

// deliver applies what Alertmanager sends to the bot, and counts what it would have sent without
// the bot.
func (p *player) deliver() error {
	for _, n := range p.plain.flush(p.now) {
		p.countPlain(n)
	}
	for _, n := range p.bot.flush(p.now) {
		if err := p.post(n); err != nil {
			return err
		}
	}
	if due, cluster := p.board.NextDue(); !due.IsZero() && !due.After(p.now) {
		p.apply(state.Input{Cluster: cluster})
	}
	return nil
}

// countPlain counts a notification without the bot. Info is only logged. A group pages once, while
// a critical alert of it fires.
func (p *player) countPlain(n notification) {
	worst := state.Info
	for _, e := range n.alerts {
		if s := p.severe(e.alert.Labels); !e.ends && s.Rank() > worst.Rank() {
			worst = s
		}
	}
	switch {
	case !n.firing():
		delete(p.paging, n.key)
	case worst != state.Info:
		p.tally.Before.Notifications++
		if worst == state.Critical && !p.paging[n.key] {
			p.paging[n.key] = true
			p.tally.Before.Pages++
		}
	}
}

// post passes a notification through the webhook's own decoder.
func (p *player) post(n notification) error {
	hook := alerting.Webhook{Version: "4", GroupKey: n.key, WebhookData: alerting.WebhookData{Receiver: "paramedic",
		Status: "resolved", GroupLabels: n.labels, ExternalURL: "http://alertmanager:9093"}}
	if n.firing() {
		hook.Status = "firing"
	}
	for _, e := range n.alerts {
		status := "firing"
		if e.ends {
			status = "resolved"
		}
		hook.Alerts = append(hook.Alerts, alerting.WebhookAlert{Status: status, Labels: e.alert.Labels,
			StartsAt: e.alert.StartsAt, EndsAt: e.alert.EndsAt, Fingerprint: e.print, GeneratorURL: p.rules.link(e.alert.Labels)})
	}
	body, err := json.Marshal(hook)
	if err != nil {
		return fmt.Errorf("encoding the webhook: %w", err)
	}
	got, err := alertmanager.Decode(body, []string{p.cluster}, p.now)
	if err != nil {
		return fmt.Errorf("decoding the webhook: %w", err)
	}
	p.tally.Aside += len(got.Aside)
	for _, in := range got.Inputs {
		p.apply(in)
	}
	return nil
}

func (p *player) apply(in state.Input) {
	p.seq++
	in.Seq, in.At = p.seq, p.now
	p.fold.Apply(p.board, in)
}

// answer handles the effects that are due: it gathers evidence, foresees actions, and accepts every
// message without sending it.
func (p *player) answer(ctx context.Context) error {
	for _, e := range p.board.Due(p.now) {
		out := state.Outcome{Effect: e.ID, Turn: e.Turn, Done: true}
		in := p.board.Incident(e.Incident)
		switch {
		case in == nil:
		case e.Kind == state.EffectEnrich:
			if err := p.enrich(ctx, in.Clone()); err != nil {
				return err
			}
		case e.Kind == state.EffectPlan:
			p.foresee(ctx, in.Clone())
			if err := p.trust(ctx); err != nil {
				return err
			}
		case e.Kind == state.EffectNotify:
			out.Rev = e.Want
			if in.Told.Rev(e.Channel) == 0 {
				p.tally.After.add(e.Channel)
			}
		}
		p.apply(state.Input{Cluster: e.Cluster, Outcome: &out})
	}
	return nil
}

// trust returns why the evidence of the last gathering must not be used, or nil.
func (p *player) trust(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return p.failed()
}

// enrich gathers the evidence of an open incident.
func (p *player) enrich(ctx context.Context, in state.Incident) error {
	if last := p.board.Evidence(in.ID); !in.Open() ||
		last != nil && p.now.Sub(in.OpenedAt) > aged && p.now.Sub(last.At) < agedEvery {
		return nil
	}
	ev := p.gather.Gather(ctx, enrich.Request{Incident: in.ID, Cluster: in.Cluster, Scope: in.Scope, Onset: in.StartedAt,
		Now: p.now, Jobs: enrich.JobsOf(in), Series: enrich.SeriesOf(in)})
	if err := p.trust(ctx); err != nil {
		return err
	}
	p.apply(state.Input{Cluster: in.Cluster, Evidence: &ev})
	return nil
}

// foresee adds the actions that the bot would have proposed for a verdict.
func (p *player) foresee(ctx context.Context, in state.Incident) {
	var ev state.Evidence
	if have := p.board.Evidence(in.ID); have != nil {
		ev = *have
	}
	p.past.workers = ev.Workers
	for _, a := range p.aid.Plan.Foresee(ctx, in, ev, guard.Without(unjudged...)) {
		p.tally.propose(actionOf(&in, &a, p.now))
	}
}

// settle counts the incidents that were resolved, and erases those that the board need not keep.
func (p *player) settle() {
	expired := 0
	for _, in := range p.incidents() {
		if in.Open() {
			continue
		}
		p.tally.count(in, p.from)
		if p.now.Sub(in.ResolvedAt) > kept {
			expired++
		}
	}
	for ; expired > 0; expired-- {
		p.apply(state.Input{Cluster: p.cluster})
	}
	p.tally.forget(func(id state.IncidentID) bool { return p.board.Incident(id) != nil })
}

// incidents returns the board's incidents by number. They are the board's own.
func (p *player) incidents() []*state.Incident {
	return slices.SortedFunc(p.board.EveryIncident(), func(a, b *state.Incident) int { return cmp.Compare(a.Number, b.Number) })
}

// finish counts the incidents that are open at the end of the window.
func (p *player) finish() {
	for _, in := range p.incidents() {
		p.tally.count(in, p.from)
	}
}

// severityOf returns the severity of an alert without a known rule.
func severityOf(labels map[string]string) state.Severity {
	return catalog.SeverityOf(labels, state.Warning)
}

// clusters returns the clusters that guards read.
func (p *player) clusters() map[string]cluster.Cluster {
	return map[string]cluster.Cluster{p.cluster: p.past}
}
