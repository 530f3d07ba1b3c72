package webhook

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.yaml.in/yaml/v3"

	"paramedic/state"
	"paramedic/webhook/access"
	"paramedic/webhook/api"
	"paramedic/webhook/httpio"
)

const tokensFile = `
- {token: viewer-token, name: vera, role: viewer}
- {token: responder-token, name: ana, role: responder, slack_user: U0ANA}
- {token: admin-token, name: root, role: admin}
- {token: shared-token, role: responder}
`

func withTokens(t testing.TB) func(*Config) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(path, []byte(tokensFile), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := access.LoadTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Config) { c.API = access.APIAuth{Tokens: tokens} }
}

func TestIncidentJSONIsAsPromised(t *testing.T) {
	s, _ := door(t, newWorld().populate(), nil)
	got := do(s, "GET", "/api/v1/incidents?status=open,acked&cause=kv_exhaustion&cluster=prod", "")
	expect(t, got, 200, `"nodes":[]`, `"gpus":[]`, `"missing_evidence":[]`, `"resolved_at":null`, `"diagnosed_at":"2026-11-21T03:00:09Z"`, `"baseline":0.61,"day_ago":null,"week_ago":0.61,"z":null,"weight":6.2`,
		`"anomalies":[{"signal":"kv_usage","value":0.98`, `"with":"ttft_p95","r":0.94,"points":51,"lead_s":240`)
	var list api.IncidentsJSON
	if err := json.Unmarshal(got.Body.Bytes(), &list); err != nil || len(list.Incidents) != 1 {
		t.Fatalf("%v: %s", err, got.Body)
	}
	in := list.Incidents[0]
	if in.Number != 42 || in.Cause != "kv_exhaustion" || len(in.Actions) != 1 || in.Actions[0].Guards[0].Guard != "capacity" || in.Evidence[0].Weight != 6.2 {
		t.Errorf("%+v", in)
	}
	expect(t, do(s, "GET", "/api/v1/incidents?status=broken", ""), 400, "open, acked")
	expect(t, do(s, "GET", "/api/v1/incidents?cause=engine_hang", ""), 200, `{"incidents":[],"next":null}`)
	expect(t, do(s, "GET", "/api/v1/incidents/"+string(second), ""), 200, `"cause":"unknown"`, `"diagnosed_at":null`, `"evidence":[]`, `"anomalies":[]`, `"correlations":[]`, `"actions":[]`, `"symptoms":[]`)
}

func TestIncidentsAreFoundByPrefixAndNumber(t *testing.T) {
	s, _ := door(t, newWorld().populate(), nil)
	for _, name := range []string{string(incident), "INC-01KA", "01ka", "42", "%2342"} {
		expect(t, do(s, "GET", "/api/v1/incidents/"+name, ""), 200, string(incident))
	}
	expect(t, do(s, "GET", "/api/v1/incidents/INC-01K", ""), 409, "several", "candidates", string(second))
	for _, name := range []string{"INC-", "INC", "inc"} {
		expect(t, do(s, "GET", "/api/v1/incidents/"+name, ""), 409, "several", "candidates", string(second))
	}
	expect(t, do(s, "GET", "/api/v1/incidents/77", ""), 404, "no incident")
	expect(t, do(s, "GET", "/api/v1/actions/ACT-01K", ""), 200, `"change":"max_num_seqs 256 → 128"`)
	expect(t, do(s, "GET", "/api/v1/nothing", ""), 404, "/openapi.yaml")
	expect(t, do(s, "GET", "/api/v1/halt", ""), 405, "/openapi.yaml")
	expect(t, do(s, "GET", "/api/v1/incidents/42/timeline", ""), 200, "opened by HighKV")
}

func TestReportEscapesMarkdownAndShowsTheSum(t *testing.T) {
	w := newWorld().populate()
	in := w.incidents[incident]
	in.Title = "evil <script> [x](http://y) `c` |\n# head"
	in.Diagnosis.Story.Time = "queue 60 % of a request: queue_saturation, from 40 traces. <b>trace</b> abc"
	w.incidents[incident] = in
	s, _ := door(t, w, nil)
	got := do(s, "GET", "/api/v1/incidents/42/report", "")
	expect(t, got, 200, `evil &lt;script&gt; \[x\](http://y) \`+"`c"+`\`+"`"+` \| \# head`, "| **+11.2** | **sum** |", "kv_usage", "max\\_num\\_seqs 256", "×1.6 of an hour ago", "rose 4 min before", "opened by HighKV",
		"**Where the time goes.** queue 60 % of a request: queue\\_saturation, from 40 traces. &lt;b&gt;trace")
	expect(t, do(s, "GET", "/api/v1/incidents/42", ""), 200, `"time":"queue 60 % of a request: queue_saturation, from 40 traces.`)
}

