package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"paramedic/cmd/paramedic/client"
	"paramedic/cmd/paramedic/service"
	"paramedic/cmd/paramedic/survey"
	"paramedic/state"
	"paramedic/webhook/api"
)

// ask runs a command, checks its exit code, and returns its output of both streams.
func ask(t *testing.T, want int, args ...string) string {
	t.Helper()
	var out, err bytes.Buffer
	if code := run(context.Background(), args, &out, &err); code != want {
		t.Errorf("%s: exit code %d, want %d", strings.Join(args, " "), code, want)
	}
	return out.String() + err.String()
}

func says(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("it does not say %q:\n%s", w, text)
		}
	}
}

// Every command prints the incident and its state after the command.
func TestCommandsReportCurrentState(t *testing.T) {
	base, bot := startBot(t)
	resp, err := http.Post(base+"/webhook/alertmanager", "application/json", strings.NewReader(`{"version":"4","status":"firing","receiver":"r","groupKey":"g","alerts":[
		{"status":"firing","labels":{"alertname":"KVCacheUsageHigh","severity":"critical","namespace":"llm","pod":"vllm-llama-7d9f-abcde","model_name":"llama-70b"},
		"annotations":{"summary":"`+strings.Repeat("a long story ", 20)+`"},"startsAt":"`+time.Now().UTC().Format(time.RFC3339)+`","fingerprint":"00000000000000aa"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	awaitAlerts(t, bot, 1)
	t.Setenv("USER", "ada")
	server := "--server=" + strings.TrimPrefix(base, "http://") // no scheme: http is meant
	says(t, ask(t, exitOK, "incidents", "show", "1", server), "where    llm/vllm-llama", "opened   ", "alerts   1, 1 still firing",
		", 1 alert\n")
	says(t, ask(t, exitOK, "ack", "1", server), "#1 is acknowledged by ada (unverified): ")
	says(t, ask(t, exitOK, "silence", "1", server), "#1 sends no notifications until "+time.Now().UTC().Add(time.Hour).Format("Jan 2"))
	says(t, ask(t, exitError, "silence", "1", "--for", "0s", server), "--for 0s: use a time above 0s")
	says(t, ask(t, exitOK, "incidents", "show", "1", server), "acknowledged ", " by ada", "silenced until ")
	says(t, ask(t, exitOK, "halt", server), "first aid is halted in default. `paramedic resume` allows it again")
	says(t, ask(t, exitOK, "resume", server), "first aid is allowed again in default")
	says(t, ask(t, exitOK, "incidents", "report", "1", "-o", "json", server), `"report": "# Incident INC-`)
	says(t, ask(t, exitOK, "incidents", "stats", server), ": 1 incident, 1 open, ", "ACKNOWLEDGED", "First aid: ", "Feedback: none")
	says(t, ask(t, exitOK, "incidents", "stats", "--since", "2h", "-o", "json", server), `"incidents": 1,`, `"noisy_rules": [`)
	says(t, ask(t, exitError, "incidents", "stats", "--since", "90d", server), "since 90d is longer than incidents are kept: use at most 30d")
	for _, verb := range []string{"approve", "deny", "cancel"} {
		says(t, ask(t, exitError, verb, "NOPE", server), `no action "NOPE": give its ID or the unique beginning of it (404)`)
	}
	for _, line := range strings.Split(ask(t, exitOK, "incidents", server), "\n") {
		if n := len([]rune(line)); n > 170 {
			t.Errorf("a line of the table has %d characters: %s", n, line)
		}
	}
	if by := bot.Keeper.Incidents()[0].Acker(); by != (state.Actor{ID: "ada", Name: "ada", Via: "cli", Role: state.Admin,
		Unverified: true}) {
		t.Errorf("the record says that it was acknowledged by %+v", by)
	}
}

// The bot's clock ends a silence. That of the person's machine may be off by hours.
func TestSilenceEndsByTheBotsClock(t *testing.T) {
	var body api.WriteJSON
	bot := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		until := time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)
		_ = json.NewEncoder(w).Encode(api.IncidentJSON{Number: 7, Title: "slow", SilencedUntil: &until})
	}))
	defer bot.Close()
	says(t, ask(t, exitOK, "silence", "7", "--for", "45m", "--server", bot.URL), "sends no notifications until May 6 07:08:09 UTC")
	if body.Duration != "45m0s" || !body.Until.IsZero() {
		t.Errorf("it asks for %+v", body)
	}
}

