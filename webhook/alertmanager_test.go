package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/model"

	"paramedic/state"
	"paramedic/webhook/access"
	"paramedic/webhook/webhooktest"
)

// recorded finds the recorded payloads beside the repository.
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

func TestRecordedPayloadsOfRealAlertmanagersAreTaken(t *testing.T) {
	for _, file := range recorded(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			body, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			w := newWorld()
			s, _ := door(t, w, func(c *Config) { c.Clusters = []string{"default"} })
			expect(t, do(s, "POST", "/webhook/alertmanager", string(body)), 200)
			if len(w.inputs) != 1 || w.inputs[0].Cluster != "default" {
				t.Fatalf("inputs: %+v", w.inputs)
			}
			batch := w.inputs[0].Alerts
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

func TestBadPayloadsAreRefusedAndNothingIsKept(t *testing.T) {
	good := webhooktest.Alert("prod", 1)
	bad := func(old, new string) string { return webhooktest.Payload(good, strings.Replace(good, old, new, 1)) }
	for name, c := range map[string]struct {
		body string
		code int
		says string
	}{
		"empty":                {"", 400, "empty"},
		"not JSON":             {"{", 400, "not an Alertmanager"},
		"more after it":        {webhooktest.Payload(good) + "{}", 400, "more follows"},
		"version 1":            {`{"version":"1","alerts":[` + good + `]}`, 400, `payload version \"4\"`},
		"version as a number":  {`{"version":4,"alerts":[` + good + `]}`, 400, "not supported"},
		"custom payload":       {`{"text":"hello"}`, 400, "custom payload"},
		"a list":               {`[]`, 400, "not an Alertmanager"},
		"no alerts":            {webhooktest.Payload(), 400, "no alerts"},
		"invalid UTF-8":        {webhooktest.Payload(strings.Replace(good, "vllm", "\xff", 1)), 400, "UTF-8"},
		"alerts of one object": {`{"version":"4","alerts":{}}`, 400, "not an Alertmanager"},
		"receiver is a number": {strings.Replace(webhooktest.Payload(good), `"paramedic"`, `5`, 1), 400, "not an Alertmanager"},
		"oversized":            {webhooktest.Payload(bad(`full`, strings.Repeat("x", 300<<10))), 413, "larger than 262144 bytes; send less at once: let Alertmanager group_by more labels"},
		"deeply nested":        {strings.Repeat(`{"alerts":[`, 20_000), 400, "not an Alertmanager"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			s, _ := door(t, w, func(c *Config) { c.Limits.Body = 256 << 10 })
			expect(t, do(s, "POST", "/webhook/alertmanager", c.body), c.code, c.says)
			if w.calls != 0 {
				t.Error("something was appended")
			}
		})
	}
}

func TestHostileTextIsKeptAsData(t *testing.T) {
	w := newWorld()
	s, _ := door(t, w, nil)
	evil := "$(rm -rf /) {{ .Secret }} <!channel> <script>alert(1)</script> | `x`"
	quoted, err := json.Marshal(evil)
	if err != nil {
		t.Fatal(err)
	}
	body := webhooktest.Payload(strings.Replace(webhooktest.Alert("prod", 1), `"vllm-1"`, string(quoted), 1))
	expect(t, do(s, "POST", "/webhook/alertmanager", body), 200)
	if got := w.inputs[0].Alerts.Alerts[0].Labels["pod"]; got != evil {
		t.Errorf("label = %q", got)
	}
}

func TestUnknownAndAbsentFieldsAreTolerated(t *testing.T) {
	w := newWorld()
	s, _ := door(t, w, nil)
	expect(t, do(s, "POST", "/webhook/alertmanager",
		`{"version":"4","new_field":{"a":[1]},"alerts":[{"status":"firing","labels":{"alertname":"X"},"startsAt":"2026-11-21T02:59:00+01:00","extra":1}]}`,
		"Content-Type", "application/json; charset=utf-8"), 200)
	a := w.inputs[0].Alerts.Alerts[0]
	if a.Fingerprint != fingerprint(a.Labels) || a.StartsAt.Location() != time.UTC {
		t.Errorf("alert = %+v", a)
	}
}

func TestLongAnnotationsAreCutNotRefused(t *testing.T) {
	w := newWorld()
	s, _ := door(t, w, nil)
	long := strings.Repeat("é", 100<<10)
	body := webhooktest.Payload(strings.Replace(webhooktest.Alert("prod", 1), `"summary":"full"`, `"description":"`+long+`","summary":"full"`, 1))
	expect(t, do(s, "POST", "/webhook/alertmanager", body), 200)
	got := w.inputs[0].Alerts.Alerts[0].Annotations
	if got["summary"] != "full" || len(got["description"]) > 4<<10 || !strings.HasSuffix(got["description"], "é…") {
		t.Errorf("annotations of %d bytes", len(got["description"]))
	}
}

func TestPayloadIsSplitByClusterAndSizeInOneAppend(t *testing.T) {
	w := newWorld()
	observed := 0
	s, _ := door(t, w, func(c *Config) {
		c.Observe = func(route string, code int, _ time.Duration, n int) {
			if route != "POST /webhook/alertmanager" || code != 200 {
				t.Errorf("observed %s %d", route, code)
			}
			observed = n
		}
	})
	alerts := append(webhooktest.Alerts("prod", 250), webhooktest.Alert("elsewhere", 1000), webhooktest.Alert("default", 1001))
	expect(t, do(s, "POST", "/webhook/alertmanager", webhooktest.Payload(alerts...)), 200, `"accepted":252`)
	if w.calls != 1 || observed != 252 {
		t.Fatalf("%d appends, %d alerts observed", w.calls, observed)
	}
	var shape []string
	for _, in := range w.inputs {
		shape = append(shape, fmt.Sprintf("%s %d", in.Cluster, len(in.Alerts.Alerts)))
		if in.At != start || in.ID == "" {
			t.Errorf("input %+v", in)
		}
	}
	if got := strings.Join(shape, ", "); got != "default 1, elsewhere 1, prod 100, prod 100, prod 50" {
		t.Errorf("parts: %s", got)
	}
}

func TestTooManyAlertsAtOnce(t *testing.T) {
	w := newWorld()
	s, _ := door(t, w, func(c *Config) { c.Limits.Alerts = 3 })
	expect(t, do(s, "POST", "/webhook/alertmanager", webhooktest.Payload(webhooktest.Alerts("prod", 4)...)), 413, "at most 3")
	if w.calls != 0 {
		t.Error("something was appended")
	}
}

func TestFailingLogIs503AndNothingIsKept(t *testing.T) {
	for name, err := range map[string]error{
		"unavailable": fmt.Errorf("disk full: %w", state.ErrUnavailable),
		"deadline":    context.DeadlineExceeded,
		"other":       errors.New("boom secret-detail"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.err = err
			s, _ := door(t, w, nil)
			got := do(s, "POST", "/webhook/alertmanager", webhooktest.Payload(webhooktest.Alert("prod", 1)))
			expect(t, got, 503)
			if got.Header().Get("Retry-After") == "" || strings.Contains(got.Body.String(), "secret-detail") || len(w.inputs) != 0 {
				t.Errorf("headers %v, body %s", got.Header(), got.Body)
			}
		})
	}
}

