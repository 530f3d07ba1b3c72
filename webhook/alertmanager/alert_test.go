package alertmanager

import "testing"

func TestFingerprintEqualsAlertmanagers(t *testing.T) {
	labels := map[string]string{
		"alertname": "HighErrorRate", "cluster": "demo", "instance": "127.0.0.1:19100", "job": "fake", "replica": "r1", "service": "a",
		"severity": "critical", "team": "payments",
	}
	if got := fingerprint(labels); got != "9ea79507655ba9b9" {
		t.Errorf("fingerprint = %s", got)
	}
}
