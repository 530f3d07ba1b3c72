package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paramedic/internal/text"
	"paramedic/state"
)

func get(t *testing.T, h http.Handler, path string, change func(*http.Request)) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if change != nil {
		change(r)
	}
	return do(t, h, r)
}

func do(t *testing.T, h http.Handler, r *http.Request) (*http.Response, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	res := w.Result()
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

func contains(t *testing.T, body string, wants ...string) {
	t.Helper()
	for _, w := range wants {
		if !strings.Contains(body, w) {
			t.Errorf("the page has no %q", w)
		}
	}
}

var everyPage = []string{"/", "/incidents/INC-01KA1B2C3D4E5F6G7H8J9K0M1N", "/incidents/INC-01KA1B2D3D4E5F6G7H8J9K0M1N",
	"/incidents/INC-01KA1B2E3D4E5F6G7H8J9K0M1N",
	"/incidents/INC-01K91B2C3D4E5F6G7H8J9K0M1N", "/actions", "/fleet", "/playbooks", "/playbooks/kv_exhaustion", "/nowhere"}

func TestPagesHaveOnlyOwnResources(t *testing.T) {
	v := fixture()
	v.halted["default"] = state.Halt{At: at(-3), Actor: state.Actor{ID: "ana"}, Reason: "storm"}
	h := handler(t, v, nil)
	inline := regexp.MustCompile(`(?i)<style|\sstyle=|\son[a-z]+=|javascript:|<script(?:[^>]*src="/static/)?[^>]*>[^<]|(?:src|href)="(?:https?:)?//`)
	for _, page := range everyPage {
		res, body := get(t, h, page, nil)
		if m := inline.FindString(body); m != "" {
			t.Errorf("%s has %q", page, m)
		}
		csp := res.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'",
			"base-uri 'none'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: the policy %q has no %s", page, csp, want)
			}
		}
		if strings.Contains(csp, "unsafe") || res.Header.Get("X-Content-Type-Options") != "nosniff" ||
			res.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: headers %v", page, res.Header)
		}
	}
}

func TestIncidentPageHasTheWholeStory(t *testing.T) {
	_, body := get(t, handler(t, fixture(), withLogin), everyPage[1], bearer("good"))
	contains(t, body, "KV cache exhausted on llama-70b (3 of 4 workers)", "Three of four llama-70b workers", "96% sure",
		// The sum, for a person to check: -3 + 8 + 7.5 + 4.2 - 2.5 = 14.2.
		`data-testid="reason">&#43;8.0: A full cache is needed; an efficient engine shows it too.</div>`, "−3.0", "&#43;8.0", "&#43;7.5", "&#43;4.2", "−2.5", `data-testid="score">&#43;14.2`, "96% sure", "96 % sure means odds of 24 to 1", "concurrency cap", "&#43;9.1 dB", "KV usage were below 90%",
		"2 signals missing", "no worker was idle", "98% on vllm-llama", "Where the time goes.</b> queue 62 %",
		"trace 4bf92f3577b34da6a3ce929d0e0e4736", "it makes things worse", "Restarting workers all at once",
		"Shed or reroute batch traffic",
		`data-post="/api/v1/actions/ACT-01KA1B2C3D4E5F6G7H8J9K0ACT/approve"`, `data-plan-hash="9f2c41d07be3"`, "3 workers carry the load of 4 at 88%", "4 of 5 guards allow it. Only the approval is missing.",
		`data-testid="chart-chart-kv_usage"`, "limit 95 %", ">onset<", "paged through PagerDuty", `data-testid="alert"`)
	_, chain, _ := strings.Cut(body, `data-testid="chain"`)
	chain, _, _ = strings.Cut(chain, "</ol>")
	contains(t, chain, "From cause to symptom.", `<li class="as-cause"><span class="kind">cause</span><span>KV cache in use rose to 98 % (usual 61 %) at 02:44 UTC</span></li>`+
		`<li class="as-mechanism"><span class="kind">mechanism</span><span>Preemptions rose to 2.4/s (usual 0/s) at 02:46 UTC</span></li>`+
		`<li class="as-symptom"><span class="kind">symptom</span><span>Requests waiting rose to 74 (usual 0)</span></li>`)
	// An anomaly is shown once: under its chart, or below the charts if it has none.
	_, below, _ := strings.Cut(body, `data-testid="together"`)
	contains(t, below, "Failed requests (5xx) 20 %: from 0 % an hour ago", "KV cache in use rose 4 min before time to first token",
		"this proves no cause")
	if strings.Count(body, "×1.6 of this hour yesterday") != 1 || strings.Contains(below, "×1.6 of this hour yesterday") {
		t.Error("what is unusual of the KV cache is not under its chart, or not only there")
	}
	if _, quiet := get(t, handler(t, fixture(), withLogin), everyPage[2], bearer("good")); strings.Contains(quiet, "From cause to symptom") {
		t.Error("a verdict without a chain has its heading")
	}
	if strings.Contains(body, "The verdict&#39;s own score") {
		t.Error("the sum adds up, and the page says that it does not")
	}
}

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

