package api_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"paramedic/state"
	"paramedic/webhook"
	"paramedic/webhook/api"
	"paramedic/webhook/hooktest"
)

func TestIncidentJSONMatchesContract(t *testing.T) {
	s, _ := hooktest.Serve(t, hooktest.NewWorld().Populate(), nil)
	got := hooktest.Do(s, "GET", "/api/v1/incidents?status=open,acked&cause=kv_exhaustion&cluster=prod", "")
	hooktest.Expect(t, got, 200, `"nodes":[]`, `"gpus":[]`, `"missing_evidence":[]`, `"resolved_at":null`, `"diagnosed_at":"2026-11-21T03:00:09Z"`, `"baseline":0.61,"day_ago":null,"week_ago":0.61,"z":null,"weight":6.2`,
		`"anomalies":[{"signal":"kv_usage","value":0.98`, `"with":"ttft_p95","r":0.94,"points":51,"lead_s":240`,
		`"chain":[{"role":"cause","signal":"kv_usage","pod":"vllm-llama-7d9f8b6c5-a","value":0.98,"baseline":0.61,"unit":"ratio","at":"2026-11-21T02:58:00Z",`+
			`"text":"KV cache in use rose`, `{"role":"symptom","signal":"requests_waiting","value":74,"text":`)
	var list api.IncidentsJSON
	if err := json.Unmarshal(got.Body.Bytes(), &list); err != nil || len(list.Incidents) != 1 {
		t.Fatalf("%v: %s", err, got.Body)
	}
	in := list.Incidents[0]
	if in.Number != 42 || in.Cause != "kv_exhaustion" || len(in.Actions) != 1 || in.Actions[0].Guards[0].Guard != "capacity" ||
		in.Evidence[0].Weight != 6.2 {
		t.Errorf("%+v", in)
	}
	hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/incidents?status=broken", ""), 400, "open, acked")
	hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/incidents?cause=engine_hang", ""), 200, `{"incidents":[],"next":null}`)
	hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/incidents/"+string(hooktest.Second), ""), 200, `"cause":"unknown"`, `"diagnosed_at":null`, `"evidence":[]`, `"anomalies":[]`, `"correlations":[]`, `"chain":[]`, `"actions":[]`, `"symptoms":[]`)
}

func TestIncidentsAreFoundByPrefixAndNumber(t *testing.T) {
	s, _ := hooktest.Serve(t, hooktest.NewWorld().Populate(), nil)
	for _, name := range []string{string(hooktest.Incident), "INC-01KA", "01ka", "42", "%2342"} {
		hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/incidents/"+name, ""), 200, string(hooktest.Incident))
	}
	hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/incidents/INC-01K", ""), 409, "several", "candidates", string(hooktest.Second))
	for _, name := range []string{"INC-", "INC", "inc"} {
		hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/incidents/"+name, ""), 409, "several", "candidates", string(hooktest.Second))
	}
	hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/incidents/77", ""), 404, "no incident")
	hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/actions/ACT-01K", ""), 200, `"change":"max_num_seqs 256 → 128"`)
	hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/nothing", ""), 404, "/openapi.yaml")
	hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/halt", ""), 405, "/openapi.yaml")
	hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/incidents/42/timeline", ""), 200, "opened by HighKV")
}