// A namespace is not called a pool where no pool is known.
func TestReportNamesANamespaceAsOne(t *testing.T) {
	w := newWorld().populate()
	s, _ := door(t, w, nil)
	expect(t, do(s, "GET", "/api/v1/incidents/42/report", ""), 200, "**Pool:** llm/vllm-llama")
	in := w.incidents[incident]
	in.Scope.Pool = ""
	w.incidents[incident] = in
	got := do(s, "GET", "/api/v1/incidents/42/report", "")
	expect(t, got, 200, "**Namespace:** llm\n")
	if strings.Contains(got.Body.String(), "**Pool:**") {
		t.Error(got.Body)
	}
}

func TestWritesAreAppliedWhenAnswered(t *testing.T) {
	w := newWorld().populate()
	s, _ := door(t, w, withTokens(t))
	auth := []string{"Authorization", "Bearer responder-token"}
	expect(t, do(s, "POST", "/api/v1/incidents/42/ack", `{"reason":"mine"}`, auth...), 200, `"status":"acked"`, `"acked_by":"ana"`)
	expect(t, do(s, "POST", "/api/v1/incidents/42/ack", "", auth...), 200)
	expect(t, do(s, "POST", "/api/v1/incidents/42/silence", "", auth...), 200, "2026-11-21T04:00:00Z")
	expect(t, do(s, "POST", "/api/v1/incidents/42/silence", `{"duration":"2h"}`, auth...), 200, "2026-11-21T05:00:00Z")
	expect(t, do(s, "POST", "/api/v1/incidents/42/silence", `{"duration":"-2h"}`, auth...), 400, "duration")
	expect(t, do(s, "POST", "/api/v1/incidents/42/feedback", `{}`, auth...), 400, "right")
	expect(t, do(s, "POST", "/api/v1/incidents/42/feedback", `{"right":false,"cause":"kv_leak"}`, auth...), 200)
	expect(t, do(s, "POST", "/api/v1/incidents/42/diagnose", ``, auth...), 200)
	expect(t, do(s, "POST", "/api/v1/actions/ACT-01KA/approve", ``, auth...), 400, `"missing":"plan_hash"`, "max_num_seqs 256 → 128", "plan1")
	expect(t, do(s, "POST", "/api/v1/actions/ACT-01KA/approve", `{"plan_hash":"other"}`, auth...), 409, "has changed")
	expect(t, do(s, "POST", "/api/v1/actions/ACT-01KA/approve", `{"plan_hash":"plan1"}`, auth...), 200, `"state":"approved"`, `"decided_by":"ana"`)
	expect(t, do(s, "POST", "/api/v1/actions/ACT-01KA/deny", ``, auth...), 409, "decided by ana")
	expect(t, do(s, "POST", "/api/v1/incidents/42/resolve", `{}`, auth...), 200, `"status":"resolved"`)
	expect(t, do(s, "POST", "/api/v1/incidents/42/ack", `{`, auth...), 400)
	expect(t, do(s, "POST", "/api/v1/incidents/42/ack", `{"recommend":1}`, auth...), 400, `there is no field \"recommend\" here: ack takes actor, reason`)
	expect(t, do(s, "POST", "/api/v1/incidents/42/ack", `[]`, auth...), 400, "must be a JSON object")
	expect(t, do(s, "POST", "/api/v1/incidents/42/ack", `{"duration":"2h"}`, auth...), 400, `\"duration\"`)
	expect(t, do(s, "POST", "/api/v1/incidents/42/silence", `{"until":"tomorrow"}`, auth...), 400, "until must be a time such as")
	expect(t, do(s, "POST", "/api/v1/incidents/42/feedback", `{"verdict":"right"}`, auth...), 400, `\"verdict\"`, "feedback takes actor, reason, right, cause")
	expect(t, do(s, "POST", "/api/v1/incidents/42/feedback", `{"right":"yes"}`, auth...), 400, "right must be true or false")
	expect(t, do(s, "POST", "/api/v1/incidents/43/ack", ``, auth...), 409, "resolved")
	cmds := w.commands()
	if len(cmds) != 7 || cmds[0].Actor.Via != "api" || cmds[5].Verb != state.VerbApprove || cmds[5].PlanHash != "plan1" {
		t.Errorf("%d commands: %+v", len(cmds), cmds)
	}
}

