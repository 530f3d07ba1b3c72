package alerting

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"paramedic/lab"
)

func TestWorldReportsFaultAndRecovery(t *testing.T) {
	seen := map[string]string{}
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var hook Webhook
		if err := json.NewDecoder(r.Body).Decode(&hook); err != nil {
			t.Error(err)
		}
		seen[hook.GroupLabels["alertname"]] = hook.Status
	}))
	defer srv.Close()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	f, err := lab.NewFleet(lab.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Inject(lab.Fault{Name: lab.EngineHang, At: time.Minute, Worker: 2}); err != nil {
		t.Fatal(err)
	}
	w := NewWorld(AlertmanagerConfig{URL: srv.URL}, f)
	w.Advance(context.Background(), f.Start().Add(8*time.Minute))
	if seen["VLLMEngineHang"] != "firing" {
		t.Fatalf("heard %v", seen)
	}
	p := f.Pods()[2]
	if err := f.Evict(p.Name, p.UID); err != nil {
		t.Fatal(err)
	}
	w.Advance(context.Background(), f.Start().Add(20*time.Minute))
	if seen["VLLMEngineHang"] != "resolved" {
		t.Errorf("after the restart: %v", seen)
	}
}