func TestSlowLogAndOverloadAre503(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.block, w.entered = make(chan struct{}), make(chan struct{}, 1)
		s, _ := door(t, w, func(c *Config) { c.Limits.Concurrency = 1 })
		first := make(chan *httptest.ResponseRecorder)
		go func() {
			first <- do(s, "POST", "/webhook/alertmanager", webhooktest.Payload(webhooktest.Alert("prod", 1)))
		}()
		<-w.entered
		// The only place is taken: the second waits a second, and is asked to come again.
		got := do(s, "POST", "/webhook/alertmanager", webhooktest.Payload(webhooktest.Alert("prod", 2)))
		expect(t, got, 503, "too many payloads")
		if got.Header().Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		expect(t, <-first, 503, "send it again") // the log never answers; its deadline does
		if len(w.inputs) != 0 {
			t.Error("something was kept")
		}
	})
}

func TestBodyThatDoesNotArriveIs503(t *testing.T) {
	w := newWorld()
	s, _ := door(t, w, func(c *Config) { c.Limits.ReadTimeout = 50 * time.Millisecond })
	srv := httptest.NewServer(s)
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /webhook/alertmanager HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	answer := make([]byte, 12)
	if _, err := conn.Read(answer); err != nil || string(answer) != "HTTP/1.1 503" {
		t.Errorf("answer %q, %v", answer, err)
	}
	if w.calls != 0 {
		t.Error("something was appended")
	}
}

