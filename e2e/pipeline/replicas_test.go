package pipeline

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"paramedic/e2e/bot"
	"paramedic/lab/alerting"
	"paramedic/state/jetstream/natstest"
	"paramedic/webhook/api"
)

// TestReplicasActAsOne runs three bots on three NATS servers. In the middle of a storm the active
// bot is killed, ended and stopped until another one has taken over, in a random order. Each
// incident must have one Slack message and one page. E2E_REPLICA_SEEDS is the number of orders.
func TestReplicasActAsOne(t *testing.T) {
	t.Parallel()
	seeds, err := strconv.ParseUint(os.Getenv("E2E_REPLICA_SEEDS"), 10, 64)
	if err != nil {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			takeOver(t, seed)
		})
	}
}

// fleetSize incidents keep the bots busy, because Slack takes one message a second.
const fleetSize = 12

// A team holds the replicas, what they notify, and the alerts of the storm.
type team struct {
	t      *testing.T
	random *rand.Rand
	chats  chats
	bots   []*bot.Bot
	alerts []alerting.WebhookAlert // each makes an incident
}

func takeOver(t *testing.T, seed uint64) {
	w := newTeam(t, seed)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	sent := make(chan error, 1)
	go func() { sent <- w.storm(ctx) }()
	faults := []func(*bot.Bot){w.kill, w.end, w.pause}
	w.random.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	for i, fault := range faults {
		if err := w.chats.waitFor(ctx, (i+1)*fleetSize/5); err != nil {
			t.Fatal(err)
		}
		fault(w.active(nil, 30*time.Second))
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	w.agree("triggered")
	for _, a := range w.alerts {
		if err := w.send(ctx, alert(a.Labels, a.StartsAt, time.Now())); err != nil {
			t.Fatal(err)
		}
	}
	w.agree("resolved")
	w.chats.clean(t)
}

func newTeam(t *testing.T, seed uint64) *team {
	w := &team{t: t, random: newRandom(seed), chats: newChats(t)}
	var clusters []any
	for i := range fleetSize {
		name := fmt.Sprintf("c%d", i)
		clusters = append(clusters, map[string]any{"name": name})
		w.alerts = append(w.alerts, alert(map[string]string{"alertname": "VLLMKVCacheExhaustion", "severity": "critical", "cluster": name,
			"namespace": "team", "model_name": "llama", "pod": "vllm-llama-7d9f8b6c5-b2xkh"}, time.Now().Add(-time.Minute), time.Time{}))
	}
	urls := natstest.StartCluster(t)
	for range 3 {
		b := bot.New(t)
		configure(b, w.chats, map[string]any{"clusters": clusters,
			"triage": map[string]any{"settle": "200ms", "resolve_hold": "500ms"},
			"state":  map[string]any{"dir": filepath.Join(b.Dir(), "data"), "nats": map[string]any{"url": urls, "replicas": 3}}})
		w.bots = append(w.bots, b)
		b.Start()
	}
	return w
}

// storm sends the alerts as the channels take their incidents, so that there is work at each fault.
func (w *team) storm(ctx context.Context) error {
	for i, a := range w.alerts {
		if err := w.chats.waitFor(ctx, i-fleetSize/5); err != nil {
			return err
		}
		if err := w.send(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// send posts an alert to one replica after the other until one accepts it.
func (w *team) send(ctx context.Context, a alerting.WebhookAlert) error {
	raw, err := json.Marshal(payload(a.Status, []alerting.WebhookAlert{a}))
	if err != nil {
		return err
	}
	for i := w.random.IntN(len(w.bots)); ctx.Err() == nil; i++ {
		short, cancel := context.WithTimeout(ctx, time.Second)
		status, err := attempt(short, w.bots[i%len(w.bots)].URL(), string(raw))
		cancel()
		switch {
		case err == nil && status == http.StatusOK:
			return nil
		case err == nil && status/100 != 5:
			return fmt.Errorf("an alert was answered with %d", status)
		}
	}
	return ctx.Err()
}

// active returns the replica that delivers, and not the one that does not any more.
func (w *team) active(not *bot.Bot, limit time.Duration) (found *bot.Bot) {
	w.t.Helper()
	bot.Eventually(w.t, limit, "a replica is active", func() error {
		for _, b := range w.bots {
			if b == not {
				continue
			}
			if _, metrics, err := b.Do(http.MethodGet, "/metrics", nil, nil); err == nil && strings.Contains(metrics, "\nparamedic_active 1\n") {
				found = b
				return nil
			}
		}
		return errors.New("none is")
	})
	return found
}

func (w *team) kill(b *bot.Bot) {
	began := time.Now()
	b.Kill()
	w.active(b, 10*time.Second)
	w.t.Logf("active %s after SIGKILL", time.Since(began))
	b.Launch()
}

func (w *team) end(b *bot.Bot) { w.handOver(b) }

// handOver ends the bot while a request is in flight, so that its listener stays open. Another
// replica must be active before the process has ended. It returns the time until then.
func (w *team) handOver(b *bot.Bot) time.Duration {
	w.t.Helper()
	slow := halfRequest(w.t, b)
	began := time.Now()
	b.Signal(syscall.SIGTERM)
	w.active(b, 10*time.Second)
	took := time.Since(began)
	b.Signal(syscall.Signal(0)) // fails if the process has ended
	slow.Close()
	code := b.Wait(30 * time.Second)
	w.t.Logf("active %s after SIGTERM, the bot ended in %s", took, time.Since(began))
	if code != 0 {
		w.t.Errorf("the bot ended with code %d", code)
	}
	b.Launch()
	return took
}

// halfRequest begins a request and returns its connection. The bot has read the headers.
func halfRequest(t *testing.T, b *bot.Bot) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := fmt.Fprintf(conn, "POST /webhook/alertmanager HTTP/1.1\r\nHost: bot\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n", intakeToken); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n') // 100 Continue: the handler reads the body
	if err != nil || !strings.Contains(line, "100") {
		t.Fatalf("the bot answers %q, %v", line, err)
	}
	if _, err := conn.Write([]byte("{")); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestEndingBotHandsOver ends the active bot again and again in a storm. Each incident must have
// one Slack message and one page. E2E_HANDOVERS is the number of ends.
func TestEndingBotHandsOver(t *testing.T) {
	t.Parallel()
	ends, err := strconv.Atoi(os.Getenv("E2E_HANDOVERS"))
	if err != nil {
		ends = 2
	}
	w := newTeam(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	sent := make(chan error, 1)
	go func() { sent <- w.storm(ctx) }()
	var took []time.Duration
	for i := range ends {
		if err := w.chats.waitFor(ctx, min(fleetSize, 1+i*fleetSize/ends)); err != nil {
			t.Fatal(err)
		}
		took = append(took, w.handOver(w.active(nil, 30*time.Second)))
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	w.agree("triggered")
	w.chats.clean(t)
	slices.Sort(took)
	t.Logf("after %d SIGTERMs another bot was active within %s (median), %s (worst)", ends, took[ends/2], took[ends-1])
}

// pause stops the bot until another one delivers.
func (w *team) pause(b *bot.Bot) {
	began := time.Now()
	b.Signal(syscall.SIGSTOP)
	w.active(b, 10*time.Second)
	w.t.Logf("active %s after SIGSTOP", time.Since(began))
	if err := w.chats.waitFor(w.t.Context(), len(w.chats.slack.Messages())+2); err != nil {
		w.t.Error(err)
	}
	b.Signal(syscall.SIGCONT)
}

// agree waits until each replica shows every incident, and each incident was notified once.
func (w *team) agree(status string) {
	w.t.Helper()
	bot.Eventually(w.t, time.Minute, "the replicas agree on every incident", func() error {
		var first []api.IncidentJSON
		for _, b := range w.bots {
			list, err := b.Incidents()
			if err != nil {
				return err
			}
			if len(list) != fleetSize {
				return fmt.Errorf("a replica shows %d of %d incidents", len(list), fleetSize)
			}
			if first == nil {
				first = list
			}
			for i, in := range list {
				if in.ID != first[i].ID || (in.Status == "resolved") != (status == "resolved") {
					return fmt.Errorf("%s is %s, elsewhere %s is %s", in.ID, in.Status, first[i].ID, first[i].Status)
				}
			}
		}
		return w.chats.notified(first, status)
	})
}
