package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/model"

	"paramedic/state"
	"paramedic/webhook"
	"paramedic/webhook/hooktest"
)

// recorded returns the recorded payloads from shared/data beside the repository.
func recorded(t testing.TB) []string {
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		files, _ := filepath.Glob(filepath.Join(dir, "shared/data/alertmanager/*.json"))
		if len(files) > 0 {
			return files
		}
		dir = filepath.Dir(dir)
	}
	t.Skip("recorded payloads are not at ../shared/data/alertmanager from the repository's root")
	return nil
}

func TestRecordedPayloadsAreAccepted(t *testing.T) {
	for _, file := range recorded(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			body, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			w := hooktest.NewWorld()
			s, _ := hooktest.Serve(t, w, func(c *webhook.Config) { c.Clusters = []string{"default"} })
			hooktest.Expect(t, hooktest.Do(s, "POST", "/webhook/alertmanager", string(body)), 200)
			if len(w.Inputs) != 1 || w.Inputs[0].Cluster != "default" {
				t.Fatalf("inputs: %+v", w.Inputs)
			}
			batch := w.Inputs[0].Alerts
			if strings.Contains(file, "truncated") != (batch.Truncated > 0) {
				t.Errorf("truncated = %d", batch.Truncated)
			}
			for _, a := range batch.Alerts {
				if got := fingerprint(a.Labels); got != a.Fingerprint {
					t.Errorf("our fingerprint %s, Alertmanager's %s", got, a.Fingerprint)
				}
				if a.Labels["cluster"] != "demo" || a.StartsAt.IsZero() || (a.Status == state.Firing) != a.EndsAt.IsZero() {
					t.Errorf("alert lost something: %+v", a)
				}
			}
		})
	}
}

func TestBadPayloadsAreRefusedAndNotKept(t *testing.T) {
	good := hooktest.Alert("prod", 1)
	bad := func(old, new string) string { return hooktest.Payload(good, strings.Replace(good, old, new, 1)) }
	for name, c := range map[string]struct {
		body string
		code int
		says string
	}{
		"empty":                {"", 400, "empty"},
		"not JSON":             {"{", 400, "not an Alertmanager"},
		"more after it":        {hooktest.Payload(good) + "{}", 400, "it has more after"},
		"version 1":            {`{"version":"1","alerts":[` + good + `]}`, 400, `payload version \"4\"`},
		"version as a number":  {`{"version":4,"alerts":[` + good + `]}`, 400, "not supported"},
		"custom payload":       {`{"text":"hello"}`, 400, "custom payload"},
		"a list":               {`[]`, 400, "not an Alertmanager"},
		"no alerts":            {hooktest.Payload(), 400, "no alerts"},
		"invalid UTF-8":        {hooktest.Payload(strings.Replace(good, "vllm", "\xff", 1)), 400, "UTF-8"},
		"alerts of one object": {`{"version":"4","alerts":{}}`, 400, "not an Alertmanager"},
		"receiver is a number": {strings.Replace(hooktest.Payload(good), `"paramedic"`, `5`, 1), 400, "not an Alertmanager"},
		"oversized":            {hooktest.Payload(bad(`full`, strings.Repeat("x", 300<<10))), 413, "larger than 262144 bytes: send less at once: let Alertmanager group_by more labels"},
		"deeply nested":        {strings.Repeat(`{"alerts":[`, 20_000), 400, "not an Alertmanager"},
	} {
		t.Run(name, func(t *testing.T) {
			w := hooktest.NewWorld()
			s, _ := hooktest.Serve(t, w, func(c *webhook.Config) { c.Limits.Body = 256 << 10 })
			hooktest.Expect(t, hooktest.Do(s, "POST", "/webhook/alertmanager", c.body), c.code, c.says)
			if w.Calls != 0 {
				t.Error("something was appended")
			}
		})
	}
}

func TestHostileLabelTextIsKeptUnchanged(t *testing.T) {
	w := hooktest.NewWorld()
	s, _ := hooktest.Serve(t, w, nil)
	evil := "$(rm -rf /) {{ .Secret }} <!channel> <script>alert(1)</script> | `x`"
	quoted, err := json.Marshal(evil)
	if err != nil {
		t.Fatal(err)
	}
	body := hooktest.Payload(strings.Replace(hooktest.Alert("prod", 1), `"vllm-1"`, string(quoted), 1))
	hooktest.Expect(t, hooktest.Do(s, "POST", "/webhook/alertmanager", body), 200)
	if got := w.Inputs[0].Alerts.Alerts[0].Labels["pod"]; got != evil {
		t.Errorf("label = %q", got)
	}
}

func TestUnknownAndMissingFieldsAreAccepted(t *testing.T) {
	w := hooktest.NewWorld()
	s, _ := hooktest.Serve(t, w, nil)
	hooktest.Expect(t, hooktest.Do(s, "POST", "/webhook/alertmanager",
		`{"version":"4","new_field":{"a":[1]},"alerts":[{"status":"firing","labels":{"alertname":"X"},"startsAt":"2026-11-21T02:59:00+01:00","extra":1}]}`,
		"Content-Type", "application/json; charset=utf-8"), 200)
	a := w.Inputs[0].Alerts.Alerts[0]
	if a.Fingerprint != fingerprint(a.Labels) || a.StartsAt.Location() != time.UTC {
		t.Errorf("alert = %+v", a)
	}
}