// Another method on a path that exists is told which it takes, and a guess at Slack's path which
// there are.
func TestAnotherMethodIsToldWhichOneToUse(t *testing.T) {
	s, _ := door(t, newWorld().populate(), nil)
	for _, c := range []struct{ method, path, allow string }{
		{"GET", "/webhook/alertmanager", "POST"},
		{"PUT", "/webhook/alertmanager", "POST"},
		{"DELETE", "/api/v1/incidents", "GET, HEAD"},
		{"POST", "/api/v1/incidents/42", "GET, HEAD"},
		{"GET", "/api/v1/incidents/42/ack", "POST"},
		{"GET", "/api/v1/halt", "POST"},
	} {
		got := do(s, c.method, c.path, "")
		expect(t, got, 405, "it takes "+c.allow)
		if allow := got.Header().Get("Allow"); allow != c.allow {
			t.Errorf("%s %s: Allow %q, want %q", c.method, c.path, allow, c.allow)
		}
	}
	expect(t, do(s, "POST", "/webhook/slack", ""), 404, "/webhook/slack/command")
	expect(t, do(s, "GET", "/api/v2/incidents", ""), 404, "/openapi.yaml")
}

func TestApprovalAfterExpiryIsRefused(t *testing.T) {
	w := newWorld().populate()
	s, clock := door(t, w, nil)
	clock.advance(15 * time.Minute)
	path := "/api/v1/actions/" + string(action) + "/approve"
	expect(t, do(s, "POST", path, ``), 409, "expired at", "ask for a new diagnosis")
	a := w.actions[action]
	a.State, a.Reason = state.Expired, "nobody approved it in time"
	w.actions[action] = a
	expect(t, do(s, "POST", path, ``), 409, "it is expired: nobody approved it in time", "ask for a new diagnosis")
	a.State, a.Reason, a.DecidedBy = state.Denied, "capacity: no other worker would be ready", state.Actor{ID: "ana"}
	w.actions[action] = a
	expect(t, do(s, "POST", path, ``), 409, "it is denied: capacity: no other worker would be ready")
	if len(w.inputs) != 0 {
		t.Error("something was appended")
	}
	a.State, a.Mode, a.DecidedBy = state.Proposed, "auto", state.Actor{} // it asks nobody, and may be held for hours
	w.actions[action] = a
	expect(t, do(s, "POST", "/api/v1/actions/"+string(action)+"/deny", `{"actor":"ana"}`), 200, `"state":"denied"`)
}

func TestUnlistedApproverIsRefusedAndRecorded(t *testing.T) {
	w := newWorld().populate()
	a := w.actions[action]
	a.Approvers = []string{"U0ANA"}
	w.actions[action] = a
	s, _ := door(t, w, withTokens(t))
	expect(t, do(s, "POST", "/api/v1/actions/ACT-01KA/approve", ``, "Authorization", "Bearer admin-token"), 403, "U0ANA")
	if cmds := w.commands(); len(cmds) != 1 || cmds[0].Refused == "" || cmds[0].Actor.ID != "root" {
		t.Errorf("recorded %+v", cmds)
	}
	expect(t, do(s, "POST", "/api/v1/actions/ACT-01KA/approve", `{"plan_hash":"plan1"}`, "Authorization", "Bearer responder-token"), 200)
}

func TestRoles(t *testing.T) {
	w := newWorld().populate()
	s, _ := door(t, w, withTokens(t))
	expect(t, do(s, "GET", "/api/v1/incidents", ""), 401, "Bearer")
	expect(t, do(s, "GET", "/api/v1/incidents", "", "Authorization", "Bearer wrong-token"), 401)
	expect(t, do(s, "GET", "/api/v1/incidents", "", "Authorization", "Bearer viewer-token"), 200)
	expect(t, do(s, "POST", "/api/v1/incidents/42/ack", ``), 401)
	if len(w.inputs) != 0 {
		t.Fatal("an unauthenticated write left something")
	}
	expect(t, do(s, "POST", "/api/v1/incidents/42/ack", ``, "Authorization", "Bearer viewer-token"), 403, "responder")
	expect(t, do(s, "POST", "/api/v1/resume", ``, "Authorization", "Bearer responder-token"), 403, "admin")
	for _, c := range w.commands() {
		if c.Refused == "" {
			t.Errorf("%+v", c)
		}
	}
	w.calls = 0
	expect(t, do(s, "POST", "/api/v1/halt", `{"reason":"drill"}`, "Authorization", "Bearer admin-token"), 200, `"halted":true`, "prod")
	if w.calls != 1 || len(w.halts) != 2 {
		t.Errorf("%d appends, halts %v", w.calls, w.halts)
	}
	expect(t, do(s, "POST", "/api/v1/resume", ``, "Authorization", "Bearer admin-token"), 200, `"halted":false`)
	expect(t, do(s, "POST", "/api/v1/incidents/42/ack", ``, "Authorization", "Bearer shared-token"), 400, "who you are")
	expect(t, do(s, "POST", "/api/v1/incidents/42/ack", `{"actor":"bo"}`, "Authorization", "Bearer shared-token"), 200, `"acked_by":"bo (unverified)"`)
}