// The page offers the approval to approvers, and names the approvers to other readers. Any
// responder may deny.
func TestApproveButtonIsShownToApprovers(t *testing.T) {
	for name, c := range map[string]struct {
		approvers     []string
		change        func(*Config)
		token         string
		approve, deny bool
		says          string
	}{
		"listed under the other name": {[]string{"U02ABC"}, withLogin, "good", true, true, "You approve exactly this plan"},
		"a responder, none listed":    {nil, withLogin, "good", true, true, "You approve exactly this plan"},
		"a responder who is not": {[]string{"U0LIN"}, withLogin, "good", false, true,
			"You may not approve it: not among the approvers of this action (remediate.policies[].approvers): U0LIN"},
		"a viewer":                 {[]string{"bob"}, withLogin, "look", false, false, "Your token may read, but not approve"},
		"an open bot, none listed": {nil, nil, "", true, true, "You approve exactly this plan"},
		"an open bot":              {[]string{"U02ABC"}, nil, "", false, true, "no token vouches for this name"},
	} {
		v := fixture()
		for id, a := range v.actions {
			a.Approvers = c.approvers
			v.actions[id] = a
		}
		for _, path := range []string{everyPage[1], "/actions"} {
			_, body := get(t, handler(t, v, c.change), path, bearer(c.token))
			contains(t, body, c.says)
			if approve, deny := strings.Contains(body, `data-testid="approve"`), strings.Contains(body, `data-testid="deny"`); approve != c.approve || deny != c.deny {
				t.Errorf("%s, %s: the button to approve is shown: %t, that to deny: %t", name, path, approve, deny)
			}
		}
	}
}

func TestWrongSumIsReported(t *testing.T) {
	s := newSum(state.Diagnosis{Prior: -3, Score: 9, Findings: []state.Finding{{Weight: 8}}})
	if !s.Differs || s.Total != 5 {
		t.Errorf("got %+v", s)
	}
}

// The odds are those of the percentage that the page shows.
func TestOddsAgreeWithShare(t *testing.T) {
	for percent, want := range map[int]string{50: "1 to 1", 23: "1 to 3.3", 67: "2 to 1", 90: "9 to 1", 97: "32 to 1",
		99: "at least 99 to 1", 0: "1 to at least 100"} {
		if got := odds(percent); got != want {
			t.Errorf("%d %% is %q, want %q", percent, got, want)
		}
	}
	s := newSum(state.Diagnosis{Confidence: 0.9671, Score: 26.5})
	if s.Odds != "32 to 1" {
		t.Errorf("97 %% sure has odds of %s", s.Odds)
	}
}

