package pipeline

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"paramedic/e2e/bot"
	"paramedic/lab/alerting"
	"paramedic/state/jetstream/natstest"
)

// TestTakeoverOfManyIncidents kills the active one of three bots that have many open incidents of
// one cluster. Another one must triage within ten seconds.
// E2E_TAKEOVER_INCIDENTS is the number of incidents.
func TestTakeoverOfManyIncidents(t *testing.T) {
	t.Parallel()
	count, err := strconv.Atoi(os.Getenv("E2E_TAKEOVER_INCIDENTS"))
	if err != nil {
		count = 200
	}
	w := &team{t: t}
	urls := natstest.StartCluster(t)
	for range 3 {
		b := bot.New(t)
		b.Configure(map[string]any{
			"auth":   map[string]any{"alertmanager": map[string]any{"bearer_token_file": b.Secret("intake", intakeToken)}},
			"notify": map[string]any{"console": false},
			"state":  map[string]any{"dir": filepath.Join(b.Dir(), "data"), "nats": map[string]any{"url": urls, "replicas": 3}}})
		w.bots = append(w.bots, b)
		b.Start()
	}
	sendMany(t, w.bots[0], 0, count)
	for _, b := range w.bots {
		bot.Eventually(t, 2*time.Minute, "a replica shows every incident", func() error { return showsOpen(b, count) })
	}
	was := w.active(nil, 30*time.Second)
	began := time.Now()
	was.Kill()
	now := w.active(was, 10*time.Second)
	lease := time.Since(began)
	sendMany(t, now, count, count+1)
	bot.Eventually(t, 30*time.Second, "the new one opens another incident", func() error { return showsOpen(now, count+1) })
	took := time.Since(began)
	t.Logf("%d incidents: another bot had the lease after %s, and opened an incident after %s", count, lease, took)
	if took > 10*time.Second {
		t.Errorf("the takeover took %s, and 10 s is the bound", took)
	}
	if strings.Contains(now.Output(), "is not that of the last commit") {
		t.Error("the copy of the follower was not used")
	}
}

// sendMany sends the bot alerts of as many pools.
func sendMany(t *testing.T, to *bot.Bot, from, count int) {
	t.Helper()
	const perPayload = 100
	for first := from; first < count; first += perPayload {
		var alerts []alerting.WebhookAlert
		for i := first; i < min(first+perPayload, count); i++ {
			alerts = append(alerts, alert(map[string]string{"alertname": "VLLMKVCacheExhaustion", "severity": "warning",
				"namespace": fmt.Sprintf("team%d", i), "model_name": fmt.Sprintf("m%d", i), "pod": fmt.Sprintf("vllm-m%d-7d9f8b6c5-b2xkh", i)},
				time.Now().Add(-time.Minute), time.Time{}))
		}
		raw, err := json.Marshal(payload("firing", alerts))
		if err != nil {
			t.Fatal(err)
		}
		bot.Eventually(t, time.Minute, "the alerts are accepted", func() error {
			status, err := attempt(t.Context(), to.URL(), string(raw))
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("answered with %d", status)
			}
			return err
		})
	}
}

// showsOpen reports whether the bot's metrics count this many open incidents.
func showsOpen(b *bot.Bot, count int) error {
	_, metrics, err := b.Do(http.MethodGet, "/metrics", nil, nil)
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(metrics, `paramedic_incidents{status="open"} `)
	open, _, _ := strings.Cut(rest, "\n")
	if n, err := strconv.ParseFloat(open, 64); err != nil || int(n) != count {
		return fmt.Errorf("it shows %q of %d open incidents", open, count)
	}
	return nil
}