func TestLongAnnotationsAreCutNotRefused(t *testing.T) {
	w := hooktest.NewWorld()
	s, _ := hooktest.Serve(t, w, nil)
	long := strings.Repeat("é", 100<<10)
	body := hooktest.Payload(strings.Replace(hooktest.Alert("prod", 1), `"summary":"full"`, `"description":"`+long+`","summary":"full"`, 1))
	hooktest.Expect(t, hooktest.Do(s, "POST", "/webhook/alertmanager", body), 200)
	got := w.Inputs[0].Alerts.Alerts[0].Annotations
	if got["summary"] != "full" || len(got["description"]) > 4<<10 || !strings.HasSuffix(got["description"], "é…") {
		t.Errorf("annotations of %d bytes", len(got["description"]))
	}
}

func TestPayloadIsSplitByClusterAndSizeInOneAppend(t *testing.T) {
	w := hooktest.NewWorld()
	observed := 0
	s, _ := hooktest.Serve(t, w, func(c *webhook.Config) {
		c.Observe = func(route string, code int, _ time.Duration, n int) {
			if route != "POST /webhook/alertmanager" || code != 200 {
				t.Errorf("observed %s %d", route, code)
			}
			observed = n
		}
	})
	alerts := append(hooktest.Alerts("prod", 250), hooktest.Alert("elsewhere", 1000), hooktest.Alert("default", 1001))
	hooktest.Expect(t, hooktest.Do(s, "POST", "/webhook/alertmanager", hooktest.Payload(alerts...)), 200, `"accepted":252`)
	if w.Calls != 1 || observed != 252 {
		t.Fatalf("%d appends, %d alerts observed", w.Calls, observed)
	}
	var shape []string
	for _, in := range w.Inputs {
		shape = append(shape, fmt.Sprintf("%s %d", in.Cluster, len(in.Alerts.Alerts)))
		if in.At != hooktest.Start || in.ID == "" {
			t.Errorf("input %+v", in)
		}
	}
	if got := strings.Join(shape, ", "); got != "default 1, elsewhere 1, prod 100, prod 100, prod 50" {
		t.Errorf("parts: %s", got)
	}
}

func TestPayloadAboveAlertLimitIsRefused(t *testing.T) {
	w := hooktest.NewWorld()
	s, _ := hooktest.Serve(t, w, func(c *webhook.Config) { c.Limits.Alerts = 3 })
	hooktest.Expect(t, hooktest.Do(s, "POST", "/webhook/alertmanager", hooktest.Payload(hooktest.Alerts("prod", 4)...)), 413, "the limit is 3")
	if w.Calls != 0 {
		t.Error("something was appended")
	}
}

func TestFailedAppendIs503AndKeepsNothing(t *testing.T) {
	for name, err := range map[string]error{
		"unavailable": fmt.Errorf("disk full: %w", state.ErrUnavailable),
		"deadline":    context.DeadlineExceeded,
		"other":       errors.New("boom secret-detail"),
	} {
		t.Run(name, func(t *testing.T) {
			w := hooktest.NewWorld()
			w.Err = err
			s, _ := hooktest.Serve(t, w, nil)
			got := hooktest.Do(s, "POST", "/webhook/alertmanager", hooktest.Payload(hooktest.Alert("prod", 1)))
			hooktest.Expect(t, got, 503)
			if got.Header().Get("Retry-After") == "" || strings.Contains(got.Body.String(), "secret-detail") || len(w.Inputs) != 0 {
				t.Errorf("headers %v, body %s", got.Header(), got.Body)
			}
		})
	}
}

func TestSlowLogAndFullQueueAre503(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := hooktest.NewWorld()
		w.Block, w.Entered = make(chan struct{}), make(chan struct{}, 1)
		s, _ := hooktest.Serve(t, w, func(c *webhook.Config) { c.Limits.Concurrency = 1 })
		first := make(chan *httptest.ResponseRecorder)
		go func() {
			first <- hooktest.Do(s, "POST", "/webhook/alertmanager", hooktest.Payload(hooktest.Alert("prod", 1)))
		}()
		<-w.Entered
		// The only slot is taken: the second request waits a second, and is refused.
		got := hooktest.Do(s, "POST", "/webhook/alertmanager", hooktest.Payload(hooktest.Alert("prod", 2)))
		hooktest.Expect(t, got, 503, "too many payloads")
		if got.Header().Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		hooktest.Expect(t, <-first, 503, "send it again") // the log never answers; the append timeout does
		if len(w.Inputs) != 0 {
			t.Error("something was kept")
		}
	})
}

func TestBodyTimeoutIs503(t *testing.T) {
	w := hooktest.NewWorld()
	s, _ := hooktest.Serve(t, w, func(c *webhook.Config) { c.Limits.ReadTimeout = 50 * time.Millisecond })
	srv := httptest.NewServer(s)
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /webhook/alertmanager HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "+
		"100\r\n\r\n{")
	answer := make([]byte, 12)
	if _, err := conn.Read(answer); err != nil || string(answer) != "HTTP/1.1 503" {
		t.Errorf("answer %q, %v", answer, err)
	}
	if w.Calls != 0 {
		t.Error("something was appended")
	}
}

// fingerprint returns Prometheus' own hash of a label set.
func fingerprint(labels map[string]string) state.Fingerprint {
	return state.Fingerprint(model.Fingerprint(model.LabelsToSignature(labels)).String())
}
