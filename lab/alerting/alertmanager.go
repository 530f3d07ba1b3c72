package alerting

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/alertmanager/template"
)

// An AlertmanagerConfig describes a route: how alerts are grouped, how long a group waits, and
// where it is sent.
type AlertmanagerConfig struct {
	URL            string        // of the webhook receiver
	Bearer         string        // sent as a bearer token if not empty
	Receiver       string        // default "paramedic"
	ExternalURL    string        // default "http://alertmanager:9093"
	GroupBy        []string      // default alertname, cluster, namespace
	GroupWait      time.Duration // default 5 s
	GroupInterval  time.Duration // default 30 s
	RepeatInterval time.Duration // default 4 h
	Inhibit        []Inhibition
	Client         *http.Client // default: one with a timeout of 10 s
}

// An Alertmanager groups alerts and notifies a webhook as the real one does. A new group waits for
// GroupWait, a changed one for GroupInterval, and an unchanged one for RepeatInterval. It retries
// after a 5xx answer or none, and after no other. Callers pass the time.
type Alertmanager struct {
	cfg    AlertmanagerConfig
	groups map[string]*alertGroup
}

type alertGroup struct {
	key    string
	labels map[string]string
	alerts map[string]Alert // by fingerprint
	due    time.Time
	sent   string // the last state that was sent: each alert's fingerprint, status and start
	sentAt time.Time
	fails  int
}

// A Webhook is the body of Alertmanager's POST, payload version 4: the data of its templates in an
// envelope. The envelope is our own: the package of Alertmanager's webhook.Message would add its
// clients of Kafka, of its cluster and of tracing.
type Webhook struct {
	WebhookData
	Version         string `json:"version"`
	GroupKey        string `json:"groupKey"`
	TruncatedAlerts uint64 `json:"truncatedAlerts"`
}

// The parts of a Webhook are Alertmanager's own types.
type (
	// WebhookData is a group's data.
	WebhookData = template.Data
	// A WebhookAlert is one alert of a Webhook.
	WebhookAlert = template.Alert
)

// A Notification is a webhook that is due for a group.
type Notification struct {
	Webhook Webhook
	group   *alertGroup
	state   string
	ended   []string
}

// NewAlertmanager returns an Alertmanager without alerts.
func NewAlertmanager(c AlertmanagerConfig) *Alertmanager {
	c.Receiver = cmp.Or(c.Receiver, "paramedic")
	c.ExternalURL = cmp.Or(c.ExternalURL, "http://alertmanager:9093")
	if c.GroupBy == nil {
		c.GroupBy = []string{"alertname", "cluster", "namespace"}
	}
	c.GroupWait = cmp.Or(c.GroupWait, 5*time.Second)
	c.GroupInterval = cmp.Or(c.GroupInterval, 30*time.Second)
	c.RepeatInterval = cmp.Or(c.RepeatInterval, 4*time.Hour)
	if c.Client == nil {
		c.Client = &http.Client{Timeout: 10 * time.Second}
	}
	return &Alertmanager{cfg: c, groups: map[string]*alertGroup{}}
}

// An Inhibition mutes the alerts named Target while one named Source fires with equal values of the
// labels in Equal.
type Inhibition struct {
	Source, Target string
	Equal          []string
}

func (i Inhibition) mutes(a Alert, all []Alert) bool {
	return a.Labels["alertname"] == i.Target && slices.ContainsFunc(all, func(s Alert) bool {
		return s.Labels["alertname"] == i.Source && s.EndsAt.IsZero() &&
			labelKey(pick(s.Labels, i.Equal)) == labelKey(pick(a.Labels, i.Equal))
	})
}

// Receive takes the alerts of all Rulers at one moment.
func (m *Alertmanager) Receive(now time.Time, alerts []Alert) {
	for _, a := range alerts {
		labels := pick(a.Labels, m.cfg.GroupBy)
		key := groupKey(labels)
		g := m.groups[key]
		if slices.ContainsFunc(m.cfg.Inhibit, func(i Inhibition) bool { return i.mutes(a, alerts) }) {
			if g != nil {
				delete(g.alerts, a.Fingerprint())
			}
			continue
		}
		if g == nil {
			if !a.EndsAt.IsZero() {
				continue // resolved before it was first received
			}
			g = &alertGroup{key: key, labels: labels, alerts: map[string]Alert{}, due: now.Add(m.cfg.GroupWait)}
			m.groups[key] = g
		}
		g.alerts[a.Fingerprint()] = a
	}
}

