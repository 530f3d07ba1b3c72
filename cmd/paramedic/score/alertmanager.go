package score

import (
	"slices"
	"strings"
	"time"

	"paramedic/lab/alerting"
	"paramedic/lab/engine"
)

// alertmanagerCount counts the notifications of an Alertmanager without the bot.
type alertmanagerCount struct {
	Notifications int `json:"notifications"` // to chat and pager; what is told again because it changed or went on counts again
	Pages         int `json:"pages"`         // incidents at the pager: a group of critical alerts that begins to fire
}

// A plainAlertmanager is configured as usual: it groups by alertname and namespace, with its
// default times. Critical alerts page, warnings are posted, info is only logged. A full KV cache
// mutes the queue alert, see [inhibitions]. It receives the same alerts as the bot.
type plainAlertmanager struct {
	manager *alerting.Alertmanager
	open    map[string]bool // pager incidents by group key
	count   alertmanagerCount
}

// inhibitions returns the one inhibition that guides recommend: "if the critical KV cache alert is
// firing, suppress the request queue backup alert". It uses the alert names of an engine. Labels
// are equal if both alerts have them: Dynamo's frontend writes the model in another label and case.
func inhibitions(k engine.Kind) []alerting.Inhibition {
	model := []string{"namespace", "model_name"}
	switch k {
	case engine.SGLang:
		return []alerting.Inhibition{{Source: "SGLangTokenUsageHigh", Target: "SGLangQueueBuildup", Equal: model}}
	case engine.TRTLLM:
		return []alerting.Inhibition{{Source: "TRTLLMKVCachePressure", Target: "TRTLLMQueueBuildup", Equal: model}}
	}
	vllm := alerting.Inhibition{Source: "VLLMKVCacheExhaustion", Target: "VLLMRequestQueueBackup", Equal: model}
	if k == engine.Dynamo {
		return []alerting.Inhibition{vllm, {Source: "VLLMKVCacheExhaustion", Target: "DynamoQueueBuildup",
			Equal: []string{"namespace"}}}
	}
	return []alerting.Inhibition{vllm}
}

func newPlainAlertmanager(k engine.Kind) *plainAlertmanager {
	return &plainAlertmanager{open: map[string]bool{}, manager: alerting.NewAlertmanager(alerting.AlertmanagerConfig{
		GroupBy: []string{"alertname",
			"namespace"}, GroupWait: 30 * time.Second, GroupInterval: 5 * time.Minute, RepeatInterval: 4 * time.Hour,
		Inhibit: inhibitions(k),
	})}
}

func (l *plainAlertmanager) receive(now time.Time, alerts []alerting.Alert) {
	l.manager.Receive(now, slices.Clone(alerts))
	for _, n := range l.manager.Due(now) {
		key, severity := n.Webhook.GroupKey, n.Webhook.CommonLabels["severity"]
		firing := n.Webhook.Status == "firing"
		switch {
		case len(n.Webhook.Alerts) == 0 || strings.EqualFold(severity, "info"):
		case firing:
			l.count.Notifications++
			if severity == "critical" && !l.open[key] {
				l.open[key] = true
				l.count.Pages++
			}
		default:
			delete(l.open, key)
		}
		l.manager.Sent(n, now)
	}
}