func TestCancelReportsItsOutcome(t *testing.T) {
	a := api.ActionJSON{ID: "ACT-1", State: state.NeedsHuman, Change: "max_num_seqs 256 → 128"}
	bot := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method+" "+r.URL.Path != "POST /api/v1/actions/ACT-1/cancel" {
			t.Errorf("it asks for %s %s", r.Method, r.URL.Path)
		}
		_ = json.NewEncoder(w).Encode(a)
	}))
	defer bot.Close()
	a.ReleasedBy = "ada"
	says(t, ask(t, exitOK, "cancel", "ACT-1", "--server", bot.URL), "ACT-1 is taken care of by ada: max_num_seqs 256 → 128")
	a.State, a.ReleasedBy = state.Cancelled, ""
	says(t, ask(t, exitOK, "cancel", "ACT-1", "--server", bot.URL), "ACT-1 is cancelled: max_num_seqs 256 → 128")
}

// `incidents show` and `diagnose` print chain, anomalies and correlations in the same lines. They
// print nothing if there are none.
func TestTerminalShowsAnomalies(t *testing.T) {
	anomalies := []state.Anomaly{{Signal: "requests_waiting", Text: "Requests waiting 33: from 0 an hour ago"}}
	correlations := []state.Correlation{{Signal: "arrival_rate", Text: "Requests arriving rose 9 min before requests waiting rose"}}
	chain := []state.Link{{Role: state.LinkCause, Text: "Requests arriving rose to 12/s (usual 5/s) at 03:12 UTC"},
		{Role: state.LinkSymptom, Text: "Requests waiting rose to 33 (usual 0)"}}
	want := `
  from cause to symptom:
    cause      Requests arriving rose to 12/s (usual 5/s) at 03:12 UTC
    symptom    Requests waiting rose to 33 (usual 0)

  compared with the usual:
    Requests waiting 33: from 0 an hour ago

  moved together (this proves no cause):
    Requests arriving rose 9 min before requests waiting rose
`
	var shown, found, quiet bytes.Buffer
	client.Print(&shown, api.IncidentJSON{Chain: chain, Anomalies: anomalies, Correlations: correlations})
	printVerdict(&found, state.Diagnosis{Chain: chain, Anomalies: anomalies, Correlations: correlations})
	printVerdict(&quiet, state.Diagnosis{})
	if !strings.Contains(shown.String(), want) || !strings.Contains(found.String(), want) || strings.Contains(quiet.String(), "usual") ||
		strings.Contains(quiet.String(), "symptom") {
		t.Errorf("incidents show:\n%s\ndiagnose:\n%s\nand of nothing:\n%s", shown.String(), found.String(), quiet.String())
	}
	var md bytes.Buffer
	printMarkdown(&md, survey.Report{Verdict: []survey.PoolReport{{Diagnosis: state.Diagnosis{Chain: chain,
		Anomalies: anomalies, Correlations: correlations}}}})
	says(t, md.String(), "From cause to symptom:\n\n1. cause: Requests arriving rose to 12/s (usual 5/s) at 03:12 UTC\n2. symptom: Requests waiting rose")
	if !strings.Contains(md.String(), "- compared with the usual: Requests waiting 33") || !strings.Contains(md.String(), "rose 9 min before") {
		t.Errorf("as Markdown:\n%s", md.String())
	}
}

