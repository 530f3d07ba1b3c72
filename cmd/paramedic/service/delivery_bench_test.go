package service

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"paramedic/cmd/paramedic/config"
	"paramedic/notify/pagerduty/pagerdutytest"
	"paramedic/state"
	"paramedic/state/fold"
	"paramedic/state/jetstream"
	"paramedic/state/keeper"
	"paramedic/state/outbox"
)

// A pagesDue is a store on disk with first pages that are due, and its keeper.
type pagesDue struct {
	*keeper.Keeper
	log *slog.Logger
}

// newPagesDue fills a store with incidents whose pages are due, and runs a keeper on it.
func newPagesDue(b *testing.B, incidents int) *pagesDue {
	log := slog.New(slog.DiscardHandler)
	store, err := jetstream.Open(b.Context(), jetstream.Config{Dir: b.TempDir(), Retain: time.Hour, Logger: log})
	if err != nil {
		b.Fatal(err)
	}
	const cluster = "prod"
	part := store.Partition(cluster)
	var fence state.Fence
	if _, fence, err = store.Load(b.Context(), part, fold.DecodeRecord); err != nil {
		b.Fatal(err)
	}
	var records []state.Record
	add := func(key string, v any) {
		raw, err := json.Marshal(v)
		if err != nil {
			b.Fatal(err)
		}
		records = append(records, state.Record{Key: key, Value: raw})
	}
	since := time.Now().Add(-30 * time.Second)
	for n := range incidents {
		in := state.Incident{ID: state.IncidentID(fmt.Sprintf("INC-%026d", n)), Number: n, Cluster: cluster, Status: state.StatusOpen,
			Severity: state.Warning, Rev: 1, OpenedAt: since, Channels: []state.Channel{state.ChannelPagerDuty}}
		id := "notify:pagerduty:" + string(in.ID)
		add("incident."+string(in.ID), in)
		add("effect.x"+state.Hash(id), state.Effect{ID: state.EffectID(id), Kind: state.EffectNotify, Cluster: cluster,
			Incident: in.ID, Channel: state.ChannelPagerDuty, Want: 1, Due: since, Since: since, Turn: 1})
		if len(records) > 900 || n == incidents-1 {
			if fence, err = store.Commit(b.Context(), part, fence, fence.Position, records); err != nil {
				b.Fatal(err)
			}
			records = nil
		}
	}
	w := &pagesDue{log: log, Keeper: keeper.New(keeper.Config{Store: store, Clock: state.SystemClock{}, Logger: log,
		Fold: &fold.Fold{Settings: state.DefaultSettings()}})}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	b.Cleanup(func() { stop(); <-ended; _ = store.Close(context.Background()) })
	for _, due := w.OldestDue(); due < incidents || w.Ready(ctx) != nil; _, due = w.OldestDue() {
		<-time.After(10 * time.Millisecond)
	}
	return w
}

// deliver makes n deliveries, and returns the time that they took. Each of them asks for another
// attempt at once, so that the number of due effects stays.
func (w *pagesDue) deliver(b *testing.B, n int64) time.Duration {
	var left atomic.Int64
	left.Store(n)
	ctx, stop := context.WithCancel(b.Context())
	dispatcher, err := outbox.New(outbox.Config{Source: w, Log: w, Clock: state.SystemClock{}, Logger: w.log,
		Handlers: map[state.EffectKind]outbox.Handler{state.EffectNotify: delivery(
			func(context.Context, state.Effect) state.Outcome {
				if left.Add(-1) == 0 {
					stop()
				}
				return state.Outcome{RetryAt: time.Now().Add(time.Millisecond)}
			})}})
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	if err := dispatcher.Run(ctx); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

// BenchmarkDeliveries compares the rate of deliveries with 100 and with 50,000 pages due, on disk
// and with an outcome in the log for each. The two take turns, so that both see the same machine.
func BenchmarkDeliveries(b *testing.B) {
	// Up to 260 are in delivery or on their way to the log at a time. With fewer in all, their
	// turns would be the limit.
	const each, inFlight = 2000, 260
	few, many := newPagesDue(b, inFlight+100), newPagesDue(b, inFlight+50_000)
	few.deliver(b, each)
	many.deliver(b, each)
	var withFew, withMany time.Duration
	for b.Loop() {
		withFew += few.deliver(b, each)
		withMany += many.deliver(b, each)
	}
	rate := func(d time.Duration) float64 { return float64(b.N) * each / d.Seconds() }
	b.ReportMetric(rate(withFew), "few/s")
	b.ReportMetric(rate(withMany), "many/s")
	b.ReportMetric(rate(withMany)/rate(withFew), "ratio")
}

// BenchmarkPageStorm measures when the first critical page is sent in a storm of 10,000 incidents
// that all want a page. The critical ones come last, and PagerDuty takes 120 events a minute. The
// time counts from the first critical alert, without settle.
func BenchmarkPageStorm(b *testing.B) {
	const incidents, criticals = 10_000, 20
	key := filepath.Join(b.TempDir(), "key")
	if err := os.WriteFile(key, []byte(routingKey), 0o600); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		account := pagerdutytest.New(pagerdutytest.Options{PerMinute: 120, RoutingKey: routingKey})
		url, service := startBot(b, func(c *config.Config) {
			c.Notify.PagerDuty.RoutingKeyFile, c.Notify.PagerDuty.EventsURL = key, account.URL()
			c.Notify.Routes = []config.RouteConfig{{Channels: []state.Channel{state.ChannelPagerDuty}}}
		})
		for n := 0; n < incidents-criticals; n += 998 {
			postAlerts(b, url, podsBody("VLLMKVCacheExhaustion", "warning", n, 998))
		}
		sent := time.Now()
		postAlerts(b, url, podsBody("VLLMKVCacheExhaustion", "critical", incidents, criticals))
		critical := func(in pagerdutytest.Incident) bool { return in.Severity == "critical" && !state.IsFlood(in.Key) }
		for !slices.ContainsFunc(account.Incidents(), critical) {
			<-time.After(20 * time.Millisecond)
		}
		b.ReportMetric((time.Since(sent) - state.DefaultSettings().Settle).Seconds(), "after-settle-s")
		b.ReportMetric(float64(service.Keeper.Tally().Open), "incidents")
		if account.Limited() > 0 || len(account.Failures()) > 0 {
			b.Errorf("PagerDuty refused %d calls as too many, and %v", account.Limited(), account.Failures())
		}
		account.Close()
	}
}
