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

	"paramedic/state"
)

// payloadOf makes a payload; each alert is its JSON.
func payloadOf(alerts ...string) string {
	return `{"version":"4","receiver":"paramedic","groupKey":"{}:{}","externalURL":"http://am-1:9093","truncatedAlerts":0,"alerts":[` + strings.Join(alerts, ",") + `]}`
}

func alertOf(cluster string, n int) string {
	return fmt.Sprintf(`{"status":"firing","labels":{"alertname":"HighKV","cluster":%q,"pod":"vllm-%d"},"annotations":{"summary":"full"},"startsAt":"2026-11-21T02:59:00Z","endsAt":"0001-01-01T00:00:00Z","generatorURL":"http://prom/graph?g0.expr=up","fingerprint":"%016x"}`, cluster, n, n)
}

func alertsOf(cluster string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = alertOf(cluster, i)
	}
	return out
}

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

func TestFingerprintIsAlertmanagers(t *testing.T) {
	labels := map[string]string{
		"alertname": "HighErrorRate", "cluster": "demo", "instance": "127.0.0.1:19100", "job": "fake", "replica": "r1", "service": "a",
		"severity": "critical", "team": "payments",
	}
	if got := fingerprint(labels); got != "9ea79507655ba9b9" {
		t.Errorf("fingerprint = %s", got)
	}
}