func TestUnknownResolvedAndEmptyPages(t *testing.T) {
	h := handler(t, fixture(), nil)
	_, unknown := get(t, h, everyPage[3], nil)
	contains(t, unknown, "Evidence for the leading cause", "Prometheus timed out after 5 s", "cause not known",
		`data-testid="likely">probably KV leak (52 %)`)
	_, resolved := get(t, h, everyPage[4], nil)
	contains(t, resolved, "Verified: better.", "Preemptions 2.4/s → 0", "lasted 30 min", "looks right",
		`data-testid="outcome">Resolved after 30 min. Lowering max_num_seqs 256 → 128 helped: `, "All 4 guards allowed it.",
		"Why we believed it.", "Where the time went.", "What else it could have been.", "Affected:")
	if strings.Contains(resolved, `data-testid="approve"`) || strings.Contains(resolved, `data-testid="ack"`) {
		t.Error("a resolved incident still asks for a decision")
	}
	empty := handler(t, &fakeView{}, nil)
	_, index := get(t, empty, "/", nil)
	_, listed := get(t, h, "/", nil)
	contains(t, listed, `data-testid="outcome">Lowering max_num_seqs 256 → 128 helped: `)
	contains(t, index, "All quiet.", "/webhook/alertmanager")
	_, fleet := get(t, empty, "/fleet", nil)
	contains(t, fleet, "Nothing is known yet.")
	_, actions := get(t, empty, "/actions", nil)
	contains(t, actions, "No action yet.")
}

// Advice needs a verdict.
func TestAdviceNeedsAVerdict(t *testing.T) {
	v := fixture()
	in := &v.incidents[slicesIndex(v.incidents, 42)]
	in.Diagnosis, in.DiagnosedAt, in.Actions = state.Diagnosis{}, time.Time{}, nil
	_, body := get(t, handler(t, v, nil), everyPage[1], nil)
	contains(t, body, "diagnosing…", "Paramedic gathers the evidence")
	if strings.Contains(body, "Shed load") || strings.Contains(body, "First aid</h2>") {
		t.Error("there is advice before there is a verdict")
	}
}

// What was not measured is unknown, and a fleet that cannot be read is not healthy.
func TestFleetShowsHealthAndUnknowns(t *testing.T) {
	health := Fleet{At: at(-0.1), Overall: "critical", Missing: []state.Missing{{Signal: "gpu_util", Reason: "DCGM is not scraped"}},
		Pools: []Pool{
			{Cluster: "default", Namespace: "llm", Name: "quiet", Model: "qwen-32b", Workers: 2, Pods: 4, Running: ptr(31), Role: "prefill",
				Routes: []string{"InferencePool/qwen"}, Overall: "healthy",
				Checks: []PoolCheck{{Name: "errors", Status: "healthy", Signal: "error_rate", Value: ptr(0), Unit: "ratio"}}},
			{Cluster: "default", Namespace: "llm", Name: "vllm-llama", Model: "llama-70b", Workers: 4, Overall: "critical",
				Checks: []PoolCheck{
					{Name: "gpu", Status: "unknown", Signal: "gpu_util"}, {Name: "kv_cache", Status: "critical", Signal: "kv_usage",
						Value: ptr(0.98), Unit: "ratio", Pod: pods[0], Note: "full, and users feel it"}},
				Pathologies: []Pathology{{Title: "KV cache thrashes", Text: "<b>x</b> preempts 2/s",
					PointsTo: []state.Cause{"kv_exhaustion", "kv_leak"}}}}}}
	h := handler(t, fixture(), func(c *Config) { c.Fleet = func(context.Context) (Fleet, error) { return health, nil } })
	_, body := get(t, h, "/fleet", nil)
	contains(t, body, `h-critical" data-testid="fleet-overall`, `data-testid="health-kv_cache"`, "98 %", `t-unknown" data-testid="health-gpu"`, "DCGM is not scraped", "gpu-a", "full, and users feel it", "KV cache thrashes", "&lt;b&gt;x&lt;/b&gt; preempts 2/s", "looks like kv exhaustion, kv leak",
		"2 workers of 4 pods · 31 requests running · prefill · behind InferencePool/qwen")
	if strings.Index(body, "vllm-llama") > strings.Index(body, "quiet") {
		t.Error("the healthy pool comes before the one that needs somebody")
	}
	h = handler(t, fixture(), func(c *Config) {
		c.Fleet = func(context.Context) (Fleet, error) { return Fleet{}, errors.New("secret address") }
	})
	_, body = get(t, h, "/fleet", nil)
	contains(t, body, "could not be read now", "health unknown", "gpu-a")
	if strings.Contains(body, "secret address") {
		t.Error("the page shows an error of a source")
	}
}

