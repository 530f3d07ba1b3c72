package score

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"paramedic/cmd/paramedic/config"
	"paramedic/lab/alerting"
	"paramedic/notify"
	"paramedic/rules/enrich"
	"paramedic/state"
	"paramedic/state/fold"
	"paramedic/webhook/alertmanager"
)

// Cluster names the cluster of a Bot's alerts and sources.
const Cluster = "default"

// A Bot runs the bot's own parts behind an Alertmanager, on simulated time and in one goroutine,
// without a listener. It accepts every message and writes nothing. It is the clock of its sources.
type Bot struct {
	At     time.Time // the simulated time, which the caller advances
	Gather *enrich.Gatherer
	Board  *fold.Board

	Alerts     int       // delivered, repeats included
	FirstAlert time.Time // when the first was delivered
	Paged      map[state.IncidentID]bool

	fold    *fold.Fold
	manager *alerting.Alertmanager
	seq     uint64
}

// NewBot returns a bot with the default configuration and these rules. The caller sets Gather.
func NewBot(triage state.Triage) (*Bot, error) {
	router, err := notify.NewRouter(nil,
		[]state.Channel{state.ChannelPagerDuty, state.ChannelSlack, state.ChannelConsole})
	if err != nil {
		return nil, fmt.Errorf("routes: %w", err)
	}
	return &Bot{Board: fold.NewBoard(), Paged: map[state.IncidentID]bool{},
		manager: alerting.NewAlertmanager(alerting.AlertmanagerConfig{}),
		fold:    &fold.Fold{Triage: triage, Routing: router, Settings: config.Default().Settings()}}, nil
}

// Now returns the simulated time.
func (b *Bot) Now() time.Time { return b.At }

// After returns nil: nothing waits on simulated time.
func (*Bot) After(time.Duration) <-chan time.Time { return nil }

// Receive passes the alerts of all rules at the present to the Alertmanager.
func (b *Bot) Receive(alerts []alerting.Alert) { b.manager.Receive(b.At, alerts) }

// Step delivers the notifications that are due, and handles due timers and effects.
func (b *Bot) Step(ctx context.Context) error {
	if err := b.deliver(); err != nil {
		return err
	}
	if due, cluster := b.Board.NextDue(); !due.IsZero() && !due.After(b.At) {
		b.apply(state.Input{Cluster: cluster})
	}
	b.answer(ctx)
	return nil
}

// deliver decodes due notifications with the webhook's own decoder, and applies them.
func (b *Bot) deliver() error {
	for _, n := range b.manager.Due(b.At) {
		body, err := json.Marshal(n.Webhook)
		if err != nil {
			return fmt.Errorf("encoding the webhook: %w", err)
		}
		p, err := alertmanager.Decode(body, []string{Cluster}, b.At)
		if err != nil {
			return fmt.Errorf("decoding the webhook: %w", err)
		}
		for _, in := range p.Inputs {
			b.Alerts += len(in.Alerts.Alerts)
			if b.FirstAlert.IsZero() {
				b.FirstAlert = b.At
			}
			b.apply(in)
		}
		b.manager.Sent(n, b.At)
	}
	return nil
}

func (b *Bot) apply(in state.Input) {
	b.seq++
	in.Seq, in.At = b.seq, b.At
	b.fold.Apply(b.Board, in)
}

// answer handles due effects: it gathers evidence, and accepts every message.
func (b *Bot) answer(ctx context.Context) {
	for _, e := range b.Board.Due(b.At) {
		out := state.Outcome{Effect: e.ID, Turn: e.Turn, Done: true}
		switch e.Kind {
		case state.EffectEnrich:
			b.enrich(ctx, e.Incident)
		case state.EffectNotify:
			out.Rev = e.Want
			b.Paged[e.Incident] = b.Paged[e.Incident] || e.Channel == state.ChannelPagerDuty
		}
		b.apply(state.Input{Cluster: e.Cluster, Outcome: &out})
	}
}

func (b *Bot) enrich(ctx context.Context, id state.IncidentID) {
	list := b.Board.Incidents()
	i := slices.IndexFunc(list, func(in state.Incident) bool { return in.ID == id })
	if i < 0 || !list[i].Open() {
		return
	}
	in := list[i]
	ev := b.Gather.Gather(ctx, enrich.Request{Incident: id, Cluster: in.Cluster, Scope: in.Scope, Onset: in.StartedAt,
		Now: b.At, Jobs: enrich.JobsOf(in), Series: enrich.SeriesOf(in)})
	b.apply(state.Input{Cluster: in.Cluster, Evidence: &ev})
}