func TestAlertmanagerAuthentication(t *testing.T) {
	dir := t.TempDir()
	file := func(name, value string) *access.Secret {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
		return access.NewSecret(path)
	}
	token, password := file("token", "s3cret-token\n"), file("password", "pa55\n")
	basic := func(user, pass string) string {
		r, _ := http.NewRequest("GET", "/", nil)
		r.SetBasicAuth(user, pass)
		return r.Header.Get("Authorization")
	}
	all := access.AlertmanagerAuth{Bearer: token, BasicUser: "am", BasicPassword: password, ClientCert: true}
	for name, c := range map[string]struct {
		auth   access.AlertmanagerAuth
		header string
		cert   bool
		code   int
	}{
		"nothing configured, not open": {access.AlertmanagerAuth{}, "", false, 403},
		"nothing configured, open":     {access.AlertmanagerAuth{Open: true}, "", false, 200},
		"configured, open is ignored":  {access.AlertmanagerAuth{Open: true, Bearer: token}, "", false, 401},
		"no credentials":               {all, "", false, 401},
		"bearer":                       {all, "Bearer s3cret-token", false, 200},
		"wrong bearer":                 {all, "Bearer s3cret-tokem", false, 401},
		"empty bearer":                 {all, "Bearer ", false, 401},
		"basic":                        {all, basic("am", "pa55"), false, 200},
		"wrong user":                   {all, basic("root", "pa55"), false, 401},
		"wrong password":               {all, basic("am", "pa56"), false, 401},
		"client certificate":           {all, "", true, 200},
		"certificate not asked for":    {access.AlertmanagerAuth{Bearer: token}, "", true, 401},
		"secret file is gone":          {access.AlertmanagerAuth{Bearer: access.NewSecret(filepath.Join(dir, "none"))}, "Bearer x", false, 503},
		"secret file is empty":         {access.AlertmanagerAuth{Bearer: file("empty", "\n")}, "Bearer ", false, 503},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			s, _ := door(t, w, func(cfg *Config) { cfg.Alertmanager = c.auth })
			r := request("POST", "127.0.0.1", "/webhook/alertmanager", webhooktest.Payload(webhooktest.Alert("prod", 1)), "Content-Type", "application/json")
			if c.header != "" {
				r.Header.Set("Authorization", c.header)
			}
			if c.cert {
				r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{}}}}
			}
			got := httptest.NewRecorder()
			s.ServeHTTP(got, r)
			expect(t, got, c.code)
			if (w.calls > 0) != (c.code == 200) {
				t.Errorf("%d appends", w.calls)
			}
			if strings.Contains(got.Body.String(), "s3cret") {
				t.Error("the answer tells the secret")
			}
		})
	}
}

// fingerprint returns Prometheus' own hash of a label set.
func fingerprint(labels map[string]string) state.Fingerprint {
	return state.Fingerprint(model.Fingerprint(model.LabelsToSignature(labels)).String())
}