// Without a pool, the page does not claim to have measured one.
func TestFleetWithoutPoolsIsNotMeasured(t *testing.T) {
	h := handler(t, &fakeView{}, func(c *Config) {
		c.Fleet = func(context.Context) (Fleet, error) { return Fleet{At: at(-0.1), Overall: "unknown"}, nil }
	})
	_, body := get(t, h, "/fleet", nil)
	contains(t, body, "Nothing is known yet.", "and found no engine")
	if strings.Contains(body, "Measured") {
		t.Error("it says that it measured")
	}
}

// An ended action waits for no person and is not retried.
func TestEndedActionDoesNotWait(t *testing.T) {
	guards := []state.GuardResult{{Guard: "capacity", Decision: state.Hold, Reason: "too much load", RetryAt: at(-11)},
		{Guard: "approval", Decision: state.Hold, Reason: "waits for approval", RetryAt: at(-11)}}
	over := newActionCard(state.Action{State: state.Expired, Guards: guards})
	if len(over.Blocked) != 1 || over.Blocked[0].Guard != "capacity" || !over.Blocked[0].RetryAt.IsZero() {
		t.Errorf("an expired action shows %+v", over.Blocked)
	}
	if held := newActionCard(state.Action{State: state.Approved, Guards: guards}); len(held.Blocked) != 2 ||
		held.Blocked[0].RetryAt.IsZero() {
		t.Errorf("one that is held shows %+v", held.Blocked)
	}
}

func TestActionCardShowsResultOfCallToStop(t *testing.T) {
	v := fixture()
	a := &v.actions[0]
	a.State, a.Steps, a.Journal = state.Verifying, []state.ActionStep{{State: state.Applied}}, map[string]string{state.CalledOff: "asha"}
	_, body := get(t, handler(t, v, nil), "/actions", nil)
	contains(t, body, "called off by asha too late: Paramedic has already written")
}

func TestIncidentsAreFoundByNumberAndUniquePrefix(t *testing.T) {
	h := handler(t, fixture(), nil)
	full := "/incidents/INC-01KA1B2C3D4E5F6G7H8J9K0M1N"
	for _, asked := range []string{"42", "%2342", "INC-01KA1B2C", "01ka1b2c", "inc-01ka1b2c3"} {
		res, _ := get(t, h, "/incidents/"+asked, nil)
		if res.StatusCode != http.StatusFound || res.Header.Get("Location") != full {
			t.Errorf("%s: %d %s", asked, res.StatusCode, res.Header.Get("Location"))
		}
	}
	res, body := get(t, h, "/incidents/01KA", nil)
	if res.StatusCode != http.StatusMultipleChoices {
		t.Errorf("status %d", res.StatusCode)
	}
	contains(t, body, "3 incidents have an ID that begins like that", "#42 KV cache exhausted")
	for _, missing := range []string{"/incidents/999", "/incidents/INC-", "/actions/ACT-1", "/playbooks/absent", "/nowhere"} {
		if res, _ := get(t, h, missing, nil); res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", missing, res.StatusCode)
		}
	}
	res, _ = get(t, h, "/actions/ACT-01KA1B2C3D4E5F6G7H8J9K0ACT", nil)
	if res.Header.Get("Location") != full+"#ACT-01KA1B2C3D4E5F6G7H8J9K0ACT" {
		t.Errorf("got %s", res.Header.Get("Location"))
	}
}

// PagerDuty does not always name who acknowledged.
func TestAckWithoutPersonIsShown(t *testing.T) {
	v := fixture()
	in := &v.incidents[slicesIndex(v.incidents, 42)]
	in.AckedBy, in.AckedAt = nil, now
	res, body := get(t, handler(t, v, nil), everyPage[1], nil)
	if res.StatusCode != http.StatusOK {
		t.Errorf("the page answers %s", res.Status)
	}
	contains(t, body, `data-testid="acked">Acknowledged <`)
}