func TestBadPayloadsAreRefusedAndNothingIsKept(t *testing.T) {
	good := alertOf("prod", 1)
	bad := func(old, new string) string { return payloadOf(good, strings.Replace(good, old, new, 1)) }
	for name, c := range map[string]struct {
		body string
		code int
		says string
	}{
		"empty":                {"", 400, "empty"},
		"not JSON":             {"{", 400, "not an Alertmanager"},
		"more after it":        {payloadOf(good) + "{}", 400, "more follows"},
		"version 1":            {`{"version":"1","alerts":[` + good + `]}`, 400, `payload version \"4\"`},
		"version as a number":  {`{"version":4,"alerts":[` + good + `]}`, 400, "not supported"},
		"custom payload":       {`{"text":"hello"}`, 400, "custom payload"},
		"a list":               {`[]`, 400, "not an Alertmanager"},
		"no alerts":            {payloadOf(), 400, "no alerts"},
		"invalid UTF-8":        {payloadOf(strings.Replace(good, "vllm", "\xff", 1)), 400, "UTF-8"},
		"alerts of one object": {`{"version":"4","alerts":{}}`, 400, "not an Alertmanager"},
		"receiver is a number": {strings.Replace(payloadOf(good), `"paramedic"`, `5`, 1), 400, "not an Alertmanager"},
		"oversized":            {payloadOf(bad(`full`, strings.Repeat("x", 300<<10))), 413, "larger than 262144 bytes; send less at once: let Alertmanager group_by more labels"},
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
	body := payloadOf(strings.Replace(alertOf("prod", 1), `"vllm-1"`, string(quoted), 1))
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
	body := payloadOf(strings.Replace(alertOf("prod", 1), `"summary":"full"`, `"description":"`+long+`","summary":"full"`, 1))
	expect(t, do(s, "POST", "/webhook/alertmanager", body), 200)
	got := w.inputs[0].Alerts.Alerts[0].Annotations
	if got["summary"] != "full" || len(got["description"]) > maxAnnotation || !strings.HasSuffix(got["description"], "é…") {
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
	alerts := append(alertsOf("prod", 250), alertOf("elsewhere", 1000), alertOf("default", 1001))
	expect(t, do(s, "POST", "/webhook/alertmanager", payloadOf(alerts...)), 200, `"accepted":252`)
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

// An alert of a cluster that nobody configured must not be answered with another's evidence, let
// alone first aid; where there is only one cluster, it is the one that is meant.
func TestAnAlertOfAnUnknownClusterIsNotAnothers(t *testing.T) {
	body := []byte(payloadOf(alertOf("atlantis", 1), strings.Replace(alertOf("x", 2), `"cluster":"x"`, `"zone":"x"`, 1)))
	for _, c := range []struct {
		clusters []string
		want     string
	}{{[]string{"prod", "edge"}, "atlantis prod"}, {[]string{"prod"}, "prod"}} {
		p, err := DecodeAlertmanager(body, c.clusters, start)
		var got []string
		for _, in := range p.Inputs {
			got = append(got, in.Cluster)
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("with %v: %v, %v", c.clusters, got, err)
		}
	}
}

func TestPartsFitAMessage(t *testing.T) {
	heavy := make([]string, 60)
	for i := range heavy {
		heavy[i] = strings.Replace(alertOf("prod", i), `"full"`, `"`+strings.Repeat("<&>", 1300)+`"`, 1)
	}
	p, err := DecodeAlertmanager([]byte(payloadOf(heavy...)), []string{"default", "prod"}, start)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Inputs) < 2 {
		t.Error("it was not split")
	}
	for _, in := range p.Inputs {
		data, err := json.Marshal(in)
		if err != nil || len(data) > 1<<20 {
			t.Errorf("a part of %d bytes (%v)", len(data), err)
		}
	}
}

func TestTooManyAlertsAtOnce(t *testing.T) {
	w := newWorld()
	s, _ := door(t, w, func(c *Config) { c.Limits.Alerts = 3 })
	expect(t, do(s, "POST", "/webhook/alertmanager", payloadOf(alertsOf("prod", 4)...)), 413, "at most 3")
	if w.calls != 0 {
		t.Error("something was appended")
	}
}

func TestDuplicatesOfAnHAPairHaveTheSameInputs(t *testing.T) {
	alerts := alertsOf("prod", 3)
	one := payloadOf(alerts...)
	other := strings.Replace(payloadOf(alerts[2], alerts[0], alerts[1]), "am-1", "am-2", 1)
	other = strings.Replace(other, `"version":"4"`, `"notification_reason":"repeat interval elapsed","version":"4"`, 1)
	ids := func(body string, at time.Time) (out []string) {
		p, err := DecodeAlertmanager([]byte(body), []string{"prod"}, at)
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range p.Inputs {
			out = append(out, in.ID)
		}
		return out
	}
	a, b := ids(one, start), ids(other, start.Add(time.Second))
	if fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("%v and %v", a, b)
	}
	for name, changed := range map[string]string{
		"resolved":    strings.Replace(one, "firing", "resolved", 1),
		"new episode": strings.Replace(one, "02:59:00Z", "02:59:01Z", 1),
		"new label":   strings.Replace(one, "vllm-1", "vllm-9", 1),
	} {
		if fmt.Sprint(ids(changed, start)) == fmt.Sprint(a) {
			t.Errorf("%s: same ID", name)
		}
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
			got := do(s, "POST", "/webhook/alertmanager", payloadOf(alertOf("prod", 1)))
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
		go func() { first <- do(s, "POST", "/webhook/alertmanager", payloadOf(alertOf("prod", 1))) }()
		<-w.entered
		// The only place is taken: the second waits a second, and is asked to come again.
		got := do(s, "POST", "/webhook/alertmanager", payloadOf(alertOf("prod", 2)))
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
	file := func(name, value string) *Secret {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
		return NewSecret(path)
	}
	token, password := file("token", "s3cret-token\n"), file("password", "pa55\n")
	basic := func(user, pass string) string {
		r, _ := http.NewRequest("GET", "/", nil)
		r.SetBasicAuth(user, pass)
		return r.Header.Get("Authorization")
	}
	all := AlertmanagerAuth{Bearer: token, BasicUser: "am", BasicPassword: password, ClientCert: true}
	for name, c := range map[string]struct {
		auth   AlertmanagerAuth
		header string
		cert   bool
		code   int
	}{
		"nothing configured, not open": {AlertmanagerAuth{}, "", false, 403},
		"nothing configured, open":     {AlertmanagerAuth{Open: true}, "", false, 200},
		"configured, open is ignored":  {AlertmanagerAuth{Open: true, Bearer: token}, "", false, 401},
		"no credentials":               {all, "", false, 401},
		"bearer":                       {all, "Bearer s3cret-token", false, 200},
		"wrong bearer":                 {all, "Bearer s3cret-tokem", false, 401},
		"empty bearer":                 {all, "Bearer ", false, 401},
		"basic":                        {all, basic("am", "pa55"), false, 200},
		"wrong user":                   {all, basic("root", "pa55"), false, 401},
		"wrong password":               {all, basic("am", "pa56"), false, 401},
		"client certificate":           {all, "", true, 200},
		"certificate not asked for":    {AlertmanagerAuth{Bearer: token}, "", true, 401},
		"secret file is gone":          {AlertmanagerAuth{Bearer: NewSecret(filepath.Join(dir, "none"))}, "Bearer x", false, 503},
		"secret file is empty":         {AlertmanagerAuth{Bearer: file("empty", "\n")}, "Bearer ", false, 503},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			s, _ := door(t, w, func(cfg *Config) { cfg.Alertmanager = c.auth })
			r := request("POST", "127.0.0.1", "/webhook/alertmanager", payloadOf(alertOf("prod", 1)), "Content-Type", "application/json")
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
