package service

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"paramedic/cmd/paramedic/config"
	"paramedic/notify"
	"paramedic/notify/notifytest"
	"paramedic/notify/pagerduty"
	"paramedic/notify/pagerduty/pagerdutytest"
	"paramedic/rules"
	"paramedic/state"
	"paramedic/state/fold"
	"paramedic/state/keeper"
	"paramedic/state/outbox"
)

const routingKey = "0123456789abcdef0123456789abcdef"

// A floodWorld is a bot that pages critical incidents and warnings through a strict PagerDuty.
type floodWorld struct {
	*keeper.Keeper
	account *pagerdutytest.Server
	alerts  int
}

// inFlood runs a scenario in a bubble: the bot, and PagerDuty with its limit of 120 a minute.
func inFlood(t *testing.T, scenario func(w *floodWorld)) {
	catalog, library, err := LoadKnowledge(config.Default())
	if err != nil {
		t.Fatal(err)
	}
	account := pagerdutytest.New(pagerdutytest.Options{PerMinute: 120, RoutingKey: routingKey})
	defer account.Close()
	synctest.Test(t, func(t *testing.T) {
		clock, log := state.SystemClock{}, slog.New(slog.DiscardHandler)
		router, err := notify.NewRouter([]notify.Route{{Channels: []state.Channel{state.ChannelPagerDuty}}},
			[]state.Channel{state.ChannelPagerDuty})
		if err != nil {
			t.Fatal(err)
		}
		w := &floodWorld{account: account}
		w.Keeper = keeper.New(keeper.Config{Store: &memoryStore{inputs: make(chan state.Input, 1e5)}, Clock: clock, Logger: log,
			Fold: &fold.Fold{Triage: Knowledge{rules.Rules{Catalog: catalog}, library}, Routing: router,
				Settings: state.DefaultSettings()}})
		pager := pagerduty.New(pagerduty.Config{EventsURL: account.URL()}, pagerduty.Options{Clock: clock, HTTP: account.Client(),
			RoutingKey: notifytest.Secret(routingKey)})
		handler := notify.NewHandler(notify.HandlerConfig{View: w, Clock: clock,
			Notifiers: map[state.Channel]notify.Notifier{state.ChannelPagerDuty: pager}})
		nothing := delivery(func(context.Context, state.Effect) state.Outcome { return state.Outcome{Done: true} })
		dispatcher, err := outbox.New(outbox.Config{Source: w, Log: w, Clock: clock, Logger: log, Free: handler.Free,
			Handlers: map[state.EffectKind]outbox.Handler{
				state.EffectPrepare: nothing, state.EffectPlan: nothing, state.EffectNotify: delivery(handler.Handle),
				state.EffectEnrich: blindGatherer{},
			}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { _ = w.Run(ctx) })
		group.Go(func() { _ = dispatcher.Run(ctx) })
		synctest.Wait()
		scenario(w)
		stop()
		group.Wait()
		if account.Limited() > 0 || len(account.Failures()) > 0 {
			t.Errorf("PagerDuty refused %d calls as too many, and %v", account.Limited(), account.Failures())
		}
	})
}

// fire reports alerts about n new applications, each with a number of pods.
func (w *floodWorld) fire(t *testing.T, n int, severity string, pods int) {
	t.Helper()
	for range n {
		w.alerts++
		var batch state.AlertBatch
		for pod := range pods {
			batch.Alerts = append(batch.Alerts, state.Alert{Fingerprint: state.Fingerprint(fmt.Sprint(w.alerts, "-", pod)),
				Status: state.Firing, StartsAt: time.Now(),
				Labels: map[string]string{"alertname": "VLLMKVCacheExhaustion", "severity": severity,
					"model_name": fmt.Sprintf("model%d", w.alerts), "namespace": "llm",
					"pod": fmt.Sprintf("app%d-6d5f7c9b8d-abcd%d", w.alerts, pod)}})
		}
		if err := w.Append(t.Context(), state.Input{Cluster: "prod", Alerts: &batch}); err != nil {
			t.Fatal(err)
		}
	}
}

// pages returns the severity of each page, in the order in which they were sent.
func (w *floodWorld) pages() (severities []string) {
	for _, in := range w.account.Incidents() {
		severities = append(severities, in.Severity)
	}
	return severities
}

func TestFloodPagesCriticalFirst(t *testing.T) {
	inFlood(t, func(w *floodWorld) {
		const warnings, criticals = 1000, 40
		w.fire(t, warnings, "warning", 1)
		time.Sleep(30 * time.Second)
		before := len(w.pages())
		w.fire(t, criticals, "critical", 1)
		time.Sleep(state.DefaultSettings().Settle + time.Second)
		got := w.pages()
		t.Logf("pages before the criticals: %d, at settle + 1 s: %v", before, got[before:])
		if !slices.Contains(got, "critical") {
			t.Errorf("no critical incident was paged at settle + 1 s, behind %d pages of warnings", len(got))
			return
		}
		time.Sleep(30 * time.Second)
		first := slices.Index(w.pages(), "critical")
		burst := w.pages()[first:]
		n := len(slices.DeleteFunc(slices.Clone(burst[:criticals]), func(s string) bool { return s != "critical" }))
		if n < criticals*3/4 {
			t.Errorf("%d of the next %d pages are critical: %s", n, criticals, strings.Join(burst[:criticals], " "))
		}
	})
}