func TestHostileDataIsShownAsText(t *testing.T) {
	const evil = `</title></text><script>alert(1)</script><img src=x onerror=alert(1)>"' style="x` + "\u202E\u2066\u061C\u200F\x1b"
	v := fixture()
	in := &v.incidents[slicesIndex(v.incidents, 42)]
	in.Title, in.Scope.Pool, in.Scope.Pods, in.Diagnosis.Story.What, in.Diagnosis.Findings[0].Text, in.Diagnosis.Anomalies[0].Text,
		in.Diagnosis.Correlations[0].Text = evil, evil, []string{evil}, evil, evil, evil, evil
	in.Diagnosis.Story.Time, in.Diagnosis.Chain = evil, []state.Link{{Role: evil, Text: evil}}
	in.External = []state.External{{Source: evil, ID: evil, URL: "javascript:alert(1)", Title: evil}}
	in.AckedBy, in.AckedAt = &state.Actor{Name: evil}, now
	in.Symptoms[0].Symptom = evil
	v.alerts[in.ID] = []state.AlertRecord{{Sign: state.Sign{Symptom: evil},
		Alert: state.Alert{Labels: map[string]string{"alertname": evil, evil: evil}, Annotations: map[string]string{"summary": evil}}}}
	v.timeline[in.ID] = []state.Entry{{Text: evil, Kind: evil, Actor: state.Actor{Name: evil}}}
	ev := v.evidence[in.ID]
	for i := range ev.Samples {
		ev.Samples[i].Entity.Pod = evil + ev.Samples[i].Entity.Pod
		ev.Samples[i].Unit = evil
	}
	ev.Workers = []state.Worker{{Pod: evil, Pool: evil, Node: evil}}
	v.evidence[in.ID] = ev
	v.actions[0].Change, v.actions[0].Command, v.actions[0].Reason = evil, evil, evil
	v.halted["default"] = state.Halt{Reason: evil}
	h := handler(t, v, func(c *Config) { c.Titles = map[string]string{"kv_usage": evil} })
	for _, page := range []string{"/", everyPage[1], "/actions", "/fleet"} {
		_, body := get(t, h, page, nil)
		for _, bad := range []string{"<script>", "<img", `href="javascript:`, `style="x`, "</text><script"} {
			if strings.Contains(body, bad) {
				t.Errorf("%s: %q got through", page, bad)
			}
		}
		contains(t, body, "&lt;script&gt;")
		if strings.ContainsFunc(body, text.Hidden) || strings.Contains(body, "\x1b") {
			t.Errorf("%s: what no reader sees got through", page)
		}
	}
}

func slicesIndex(ins []state.Incident, number int) int {
	for i := range ins {
		if ins[i].Number == number {
			return i
		}
	}
	return -1
}

func TestPartialHoldsContentOnly(t *testing.T) {
	res, body := get(t, handler(t, fixture(), nil), "/", func(r *http.Request) { r.Header.Set(PartialHeader, "1") })
	if strings.Contains(body, "<html") || !strings.HasPrefix(body, `<div id="inner" data-user`) || res.Header.Get("X-Paramedic-Now") != "2026-11-21T03:12:00Z" || !strings.Contains(res.Header.Get("Vary"), PartialHeader) {
		t.Errorf("%v\n%.200s", res.Header, body)
	}
}

func TestOpenIncidentsFirstAndHaltOnEveryPage(t *testing.T) {
	v := fixture()
	v.halted["default"] = state.Halt{At: at(-3), Actor: state.Actor{ID: "ana", Name: "Ana"}, Reason: "storm"}
	h := handler(t, v, nil)
	_, body := get(t, h, "/", nil)
	ids := regexp.MustCompile(`data-testid="incident-row" data-id="([^"]+)"`).FindAllStringSubmatch(body, -1)
	var order []string
	for _, m := range ids {
		order = append(order, m[1][:12])
	}
	if diff := cmp.Diff([]string{"INC-01KA1B2C", "INC-01KA1B2D", "INC-01KA1B2E", "INC-01K91B2C"}, order); diff != "" {
		t.Error(diff)
	}
	contains(t, body, "First aid is halted in default.", "needs approval", "/api/v1/resume")
	_, incident := get(t, h, everyPage[1], nil)
	contains(t, incident, "First aid is halted in default.")
}

