package service

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
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
	store   *memoryStore
	triage  Knowledge
	alerts  []state.Alert
	apps    int

	ends func() // ends the running bot
}

// inFlood runs a scenario in a bubble: the bot, and PagerDuty with its limit of 120 a minute.
func inFlood(t *testing.T, scenario func(t *testing.T, w *floodWorld)) {
	catalog, library, err := LoadKnowledge(config.Default())
	if err != nil {
		t.Fatal(err)
	}
	account := pagerdutytest.New(pagerdutytest.Options{PerMinute: 120, RoutingKey: routingKey})
	defer account.Close()
	synctest.Test(t, func(t *testing.T) {
		w := &floodWorld{account: account, store: &memoryStore{inputs: make(chan state.Input, 1e5)},
			triage: Knowledge{rules.Rules{Catalog: catalog}, library}}
		w.start(t)
		scenario(t, w)
		w.ends()
		if account.Limited() > 0 || len(account.Failures()) > 0 {
			t.Errorf("PagerDuty refused %d calls as too many, and %v", account.Limited(), account.Failures())
		}
	})
}

// start starts a bot on the world's store.
func (w *floodWorld) start(t *testing.T) {
	clock, log := state.SystemClock{}, slog.New(slog.DiscardHandler)
	router, err := notify.NewRouter([]notify.Route{{Channels: []state.Channel{state.ChannelPagerDuty}}},
		[]state.Channel{state.ChannelPagerDuty})
	if err != nil {
		t.Fatal(err)
	}
	settings := state.DefaultSettings()
	settings.ResolveHold = 20 * time.Second
	w.Keeper = keeper.New(keeper.Config{Store: w.store, Clock: clock, Logger: log,
		Fold: &fold.Fold{Triage: w.triage, Routing: router, Settings: settings}})
	pager := pagerduty.New(pagerduty.Config{EventsURL: w.account.URL()}, pagerduty.Options{Clock: clock, HTTP: w.account.Client(),
		RoutingKey: notifytest.Secret(routingKey)})
	handler := notify.NewHandler(notify.HandlerConfig{View: w, Clock: clock,
		Flood: w.Flood, Links: notify.Links{Base: "https://bot.example"},
		Notifiers: map[state.Channel]notify.Notifier{state.ChannelPagerDuty: pager}})
	nothing := delivery(func(context.Context, state.Effect) state.Outcome { return state.Outcome{Done: true} })
	dispatcher, err := outbox.New(outbox.Config{Source: w, Log: w, Clock: clock, Logger: log, Free: handler.Free,
		Handlers: map[state.EffectKind]outbox.Handler{
			state.EffectPrepare: nothing, state.EffectPlan: nothing, state.EffectNotify: delivery(handler.Handle),
			state.EffectEnrich: blindGatherer{}, state.EffectFlood: delivery(handler.Handle),
		}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	k := w.Keeper
	group.Go(func() { _ = k.Run(ctx) })
	group.Go(func() { _ = dispatcher.Run(ctx) })
	group.Go(func() {
		outbox.WatchFlood(ctx, outbox.FloodConfig{Source: k, Log: k, Clock: clock, Logger: log,
			Channel: state.ChannelPagerDuty, PerMinute: pagerduty.PerMinute})
	})
	w.ends = func() {
		stop()
		group.Wait()
	}
	synctest.Wait()
}

// fire reports alerts about n new applications.
func (w *floodWorld) fire(t *testing.T, n int, severity string) {
	t.Helper()
	for range n {
		w.apps++
		w.alerts = append(w.alerts, state.Alert{Fingerprint: state.Fingerprint(fmt.Sprint(w.apps)), Status: state.Firing,
			StartsAt: time.Now(), Labels: map[string]string{"alertname": "VLLMKVCacheExhaustion", "severity": severity,
				"pod": fmt.Sprintf("app%d-0", w.apps)}})
	}
	w.report(t, w.alerts[len(w.alerts)-n:])
}

// end reports the end of all alerts.
func (w *floodWorld) end(t *testing.T) {
	t.Helper()
	for i := range w.alerts {
		w.alerts[i].Status, w.alerts[i].EndsAt = state.Resolved, time.Now()
	}
	w.report(t, w.alerts)
}

func (w *floodWorld) report(t *testing.T, alerts []state.Alert) {
	t.Helper()
	for batch := range slices.Chunk(alerts, state.MaxBatch) {
		if err := w.Append(t.Context(), state.Input{Cluster: "prod", Alerts: &state.AlertBatch{Alerts: batch}}); err != nil {
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
	t.Parallel()
	inFlood(t, func(t *testing.T, w *floodWorld) {
		const warnings, criticals = 1000, 40
		w.fire(t, warnings, "warning")
		time.Sleep(30 * time.Second)
		before := len(w.pages())
		w.fire(t, criticals, "critical")
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

// summaries returns the summary pages.
func (w *floodWorld) summaries() []pagerdutytest.Incident {
	return slices.DeleteFunc(w.account.Incidents(), func(in pagerdutytest.Incident) bool { return !state.IsFlood(in.Key) })
}

// A thousand incidents want a page. One summary names those that wait. Most end before their page
// was sent, and get none.
func TestFloodIsFoldedIntoOnePage(t *testing.T) {
	t.Parallel()
	inFlood(t, func(t *testing.T, w *floodWorld) {
		const incidents = 1000
		w.fire(t, incidents, "warning")
		time.Sleep(state.DefaultSettings().Settle + 15*time.Second)
		sums := w.summaries()
		if len(sums) != 1 || sums[0].Status != "triggered" || sums[0].Severity != "warning" ||
			!regexp.MustCompile(`^9\d\d more incidents: 9\d\d unknown$`).MatchString(sums[0].Summary) {
			t.Errorf("summaries %+v, want one that names more than 900 incidents (pages %d, tally %+v)", sums, len(w.pages()), w.Tally())
			return
		}
		time.Sleep(90 * time.Second)
		w.end(t)
		time.Sleep(3 * time.Minute)
		sums = w.summaries()
		if len(sums) != 1 || sums[0].Status != "resolved" || sums[0].Triggers != 1 {
			t.Errorf("after the flood: summaries %+v, want the same one, resolved and triggered once", sums)
		}
		if changes := w.account.Changes(); len(changes) > 2 {
			t.Errorf("%d updates in four minutes: %q", len(changes), changes)
		}
		paged := map[string]int{}
		for _, in := range w.account.Incidents() {
			if paged[in.Key]++; in.Triggers > 1 || paged[in.Key] > 1 || in.Status != "resolved" {
				t.Errorf("page %+v, want each once, and resolved", in)
			}
		}
		if n := len(paged) - 1; n < 100 || n > incidents/2 {
			t.Errorf("%d incidents were paged, want those whose turn came before they ended", n)
		}
		if f, open := w.Flood(state.ChannelPagerDuty); open {
			t.Errorf("the flood %+v is not over", f)
		}
		t.Logf("paged %d of %d incidents; updates %q", len(paged)-1, incidents, w.account.Changes())
	})
}

// A bot that is stopped in a flood goes on with the same summary: nothing is paged twice, and every
// incident that was not paged before still has its turn.
func TestFloodOutlivesARestart(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("SKIPPED with -short (the race detector makes it ten times as long): played whole by make test")
	}
	inFlood(t, func(t *testing.T, w *floodWorld) {
		const incidents = 300
		w.fire(t, incidents, "warning")
		time.Sleep(state.DefaultSettings().Settle + 45*time.Second)
		before := len(w.pages())
		if sums := w.summaries(); len(sums) != 1 || before > incidents/2 {
			t.Errorf("summaries %+v, %d pages: no flood to restart in", sums, before)
			return
		}
		w.ends()
		time.Sleep(2 * time.Minute) // PagerDuty's limit, which a bot that ended may have used up
		w.start(t)
		time.Sleep(10 * time.Minute)
		if sums := w.summaries(); len(sums) != 1 || sums[0].Status != "resolved" || sums[0].Triggers != 1 {
			t.Errorf("summaries %+v, want the first one, triggered once and resolved", sums)
		}
		paged := map[string]bool{}
		for _, in := range w.account.Incidents() {
			if paged[in.Key] = true; in.Triggers != 1 {
				t.Errorf("%s was triggered %d times", in.Key, in.Triggers)
			}
		}
		if n := len(paged) - 1; n != incidents {
			t.Errorf("%d incidents were paged, want %d", n, incidents)
		}
	})
}