func TestOtherSitesCannotWrite(t *testing.T) {
	for name, change := range map[string]func(*Config){"open": nil, "cookie": withTokens(t)} {
		t.Run(name, func(t *testing.T) {
			w := newWorld().populate()
			s, _ := door(t, w, change)
			path, cookie := "/api/v1/incidents/42/ack", ""
			if change != nil {
				cookie = loginTo(t, s, "responder-token")
			}
			expect(t, do(s, "POST", path, ``, "Cookie", cookie, "Origin", "https://evil.example"), 403, "another site")
			expect(t, do(s, "POST", path, ``, "Cookie", cookie, "Sec-Fetch-Site", "cross-site"), 403)
			expect(t, do(s, "POST", path, ``, "Cookie", cookie, "Origin", "null"), 403)
			expect(t, do(s, "POST", path, ``, "Cookie", cookie, "Content-Type", "text/plain"), 415)
			if len(w.inputs) != 0 {
				t.Fatal("something was appended")
			}
			expect(t, do(s, "POST", path, `{"actor":"ana"}`, "Cookie", cookie, "Origin", "http://127.0.0.1", "Sec-Fetch-Site", "same-origin"), 200, `"acked_by":"ana`)
		})
	}
	s, _ := door(t, newWorld(), nil)
	r := httptest.NewRequest("GET", "http://rebound.example/api/v1/incidents", nil)
	got := httptest.NewRecorder()
	s.ServeHTTP(got, r)
	expect(t, got, 403, "another name")
	if _, ok := s.Authenticate(r); ok {
		t.Error("authenticated under a foreign name")
	}
}

func TestWriteThatIsNotYetAppliedIs202AndAFailedOne503(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld().populate()
		w.idle = true
		s, _ := door(t, w, nil)
		expect(t, do(s, "POST", "/api/v1/incidents/42/ack", ``), 202, "accepted")
		w.err = state.ErrUnavailable
		expect(t, do(s, "POST", "/api/v1/incidents/42/ack", ``), 503)
	})
}

func TestEventsStreamUntilClose(t *testing.T) {
	w := newWorld().populate()
	s, _ := door(t, w, nil)
	srv := httptest.NewServer(s)
	defer srv.Close()
	r, _ := http.NewRequestWithContext(t.Context(), "GET", srv.URL+"/api/v1/events?incident=42", nil)
	r.Header.Set("Last-Event-ID", "x/1")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Scan() // the stream has begun, so it is subscribed
	w.tell(state.Entry{Incident: second, N: 1, Text: "of another"})
	w.tell(state.Entry{Incident: incident, N: 2, At: start, Kind: "note", Text: "two\nlines"})
	var got []string
	for lines.Scan() {
		got = append(got, lines.Text())
		if strings.HasPrefix(lines.Text(), "data:") {
			break
		}
	}
	text := strings.Join(got, "|")
	if !strings.Contains(text, "event: entry") || !strings.Contains(text, `two\nlines`) || strings.Contains(text, "another") {
		t.Errorf("stream: %s", text)
	}
	s.Close()
	for lines.Scan() {
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestHealthHeadersAndPanics(t *testing.T) {
	ready := errors.New("NATS is away")
	s, _ := door(t, newWorld(), func(c *Config) {
		c.Ready = func(context.Context) error { return ready }
		c.Fleet = func(context.Context) (any, error) { panic("secret-panic") }
	})
	expect(t, do(s, "GET", "/healthz", ""), 200)
	expect(t, do(s, "GET", "/readyz", ""), 503, "NATS is away")
	got := do(s, "GET", "/api/v1/fleet", "", "X-Request-Id", "bad id\n")
	expect(t, got, 500)
	if strings.Contains(got.Body.String(), "secret-panic") || got.Header().Get("X-Content-Type-Options") != "nosniff" || !httpio.PlainID(got.Header().Get("X-Request-Id"), 64) {
		t.Errorf("%v %s", got.Header(), got.Body)
	}
}

func TestOpenAPIDescribesEveryPath(t *testing.T) {
	var doc struct {
		Paths map[string]map[string]any `yaml:"paths"`
	}
	if err := yaml.Unmarshal(openAPI, &doc); err != nil {
		t.Fatal(err)
	}
	var described, routed []string
	for path, item := range doc.Paths {
		for method := range item {
			if method != "parameters" {
				described = append(described, strings.ToUpper(method)+" "+path)
			}
		}
	}
	s, _ := door(t, newWorld(), nil)
	for pattern := range s.routes() {
		if strings.Contains(pattern, " ") {
			routed = append(routed, pattern)
		}
	}
	slices.Sort(described)
	slices.Sort(routed)
	if !slices.Equal(described, routed) {
		t.Errorf("described %q\nrouted %q", described, routed)
	}
	expect(t, do(s, "GET", "/openapi.yaml", ""), 200, "openapi: 3", "of unknown it is 1 less that of the first alternative")
}