func TestMissingSignalsFoldByReason(t *testing.T) {
	for want, missing := range map[string][]string{
		"KV cache in use: no data\nPreemptions, Requests waiting: no series": {"kv_usage", "preemption_rate (no series)", "requests_waiting (no series)"},
		"6 signals missing: 5 no series, 1 no data":                          {"a (no series)", "b (no series)", "c (no series)", "d (no series)", "e (no series)", "f"},
	} {
		if got := strings.Join(state.Diagnosis{Missing: missing}.MissingLines(service.BuiltInTitles()), "\n"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A refused or ambiguous command says what to do.
func TestRefusedCommandsSuggestARemedy(t *testing.T) {
	bot := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":"not authenticated"}`)
			return
		}
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"error":"it means several incidents","candidates":["INC-1 (#1)","INC-2 (#2)"]}`)
	}))
	t.Cleanup(bot.Close)
	t.Setenv("PARAMEDIC_TOKEN", "")
	says(t, ask(t, exitError, "incidents", "--server", bot.URL), "not authenticated (401)",
		"Set PARAMEDIC_TOKEN to your token in the bot's auth.api.tokens_file.")
	t.Setenv("PARAMEDIC_TOKEN", "a-token")
	says(t, ask(t, exitError, "ack", "INC", "--server", bot.URL), "it means several incidents (409)\n  INC-1 (#1)\n  INC-2 (#2)")
}

// The command line adds the user's name for a token without one, and leaves a named token alone.
func TestTokenNameOverridesUserName(t *testing.T) {
	var bodies []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		if r.Header.Get("Authorization") == "Bearer shared-token" && !strings.Contains(string(body), `"actor"`) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":"the token has no name","missing":"actor"}`)
			return
		}
		_, _ = io.WriteString(w, `{"halted":true,"clusters":["default"]}`)
	}))
	defer server.Close()
	t.Setenv("USER", "ada")
	for token, want := range map[string]string{"named-token": `{"reason":""}`, "shared-token": `{"actor":"ada","reason":""}`, "": `{"actor":"ada","reason":""}`} {
		t.Setenv("PARAMEDIC_TOKEN", token)
		ask(t, exitOK, "halt", "--server="+server.URL)
		if got := bodies[len(bodies)-1]; got != want {
			t.Errorf("with the token %q it sends %s, want %s", token, got, want)
		}
	}
}

// The command lists all incidents, and no request asks for more than a page.
func TestListFollowsEveryPage(t *testing.T) {
	var asked []string
	bot := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		asked = append(asked, q.Get("limit")+" "+q.Get("cursor")+" "+q.Get("status"))
		page := api.IncidentsJSON{}
		from, _ := strconv.Atoi(q.Get("cursor"))
		size, _ := strconv.Atoi(q.Get("limit"))
		for n := from; n < min(from+size, 1200); n++ {
			page.Incidents = append(page.Incidents, api.IncidentJSON{Number: n + 1})
		}
		if next := strconv.Itoa(from + size); from+size < 1200 {
			page.Next = &next
		}
		_ = json.NewEncoder(w).Encode(page)
	}))
	t.Cleanup(bot.Close)
	out := ask(t, exitOK, "incidents", "list", "--status", "open", "--server", bot.URL)
	if n := strings.Count(out, "\n"); n != 1201 || !slices.Equal(asked, []string{"500  open", "500 500 open", "500 1000 open"}) {
		t.Errorf("%d lines, after asking %q", n, asked)
	}
	asked = nil
	if out := ask(t, exitOK, "incidents", "list", "--limit", "510", "--server", bot.URL); strings.Count(out, "\n") != 511 ||
		!slices.Equal(asked, []string{"500  ", "10 500 "}) {
		t.Errorf("with --limit 510 it asked %q for %d lines", asked, strings.Count(out, "\n"))
	}
	says(t, ask(t, exitError, "incidents", "list", "--limit", "-1", "--server", bot.URL), "--limit -1: use a number above 0")
}
