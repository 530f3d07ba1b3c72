package pipeline

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"paramedic/e2e/bot"
	"paramedic/notify/pagerduty/pagerdutytest"
	"paramedic/notify/slack/slacktest"
	"paramedic/state/jetstream/natstest"
)

// TestReplicasOutliveEveryFault runs three bots on a cluster of three NATS processes while faults
// happen to both, in an order that a seed draws: kill -9, SIGTERM and SIGSTOP of bots, kill -9 of
// NATS servers, and a network between a bot and NATS that is cut or drops everything. Each incident
// must be paged once, and each critical one must have one message. E2E_FAULT_SEEDS is the number of
// orders, E2E_FAULT_INCIDENTS the number of incidents in each.
func TestReplicasOutliveEveryFault(t *testing.T) {
	t.Parallel()
	seeds, size := number("E2E_FAULT_SEEDS", 1), number("E2E_FAULT_INCIDENTS", 24)
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			newShaken(t, uint64(seed), size).run()
		})
	}
}

// number returns the number in an environment variable.
func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// criticalOf is the number of incidents of which one is critical, and goes to Slack. Slack takes
// one message a second.
const criticalOf = 2

// A shaken is a team to which faults happen.
type shaken struct {
	team
	servers []*natsServer
	links   map[*bot.Bot][]*natstest.Link
	counts  map[string]int
	sent    int // alerts
}

func newShaken(t *testing.T, seed uint64, size int) *shaken {
	w := &shaken{servers: startNATS(t), links: map[*bot.Bot][]*natstest.Link{}, counts: map[string]int{},
		team: team{t: t, random: newRandom(seed), chats: chats{
			slack: slacktest.New(slacktest.Options{Token: slackToken, Burst: 1}),
			pager: pagerdutytest.New(pagerdutytest.Options{RoutingKey: routingKey, PerMinute: 120})}}}
	t.Cleanup(w.chats.slack.Close)
	t.Cleanup(w.chats.pager.Close)
	var clusters []any
	for i := range size {
		name, severity := fmt.Sprintf("c%d", i), "warning"
		if i%criticalOf == 0 {
			severity = "critical"
		}
		clusters = append(clusters, map[string]any{"name": name})
		w.alerts = append(w.alerts, alert(map[string]string{"alertname": "VLLMKVCacheExhaustion", "severity": severity, "cluster": name,
			"namespace": "team", "model_name": "llama", "pod": "vllm-llama-7d9f8b6c5-b2xkh"}, time.Now().Add(-time.Minute), time.Time{}))
	}
	var urls []string
	for _, s := range w.servers {
		urls = append(urls, s.url)
	}
	for range 3 {
		b := bot.New(t)
		w.links[b] = natstest.Links(t, strings.Join(urls, ","))
		config := configure(b, w.chats, map[string]any{"clusters": clusters,
			"triage": map[string]any{"settle": "200ms", "resolve_hold": "500ms"},
			"state": map[string]any{"dir": filepath.Join(b.Dir(), "data"),
				"nats": map[string]any{"url": natstest.URLs(w.links[b]), "replicas": 3}}})
		config["notify"].(map[string]any)["routes"] = []any{
			map[string]any{"severity": "critical", "channels": []string{"slack", "pagerduty"}},
			map[string]any{"channels": []string{"pagerduty"}}}
		b.Configure(config)
		w.bots = append(w.bots, b)
		b.Launch()
	}
	return w
}

// faultEvery is the number of alerts that arrive around a fault.
const faultEvery = 10

// run sends the alerts in groups, and lets a fault happen in the middle of each. Every kind of
// fault happens before one happens again.
func (w *shaken) run() {
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute+time.Duration(len(w.alerts))*4*time.Second)
	defer cancel()
	began := time.Now()
	groups := max(len(w.alerts)/faultEvery, len(w.faults()))
	var order []int
	for i := range groups {
		if len(order) == 0 {
			order = w.random.Perm(len(w.faults()))
		}
		end := len(w.alerts) * (i + 1) / groups
		w.sendUpTo(ctx, end-1)
		f := w.faults()[order[0]]
		order = order[1:]
		w.counts[f.name]++
		b := w.bots[w.random.IntN(len(w.bots))]
		if w.random.IntN(2) == 0 {
			b = w.active(nil, time.Minute)
		}
		f.happen(b, func() {
			w.sendUpTo(ctx, end)
			if err := w.awaitPages(ctx, end); err != nil {
				w.t.Fatalf("%v, %d sent, after the faults %v", err, w.sent, w.counts)
			}
		})
	}
	bot.Eventually(w.t, 5*time.Minute, "every incident is notified and every replica shows it", w.complete)
	w.chats.clean(w.t)
	w.t.Logf("%d incidents, the faults %v in %s; %d messages, %d pages; Slack refused %d calls as too many, PagerDuty %d",
		len(w.alerts), w.counts, time.Since(began).Round(time.Second), len(w.chats.slack.Messages()), len(w.chats.pager.Incidents()),
		w.chats.slack.Limited(), w.chats.pager.Limited())
}