func TestStaticFilesAreAddressedByContent(t *testing.T) {
	h := handler(t, fixture(), nil)
	_, body := get(t, h, "/", nil)
	m := regexp.MustCompile(`src="(/static/app\.js\?v=[0-9a-f]+)"`).FindStringSubmatch(body)
	if m == nil {
		t.Fatal("no script")
	}
	res, _ := get(t, h, m[1], nil)
	if res.StatusCode != 200 || !strings.Contains(res.Header.Get("Cache-Control"), "immutable") ||
		!strings.HasPrefix(res.Header.Get("Content-Type"), "text/javascript") {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	again, _ := get(t, h, m[1], func(r *http.Request) { r.Header.Set("If-None-Match", res.Header.Get("ETag")) })
	if again.StatusCode != http.StatusNotModified {
		t.Errorf("status %d", again.StatusCode)
	}
	if res, _ := get(t, h, "/static/..%2fdoc.go", nil); res.StatusCode != http.StatusNotFound {
		t.Errorf("status %d", res.StatusCode)
	}
}

func withLogin(c *Config) {
	c.Login = func(_ *http.Request, token string) (string, error) {
		switch token {
		case "good":
			return "session-of-ana", nil
		case "one-too-many":
			return "", ErrTooManyLogins
		}
		return "", errors.New("not known")
	}
	c.Logout = func(r *http.Request) {
		if cookie, err := r.Cookie(CookieName); err == nil && cookie.Value == "session-of-ana" {
			r.Header.Set("Ended", "yes")
		}
	}
	c.Authenticate = func(r *http.Request) (state.Actor, bool) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if cookie, err := r.Cookie(CookieName); err == nil && token == "" {
			token = cookie.Value
		}
		switch token {
		case "good":
			return state.Actor{ID: "ana", Name: "ana", Role: state.Responder, Alias: "U02ABC"}, true
		case "look":
			return state.Actor{ID: "bob", Name: "bob", Role: state.Viewer}, true
		}
		return state.Actor{}, false
	}
}

func TestUnknownReaderSeesNothing(t *testing.T) {
	h := handler(t, fixture(), withLogin)
	for _, page := range everyPage {
		res, body := get(t, h, page, nil)
		if res.StatusCode != http.StatusSeeOther || !strings.HasPrefix(res.Header.Get("Location"), "/login?next=") ||
			strings.Contains(body, "llama") {
			t.Errorf("%s: %d %s", page, res.StatusCode, res.Header.Get("Location"))
		}
	}
	res, _ := get(t, h, "/", func(r *http.Request) { r.Header.Set(PartialHeader, "1") })
	if res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a partial gets %d", res.StatusCode)
	}
	if res, body := get(t, h, "/login?next=//evil.example", nil); res.StatusCode != 200 || strings.Contains(body, "evil") {
		t.Errorf("%d", res.StatusCode)
	}
	view := fixture()
	view.halted = map[string]state.Halt{"default": {Reason: "a drill", At: at(-5)}}
	_, body := get(t, handler(t, view, withLogin), "/login", nil)
	for _, inside := range []string{"<nav", `data-testid="live"`, `data-testid="mode"`, "a drill", "/fleet"} {
		if strings.Contains(body, inside) {
			t.Errorf("a stranger is shown %s", inside)
		}
	}
}