func groupKey(labels map[string]string) string {
	pairs := make([]string, 0, len(labels))
	for _, k := range sortedKeys(labels) {
		pairs = append(pairs, fmt.Sprintf("%s=%q", k, labels[k]))
	}
	return "{}:{" + strings.Join(pairs, ", ") + "}"
}

// Due lists the notifications that are due at now.
func (m *Alertmanager) Due(now time.Time) []Notification {
	var out []Notification
	for _, key := range sortedKeys(m.groups) {
		g := m.groups[key]
		if now.Before(g.due) {
			continue
		}
		g.due = now.Add(m.cfg.GroupInterval)
		n := m.notification(g)
		if n.state == g.sent && now.Sub(g.sentAt) < m.cfg.RepeatInterval {
			continue
		}
		out = append(out, n)
	}
	return out
}

func (m *Alertmanager) notification(g *alertGroup) Notification {
	w := Webhook{Version: "4", GroupKey: g.key, WebhookData: WebhookData{
		Receiver: m.cfg.Receiver, Status: "resolved", GroupLabels: g.labels, ExternalURL: m.cfg.ExternalURL,
		CommonLabels: template.KV{}, CommonAnnotations: template.KV{}, RouteLabels: template.KV{},
	}}
	n := Notification{group: g}
	for i, print := range sortedKeys(g.alerts) {
		a := g.alerts[print]
		status := "firing"
		if !a.EndsAt.IsZero() {
			status = "resolved"
			n.ended = append(n.ended, print)
		} else {
			w.Status = "firing"
		}
		n.state += print + status + a.StartsAt.String()
		w.Alerts = append(w.Alerts, WebhookAlert{
			Status: status, Labels: a.Labels, Annotations: a.Annotations, StartsAt: a.StartsAt, EndsAt: a.EndsAt,
			GeneratorURL: a.GeneratorURL, Fingerprint: print,
		})
		w.CommonLabels = common(w.CommonLabels, a.Labels, i == 0)
		w.CommonAnnotations = common(w.CommonAnnotations, a.Annotations, i == 0)
	}
	n.Webhook = w
	return n
}

func common(have, add map[string]string, first bool) map[string]string {
	out := map[string]string{}
	for k, v := range add {
		if have[k] == v || first {
			out[k] = v
		}
	}
	return out
}

// Sent records that the receiver accepted a notification or refused it for good. Deliver calls it.
func (m *Alertmanager) Sent(n Notification, now time.Time) {
	g := n.group
	g.sent, g.sentAt, g.fails = n.state, now, 0
	for _, print := range n.ended {
		if !g.alerts[print].EndsAt.IsZero() {
			delete(g.alerts, print)
		}
	}
	if len(g.alerts) == 0 {
		delete(m.groups, g.key)
		return
	}
	g.sent = m.notification(g).state
}

// Deliver posts the notifications that are due at now, each once. One that failed with a 5xx answer
// or none is due again after a growing pause; any other answer ends it. Deliver joins all errors.
func (m *Alertmanager) Deliver(ctx context.Context, now time.Time) error {
	var failed []string
	for _, n := range m.Due(now) {
		again, err := m.post(ctx, n.Webhook)
		if again {
			n.group.fails++
			n.group.due = now.Add(min(time.Minute, time.Second<<min(n.group.fails, 6)))
		} else {
			m.Sent(n, now)
		}
		if err != nil {
			failed = append(failed, err.Error())
		}
	}
	if failed == nil {
		return nil
	}
	slices.Sort(failed)
	return fmt.Errorf("notifying: %s", strings.Join(slices.Compact(failed), "; "))
}

func (m *Alertmanager) post(ctx context.Context, w Webhook) (again bool, err error) {
	body, err := json.Marshal(w)
	if err != nil {
		return false, fmt.Errorf("encoding the webhook: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return false, fmt.Errorf("making the request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "Alertmanager/0.34.2")
	if m.cfg.Bearer != "" {
		req.Header.Set("Authorization", "Bearer "+m.cfg.Bearer)
	}
	res, err := m.cfg.Client.Do(req)
	if err != nil {
		return true, fmt.Errorf("posting the webhook: %w", err)
	}
	defer res.Body.Close()
	io.Copy(io.Discard, io.LimitReader(res.Body, 1<<16))
	if res.StatusCode/100 == 2 {
		return false, nil
	}
	return res.StatusCode/100 == 5, fmt.Errorf("the receiver answered %s", res.Status)
}