// sendUpTo sends the alerts before n that are not sent yet.
func (w *shaken) sendUpTo(ctx context.Context, n int) {
	w.t.Helper()
	for ; w.sent < n; w.sent++ {
		if err := w.send(ctx, w.alerts[w.sent]); err != nil {
			w.t.Fatalf("%v, %d sent, after the faults %v", err, w.sent, w.counts)
		}
	}
}

// A fault happens to a bot or to a server. It calls goOn while it lasts: the bots must take an
// alert and page for every one. Bots and servers are whole again after it.
type fault struct {
	name   string
	happen func(b *bot.Bot, goOn func())
}

func (w *shaken) faults() []fault {
	link := func(breaks func(*natstest.Link)) func(*bot.Bot, func()) {
		return func(b *bot.Bot, goOn func()) {
			each(w.links[b], breaks)
			goOn()
			each(w.links[b], (*natstest.Link).Mend)
		}
	}
	return []fault{
		{"kill -9", func(b *bot.Bot, goOn func()) { b.Kill(); goOn(); b.Launch() }},
		{"SIGTERM", func(b *bot.Bot, goOn func()) { b.Stop(); goOn(); b.Launch() }},
		{"SIGSTOP", func(b *bot.Bot, goOn func()) { b.Signal(syscall.SIGSTOP); goOn(); b.Signal(syscall.SIGCONT) }},
		{"NATS kill -9", func(_ *bot.Bot, goOn func()) {
			s := w.servers[w.random.IntN(len(w.servers))]
			s.kill()
			goOn()
			s.launch()
			s.healthy()
		}},
		{"network cut", link((*natstest.Link).Cut)},
		{"network silent", link((*natstest.Link).Stall)},
	}
}

func each(links []*natstest.Link, do func(*natstest.Link)) {
	for _, l := range links {
		do(l)
	}
}

// awaitPages waits until PagerDuty has n incidents.
func (w *shaken) awaitPages(ctx context.Context, n int) error {
	beat := time.NewTicker(20 * time.Millisecond)
	defer beat.Stop()
	for len(w.chats.pager.Incidents()) < n {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d pages of %d incidents", len(w.chats.pager.Incidents()), n)
		case <-beat.C:
		}
	}
	return nil
}

// complete checks that each replica shows every incident, with one page, and with one message if it
// is critical.
func (w *shaken) complete() error {
	for i, b := range w.bots {
		list, err := b.Incidents()
		if err != nil {
			return err
		}
		if len(list) != len(w.alerts) {
			return fmt.Errorf("replica %d shows %d of %d incidents", i, len(list), len(w.alerts))
		}
		messages, pages := map[string]int{}, map[string]int{}
		for _, m := range w.chats.slack.Messages() {
			messages[between(string(m.Metadata), `"incident":"`, `"`)]++
		}
		for _, p := range w.chats.pager.Incidents() {
			pages[p.Key]++
		}
		if want := (len(w.alerts) + criticalOf - 1) / criticalOf; len(pages) != len(list) || len(messages) != want {
			return fmt.Errorf("%d pages of %d incidents, %d messages of %d", len(pages), len(list), len(messages), want)
		}
		for _, in := range list {
			m, want := messages[string(in.ID)], 0
			if in.Severity == "critical" {
				want = 1
			}
			if m != want {
				err := fmt.Errorf("%s (%s) has %d messages", in.ID, in.Severity, m)
				if m > want {
					err = bot.Final(err)
				}
				return err
			}
		}
		if n := len(w.chats.pager.Incidents()); n > len(list) {
			return bot.Final(fmt.Errorf("%d pages of %d incidents", n, len(list)))
		}
	}
	return nil
}

// between returns the text after a prefix and before an end.
func between(text, prefix, end string) string {
	_, rest, _ := strings.Cut(text, prefix)
	rest, _, _ = strings.Cut(rest, end)
	return rest
}