func TestLogin(t *testing.T) {
	h := handler(t, fixture(), withLogin)
	post := func(token, next, origin string) *http.Response {
		r := httptest.NewRequest(http.MethodPost, "https://bot.example/login",
			strings.NewReader(url.Values{"token": {token}, "next": {next}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		res, body := do(t, h, r)
		if strings.Contains(body, token) && token != "" {
			t.Errorf("the page repeats the token")
		}
		return res
	}
	res := post("good", "/incidents/42", "https://bot.example")
	if res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/incidents/42" || len(res.Cookies()) != 1 {
		t.Fatalf("%d %v", res.StatusCode, res.Header)
	}
	c := res.Cookies()[0]
	if c.Name != "paramedic_session" || c.Value != "session-of-ana" || !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode {
		t.Errorf("cookie %+v", c)
	}
	for _, next := range []string{"https://evil.example/", "//evil.example", `/\evil.example`, "javascript:x"} {
		if res := post("good", next, "https://bot.example"); res.Header.Get("Location") != "/" {
			t.Errorf("%s leads to %s", next, res.Header.Get("Location"))
		}
	}
	for name, res := range map[string]*http.Response{"wrong": post("hunter2-wrong", "/", "https://bot.example"), "foreign": post("good",
		"/", "https://evil.example"), "no origin": post("good", "/", ""), "odd": post("a b\"c;d", "/", "https://bot.example")} {
		if res.StatusCode != http.StatusForbidden || len(res.Cookies()) != 0 {
			t.Errorf("%s: %d %v", name, res.StatusCode, res.Cookies())
		}
	}
	_, viewer := get(t, h, everyPage[1], func(r *http.Request) { r.AddCookie(&http.Cookie{Name: CookieName, Value: "look"}) })
	contains(t, viewer, "Your token may read, but not approve.", "Log out bob")
	_, responder := get(t, h, everyPage[1], func(r *http.Request) { r.AddCookie(&http.Cookie{Name: CookieName, Value: "good"}) })
	contains(t, responder, `data-testid="approve"`)
	if strings.Contains(responder, `name="actor"`) {
		t.Error("asks somebody who is logged in for a name")
	}
	out := httptest.NewRequest(http.MethodPost, "https://bot.example/logout", nil)
	out.Header.Set("Origin", "https://bot.example")
	out.AddCookie(&http.Cookie{Name: CookieName, Value: "session-of-ana"})
	out.AddCookie(&http.Cookie{Name: "paramedic_token", Value: "good"}) // of an earlier version
	res, _ = do(t, h, out)
	if len(res.Cookies()) != 2 || res.Cookies()[0].MaxAge >= 0 || res.Cookies()[1].MaxAge >= 0 || out.Header.Get("Ended") != "yes" {
		t.Errorf("cookies %v, ended %q", res.Cookies(), out.Header.Get("Ended"))
	}
	if res := post("one-too-many", "/", "https://bot.example"); res.StatusCode != http.StatusTooManyRequests ||
		res.Header.Get("Retry-After") == "" {
		t.Errorf("too many: %d", res.StatusCode)
	}
}

// The script uses the field names of the API.
func TestScriptUsesFieldNamesOfTheAPI(t *testing.T) {
	var js []byte
	for _, name := range []string{"static/app.js", "static/stream.js"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		js = append(js, text...)
	}
	contains(t, string(js), `"/api/v1/events"`, `addEventListener("entry"`, "plan_hash", PartialHeader, nowHeader)
	if strings.Contains(string(js), "eval(") {
		t.Error("the script evaluates text")
	}
}

// A proxy replaces the host. The browser still tells that the form came from one of our pages.
func TestLoginThroughAProxyThatReplacesTheHost(t *testing.T) {
	for site, want := range map[string]int{"same-origin": http.StatusSeeOther, "cross-site": http.StatusForbidden, "": http.StatusForbidden} {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8080/login", strings.NewReader(url.Values{"token": {"good"}, "next": {"/"}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "https://oncall.example")
		if site != "" {
			r.Header.Set("Sec-Fetch-Site", site)
		}
		if res, body := do(t, handler(t, fixture(), withLogin), r); res.StatusCode != want {
			t.Errorf("from %q: %d %s", site, res.StatusCode, body)
		}
	}
}
