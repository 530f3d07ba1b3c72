package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"paramedic/e2e/bot"
	"paramedic/lab/alerting"
	"paramedic/webhook/api"
)

// TestKilledBotLosesNoAcceptedAlert kills the bot at random moments of a storm, also while it
// starts. Every alert that was answered with 200 must be in its incident, and each incident must
// have one Slack message and one page.
func TestKilledBotLosesNoAcceptedAlert(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			killed(t, seed)
		})
	}
}

func killed(t *testing.T, seed uint64) {
	random := newRandom(seed)
	chats, b := newChats(t), bot.New(t)
	configure(b, chats, map[string]any{"triage": map[string]any{"settle": "200ms", "resolve_hold": "500ms"}})
	b.Launch()

	storms := newStorms(random, time.Now().UTC())
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var senders sync.WaitGroup
	failed := make(chan error, len(storms))
	for _, s := range storms {
		senders.Go(func() {
			failed <- errors.Join(s.send(ctx, b.URL(), s.firing), chats.waitFor(ctx, len(storms)), s.send(ctx, b.URL(), s.ends))
		})
	}
	for range 2 + random.IntN(2) {
		// Any moment between the first instruction of a start and the last message of the storm.
		<-time.After(time.Duration(random.IntN(1500)) * time.Millisecond)
		b.Kill()
		b.Launch()
	}
	senders.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			t.Fatal(err)
		}
	}

	var list []api.IncidentJSON
	bot.Eventually(t, 30*time.Second, "every incident is resolved and notified once", func() error {
		var err error
		if list, err = b.Incidents(); err != nil {
			return err
		}
		for _, in := range list {
			if in.Status != "resolved" || in.ActiveAlerts != 0 {
				return fmt.Errorf("%s is %s with %d active alerts", in.ID, in.Status, in.ActiveAlerts)
			}
		}
		return chats.notified(list, "resolved")
	})
	if len(list) != len(storms) {
		t.Errorf("%d incidents of %d pools", len(list), len(storms))
	}
	for _, s := range storms {
		for _, in := range list {
			if in.Scope.Pool == s.pool && in.AlertCount != s.alerts {
				t.Errorf("%d alerts of %s were answered with 200, its incident has %d", s.alerts, s.pool, in.AlertCount)
			}
		}
	}
	chats.clean(t)
}

// A storm holds Alertmanager's payloads for one pool, in order: groups that grow while they fire,
// then their end. Pools are unrelated, so the alerts of each make one incident.
type storm struct {
	pool         string
	alerts       int
	firing, ends []alerting.Webhook
	random       *rand.Rand
}

func newStorms(random *rand.Rand, now time.Time) []*storm {
	var out []*storm
	for i, letter := range []string{"a", "b", "c"} {
		s := &storm{pool: "vllm-" + letter, random: rand.New(rand.NewPCG(random.Uint64(), 2))}
		for _, rule := range []struct{ name, severity string }{{"VLLMKVCacheExhaustion", "critical"},
			{"VLLMRequestQueueBackup", "warning"}} {
			var group []alerting.WebhookAlert
			for n := range 2 + random.IntN(4) {
				labels := map[string]string{"alertname": rule.name, "severity": rule.severity, "cluster": "default",
					"namespace":  "team-" + letter,
					"model_name": "model-" + letter, "pod": fmt.Sprintf("%s-7d9f8b6c5-%c%dxk%c", s.pool, "bcdfg"[i], n+2, "hjklm"[n])}
				group = append(group, alert(labels, now.Add(-time.Minute), time.Time{}))
				if n == 0 || random.IntN(2) == 0 {
					s.firing = append(s.firing, payload("firing", group))
				}
			}
			s.firing = append(s.firing, payload("firing", group)) // a repeat changes nothing
			s.alerts += len(group)
			ended := make([]alerting.WebhookAlert, len(group))
			for j, a := range group {
				ended[j] = alert(a.Labels, a.StartsAt, now)
			}
			s.ends = append(s.ends, payload("resolved", ended))
		}
		out = append(out, s)
	}
	return out
}

func alert(labels map[string]string, starts, ends time.Time) alerting.WebhookAlert {
	a := alerting.WebhookAlert{Status: "firing", Labels: labels, Annotations: map[string]string{"summary": "sent by a storm"},
		StartsAt: starts, EndsAt: ends,
		Fingerprint: alerting.Alert{Labels: labels}.Fingerprint()}
	if !ends.IsZero() {
		a.Status = "resolved"
	}
	return a
}

func payload(status string, alerts []alerting.WebhookAlert) alerting.Webhook {
	name := alerts[0].Labels["alertname"]
	data := alerting.WebhookData{Receiver: "paramedic", Status: status, Alerts: alerts, GroupLabels: map[string]string{"alertname": name},
		CommonLabels: map[string]string{"alertname": name}, CommonAnnotations: map[string]string{}, ExternalURL: "http://alertmanager:9093"}
	return alerting.Webhook{WebhookData: data, Version: "4", GroupKey: fmt.Sprintf("{}:{alertname=%q, pod=%q}", name, alerts[0].Labels["pod"])}
}

// waitFor waits until Slack and PagerDuty have n incidents. An incident that resolves before its
// first notification is rightly not notified.
func (c chats) waitFor(ctx context.Context, n int) error {
	beat := time.NewTicker(20 * time.Millisecond)
	defer beat.Stop()
	for len(c.slack.Messages()) < n || len(c.pager.Incidents()) < n {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d Slack messages and %d PagerDuty incidents of %d incidents", len(c.slack.Messages()),
				len(c.pager.Incidents()), n)
		case <-beat.C:
		}
	}
	return nil
}

// send posts the payloads as Alertmanager does, and retries after a 5xx answer or none. It sends
// some twice at once, as two Alertmanagers do that lost their connection to each other.
func (s *storm) send(ctx context.Context, url string, payloads []alerting.Webhook) error {
	for _, p := range payloads {
		raw, err := json.Marshal(p)
		if err != nil {
			return err
		}
		peers := 1 + s.random.IntN(2)
		answers := make(chan error, peers)
		for range peers {
			go func() { answers <- post(ctx, url, string(raw)) }()
		}
		for range peers {
			if e := <-answers; e != nil {
				err = e
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func post(ctx context.Context, url, body string) error {
	for {
		status, err := attempt(ctx, url, body)
		switch {
		case err != nil: // retried below
		case status == http.StatusOK:
			return nil
		case status/100 != 5:
			return fmt.Errorf("an alert was answered with %d, which Alertmanager does not send again", status)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer in time: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond): // Alertmanager's pause is longer
		}
	}
}

func attempt(ctx context.Context, url, body string) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/webhook/alertmanager", strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+intakeToken)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// newRandom returns a source for a seed.
func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }
