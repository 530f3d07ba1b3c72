package alerting

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestFingerprintsMatchAlertmanager(t *testing.T) {
	body, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "data", "alertmanager", "am-0.34.2-firing-grouped4.json"))
	if err != nil {
		t.Skip("the recorded webhook is not here:", err)
	}
	var w Webhook
	if err := json.Unmarshal(body, &w); err != nil {
		t.Fatal(err)
	}
	for _, a := range w.Alerts {
		if got := (Alert{Labels: a.Labels}).Fingerprint(); got != a.Fingerprint {
			t.Errorf("fingerprint %s, Alertmanager's is %s", got, a.Fingerprint)
		}
	}
}

func TestWebhookIsRetriedOnlyAfterServerErrors(t *testing.T) {
	var got []Webhook
	status := http.StatusServiceUnavailable
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var hook Webhook
		if err := json.NewDecoder(r.Body).Decode(&hook); err != nil {
			t.Error(err)
		}
		got = append(got, hook)
		w.WriteHeader(status)
	}))
	defer srv.Close()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	m := NewAlertmanager(AlertmanagerConfig{URL: srv.URL})
	start := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	a := Alert{Labels: map[string]string{"alertname": "X", "cluster": "default", "namespace": "llm", "pod": "a"}, StartsAt: start}
	deliver := func(after time.Duration, alerts ...Alert) error {
		m.Receive(start.Add(after), alerts)
		return m.Deliver(context.Background(), start.Add(after))
	}
	if err := deliver(0, a); err != nil || len(got) != 0 {
		t.Fatalf("sent before group_wait: %v %v", got, err)
	}
	if err := deliver(6*time.Second, a); err == nil || len(got) != 1 {
		t.Fatalf("a 503 is no success: %v, %d posts", err, len(got))
	}
	status = http.StatusOK
	if err := deliver(10*time.Second, a); err != nil || len(got) != 2 {
		t.Fatalf("not tried again: %v, %d posts", err, len(got))
	}
	if w := got[1]; w.GroupKey != `{}:{alertname="X", cluster="default", namespace="llm"}` || w.Version != "4" || w.Status != "firing" {
		t.Errorf("%+v", w)
	}
	if err := deliver(60*time.Second, a); err != nil || len(got) != 2 {
		t.Errorf("an unchanged group was sent again: %v, %d posts", err, len(got))
	}
	a.EndsAt = start.Add(70 * time.Second)
	if err := deliver(100*time.Second, a); err != nil || len(got) != 3 || got[2].Status != "resolved" {
		t.Fatalf("the resolution was not sent: %v, %d posts", err, len(got))
	}
	if len(m.groups) != 0 {
		t.Error("a resolved group is kept")
	}
	status = http.StatusBadRequest
	a.EndsAt = time.Time{}
	deliver(200*time.Second, a)
	if err := deliver(210*time.Second, a); err == nil || len(got) != 4 {
		t.Fatalf("a 400 is no success: %v, %d posts", err, len(got))
	}
	if err := deliver(300*time.Second, a); err != nil || len(got) != 4 {
		t.Errorf("a 400 was tried again: %v, %d posts", err, len(got))
	}
}