func TestReportEscapesMarkdownAndShowsTheSum(t *testing.T) {
	w := hooktest.NewWorld().Populate()
	in := w.Incidents[hooktest.Incident]
	in.Title = "evil <script> [x](http://y) `c` |\n# head"
	in.Diagnosis.Story.Time = "queue 60 % of a request: queue_saturation, from 40 traces. <b>trace</b> abc"
	w.Incidents[hooktest.Incident] = in
	s, _ := hooktest.Serve(t, w, nil)
	got := hooktest.Do(s, "GET", "/api/v1/incidents/42/report", "")
	hooktest.Expect(t, got, 200, `evil &lt;script&gt; \[x\](http://y) \`+"`c"+`\`+"`"+` \| \# head`, "| **+11.2** | **sum** |", "kv usage", "max\\_num\\_seqs 256", "×1.6 of an hour ago", "rose 4 min before", "opened by HighKV",
		"From cause to symptom:\n\n1. cause: KV cache in use rose to 98 % (usual 61 %) at 02:58 UTC\n2. symptom: Requests waiting rose to 74 (usual 0) \\| \\*now\\*\n",
		"**Where the time goes.** queue 60 % of a request: queue\\_saturation, from 40 traces. &lt;b&gt;trace")
	hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/incidents/42", ""), 200, `"time":"queue 60 % of a request: queue_saturation, from 40 traces.`)
}

// Without a known pool, the report shows a namespace and no pool.
func TestReportWithoutPoolShowsNamespace(t *testing.T) {
	w := hooktest.NewWorld().Populate()
	s, _ := hooktest.Serve(t, w, nil)
	hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/incidents/42/report", ""), 200, "**Pool:** llm/vllm-llama")
	in := w.Incidents[hooktest.Incident]
	in.Scope.Pool = ""
	w.Incidents[hooktest.Incident] = in
	got := hooktest.Do(s, "GET", "/api/v1/incidents/42/report", "")
	hooktest.Expect(t, got, 200, "**Namespace:** llm\n")
	if strings.Contains(got.Body.String(), "**Pool:**") {
		t.Error(got.Body)
	}
}

func TestAnsweredWritesAreApplied(t *testing.T) {
	w := hooktest.NewWorld().Populate()
	s, _ := hooktest.Serve(t, w, hooktest.WithTokens(t))
	auth := []string{"Authorization", "Bearer responder-token"}
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/incidents/42/ack", `{"reason":"mine"}`, auth...), 200, `"status":"acked"`, `"acked_by":"ana"`)
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/incidents/42/ack", "", auth...), 200)
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/incidents/42/silence", "", auth...), 200, "2026-11-21T04:00:00Z")
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/incidents/42/silence", `{"duration":"2h"}`, auth...), 200, "2026-11-21T05:00:00Z")
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/incidents/42/silence", `{"duration":"-2h"}`, auth...), 400, "duration")
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/incidents/42/feedback", `{}`, auth...), 400, "right")
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/incidents/42/feedback", `{"right":false,"cause":"kv_leak"}`, auth...), 200)
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/incidents/42/diagnose", ``, auth...), 200)
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/actions/ACT-01KA/approve", ``, auth...), 400, `"missing":"plan_hash"`, "max_num_seqs 256 → 128", "plan1")
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/actions/ACT-01KA/approve", `{"plan_hash":"other"}`, auth...), 409, "has changed")
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/actions/ACT-01KA/approve", `{"plan_hash":"plan1"}`, auth...), 200, `"state":"approved"`, `"decided_by":"ana"`)
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/actions/ACT-01KA/deny", ``, auth...), 409, "decided by ana")
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/incidents/42/resolve", `{}`, auth...), 200, `"status":"resolved"`)
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/incidents/42/ack", `{`, auth...), 400)
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/incidents/42/ack", `{"recommend":1}`, auth...), 400, `unknown field \"recommend\": ack takes actor, reason`)
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/incidents/42/ack", `[]`, auth...), 400, "must be a JSON object")
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/incidents/42/ack", `{"duration":"2h"}`, auth...), 400, `\"duration\"`)
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/incidents/42/silence", `{"until":"tomorrow"}`, auth...), 400, "until must be a time such as")
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/incidents/42/feedback", `{"verdict":"right"}`, auth...), 400, `\"verdict\"`, "feedback takes actor, reason, right, cause")
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/incidents/42/feedback", `{"right":"yes"}`, auth...), 400, "right must be true or false")
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/incidents/43/ack", ``, auth...), 409, "resolved")
	cmds := w.Commands()
	if len(cmds) != 7 || cmds[0].Actor.Via != "api" || cmds[5].Verb != state.VerbApprove || cmds[5].PlanHash != "plan1" {
		t.Errorf("%d commands: %+v", len(cmds), cmds)
	}
}

func TestApprovalAfterExpiryIsRefused(t *testing.T) {
	w := hooktest.NewWorld().Populate()
	s, clock := hooktest.Serve(t, w, nil)
	clock.Advance(15 * time.Minute)
	path := "/api/v1/actions/" + string(hooktest.Action) + "/approve"
	hooktest.Expect(t, hooktest.Do(s, "POST", path, ``), 409, "expired at", "ask for a new diagnosis")
	a := w.Actions[hooktest.Action]
	a.State, a.Reason = state.Expired, "no person approved it in time"
	w.Actions[hooktest.Action] = a
	hooktest.Expect(t, hooktest.Do(s, "POST", path, ``), 409, "it is expired: no person approved it in time", "ask for a new diagnosis")
	a.State, a.Reason, a.DecidedBy = state.Denied, "capacity: no other worker would be ready", state.Actor{ID: "ana"}
	w.Actions[hooktest.Action] = a
	hooktest.Expect(t, hooktest.Do(s, "POST", path, ``), 409, "it is denied: capacity: no other worker would be ready")
	if len(w.Inputs) != 0 {
		t.Error("something was appended")
	}
	a.State, a.Mode, a.DecidedBy = state.Proposed, "auto", state.Actor{} // no person decides on it, and it may be held for hours
	w.Actions[hooktest.Action] = a
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/actions/"+string(hooktest.Action)+"/deny", `{"actor":"ana"}`), 200, `"state":"denied"`)
}

func TestUnlistedApproverIsRefusedAndRecorded(t *testing.T) {
	w := hooktest.NewWorld().Populate()
	a := w.Actions[hooktest.Action]
	a.Approvers = []string{"U0ANA"}
	w.Actions[hooktest.Action] = a
	s, _ := hooktest.Serve(t, w, hooktest.WithTokens(t))
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/actions/ACT-01KA/approve", ``, "Authorization", "Bearer admin-token"), 403, "U0ANA")
	if cmds := w.Commands(); len(cmds) != 1 || cmds[0].Refused == "" || cmds[0].Actor.ID != "root" {
		t.Errorf("recorded %+v", cmds)
	}
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/actions/ACT-01KA/approve", `{"plan_hash":"plan1"}`, "Authorization", "Bearer responder-token"), 200)
}

func TestRoles(t *testing.T) {
	w := hooktest.NewWorld().Populate()
	s, _ := hooktest.Serve(t, w, hooktest.WithTokens(t))
	hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/incidents", ""), 401, "Bearer")
	hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/incidents", "", "Authorization", "Bearer wrong-token"), 401)
	hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/incidents", "", "Authorization", "Bearer viewer-token"), 200)
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/incidents/42/ack", ``), 401)
	if len(w.Inputs) != 0 {
		t.Fatal("an unauthenticated write left something")
	}
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/incidents/42/ack", ``, "Authorization", "Bearer viewer-token"), 403, "responder")
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/resume", ``, "Authorization", "Bearer responder-token"), 403, "admin")
	for _, c := range w.Commands() {
		if c.Refused == "" {
			t.Errorf("%+v", c)
		}
	}
	w.Calls = 0
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/halt", `{"reason":"drill"}`, "Authorization", "Bearer admin-token"), 200, `"halted":true`, "prod")
	if w.Calls != 1 || len(w.Halts) != 2 {
		t.Errorf("%d appends, halts %v", w.Calls, w.Halts)
	}
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/resume", ``, "Authorization", "Bearer admin-token"), 200, `"halted":false`)
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/incidents/42/ack", ``, "Authorization", "Bearer shared-token"), 400, "name yourself")
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/incidents/42/ack", `{"actor":"bo"}`, "Authorization", "Bearer shared-token"), 200, `"acked_by":"bo (unverified)"`)
}

func TestForeignSitesCannotWrite(t *testing.T) {
	for name, change := range map[string]func(*webhook.Config){"open": nil, "cookie": hooktest.WithTokens(t)} {
		t.Run(name, func(t *testing.T) {
			w := hooktest.NewWorld().Populate()
			s, _ := hooktest.Serve(t, w, change)
			path, cookie := "/api/v1/incidents/42/ack", ""
			if change != nil {
				cookie = hooktest.Login(t, s, "responder-token")
			}
			hooktest.Expect(t, hooktest.Do(s, "POST", path, ``, "Cookie", cookie, "Origin", "https://evil.example"), 403, "another site")
			hooktest.Expect(t, hooktest.Do(s, "POST", path, ``, "Cookie", cookie, "Sec-Fetch-Site", "cross-site"), 403)
			hooktest.Expect(t, hooktest.Do(s, "POST", path, ``, "Cookie", cookie, "Origin", "null"), 403)
			hooktest.Expect(t, hooktest.Do(s, "POST", path, ``, "Cookie", cookie, "Content-Type", "text/plain"), 415)
			if len(w.Inputs) != 0 {
				t.Fatal("something was appended")
			}
			hooktest.Expect(t, hooktest.Do(s, "POST", path, `{"actor":"ana"}`, "Cookie", cookie, "Origin", "http://127.0.0.1", "Sec-Fetch-Site", "same-origin"), 200, `"acked_by":"ana`)
		})
	}
	s, _ := hooktest.Serve(t, hooktest.NewWorld(), nil)
	r := httptest.NewRequest("GET", "http://rebound.example/api/v1/incidents", nil)
	got := httptest.NewRecorder()
	s.ServeHTTP(got, r)
	hooktest.Expect(t, got, 403, "another name")
	if _, ok := s.Authenticate(r); ok {
		t.Error("authenticated under a foreign name")
	}
}

func TestPendingWriteIs202FailedWriteIs503(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := hooktest.NewWorld().Populate()
		w.Idle = true
		s, _ := hooktest.Serve(t, w, nil)
		hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/incidents/42/ack", ``), 202, "accepted")
		w.Err = state.ErrUnavailable
		hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/incidents/42/ack", ``), 503)
	})
}

func TestEventsStreamUntilClose(t *testing.T) {
	w := hooktest.NewWorld().Populate()
	s, _ := hooktest.Serve(t, w, nil)
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
	w.Tell(state.Entry{Incident: hooktest.Second, N: 1, Text: "of another"})
	w.Tell(state.Entry{Incident: hooktest.Incident, N: 2, At: hooktest.Start, Kind: "note", Text: "two\nlines"})
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
