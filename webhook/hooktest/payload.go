// Package hooktest tests the server from outside: a log and a view in memory, and requests as their
// senders make them.
package hooktest

import (
	"fmt"
	"strings"
)

// Payload returns a payload of Alertmanager; each alert is its JSON.
func Payload(alerts ...string) string {
	return `{"version":"4","receiver":"paramedic","groupKey":"{}:{}","externalURL":"http://am-1:9093",` +
		`"truncatedAlerts":0,"alerts":[` + strings.Join(alerts, ",") + `]}`
}

// Alert returns the JSON of a firing alert of a cluster, with the number n in its labels.
func Alert(cluster string, n int) string {
	return fmt.Sprintf(`{"status":"firing","labels":{"alertname":"HighKV","cluster":%q,"pod":"vllm-%d"},`+
		`"annotations":{"summary":"full"},"startsAt":"2026-11-21T02:59:00Z","endsAt":"0001-01-01T00:00:00Z",`+
		`"generatorURL":"http://prom/graph?g0.expr=up","fingerprint":"%016x"}`, cluster, n, n)
}

// Alerts returns the JSON of n alerts of a cluster.
func Alerts(cluster string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = Alert(cluster, i)
	}
	return out
}
