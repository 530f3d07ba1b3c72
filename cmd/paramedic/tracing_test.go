package main

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paramedic/cmd/paramedic/tracing/tracingtest"
	"paramedic/notify/pagerduty/pagerdutytest"
	"paramedic/notify/slack/slacktest"
	"paramedic/state"
)

// tracedBot returns a bot that sends its traces to a collector.
func tracedBot(t *testing.T, endpoint, more string) *onCall {
	t.Helper()
	gone := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(gone.Close)
	dir := t.TempDir()
	put(t, dir, "headers", []byte("Authorization: Bearer c0llect0r\nX-Scope-OrgID: sre\n"))
	o := &onCall{t: t, dir: t.TempDir(), settle: "10ms", slack: slacktest.New(slacktest.Options{}),
		pager: pagerdutytest.New(pagerdutytest.Options{RoutingKey: onCallKey}),
		extra: fmt.Sprintf("remediate: {mode: approve}\nclusters: [{name: prod, prometheus: {url: %q}}]\ntracing: {endpoint: %q, headers_file: %s/headers%s}\n",
			gone.URL, endpoint, dir, more)}
	return o
}

// traces returns the spans of each trace as lines "parent > name", in the order of their start.
func traces(spans []tracingtest.Span) map[string][]string {
	byID, out := map[string]tracingtest.Span{}, map[string][]string{}
	for _, s := range spans {
		byID[s.ID] = s
	}
	for _, s := range spans {
		line := s.Name
		if s.Parent != "" {
			line = byID[s.Parent].Name + " > " + s.Name
		}
		out[s.Trace] = append(out[s.Trace], line)
	}
	return out
}

// spansNamed returns the spans with a name.
func spansNamed(spans []tracingtest.Span, name string) []tracingtest.Span {
	return slices.DeleteFunc(slices.Clone(spans), func(s tracingtest.Span) bool { return s.Name != name })
}

// The journey of one alert is one trace: from the webhook to the first aid, also after a restart.
func TestJourneyOfAnAlertIsOneTrace(t *testing.T) {
	collector := tracingtest.New()
	defer collector.Close()
	o := tracedBot(t, collector.URL(), "")
	o.begin(approverTokens)
	labels := maps.Clone(kvFull)
	labels["customer"] = "hunter2"
	o.alert(labels)
	o.await("paged", o.paged)
	d := &approvalBot{onCall: o, in: o.bot.Keeper.Incidents()[0]}
	a := d.plan(nil)
	d.approve("api", approvers[0], a, a.PlanHash)
	o.await("the run ends", func() bool { now, _ := o.bot.Keeper.Action(a.ID); return now.State.Done() })
	o.settled()
	o.stop() // the last spans are exported

	first := collector.Spans()
	trace := spansNamed(first, "triage")[0].Trace
	got := traces(first)[trace]
	for _, want := range []string{"POST /webhook/alertmanager", "POST /webhook/alertmanager > append", "POST /webhook/alertmanager > triage",
		"POST /webhook/alertmanager > gather evidence", "gather evidence > verdict", "POST /webhook/alertmanager > deliver slack",
		"POST /webhook/alertmanager > deliver pagerduty", "POST /webhook/alertmanager > first aid", "first aid > apply"} {
		if !slices.Contains(got, want) {
			t.Errorf("the trace lacks %q:\n%s", want, strings.Join(got, "\n"))
		}
	}
	if len(traces(first)) != 1 {
		t.Errorf("there are %d traces", len(traces(first)))
	}
	checkSpans(t, first, d.in, a)

	o.start()
	o.alert(kvFullOn("vllm-llama-6d5f8c7b9-fghij"))
	o.await("the second alert is part of it", func() bool { in, _ := o.bot.Keeper.Incident(d.in.ID); return in.AlertCount == 2 })
	t.Setenv("PARAMEDIC_TOKEN", approvers[0].token)
	ask(t, exitOK, "ack", "1", "--server", o.url)
	o.settled()
	o.stop()
	all := traces(collector.Spans())
	if len(all[trace]) <= len(got) || !slices.Contains(all[trace][len(got):], "POST /webhook/alertmanager > deliver slack") {
		t.Errorf("after the restart the trace has\n%s", strings.Join(all[trace], "\n"))
	}
	later := spansNamed(collector.Spans(), "triage")[1]
	if later.Trace == trace || !slices.Equal(later.Links, []string{trace}) || later.Attributes["paramedic.incident"] != string(d.in.ID) {
		t.Errorf("the second payload's triage is %+v", later)
	}
	if d := cmp.Diff([]string{"POST /webhook/alertmanager", "POST /webhook/alertmanager > append", "POST /webhook/alertmanager > triage"},
		all[later.Trace]); d != "" {
		t.Errorf("the second payload's trace:\n%s", d)
	}
	for _, f := range collector.Failures() {
		t.Error(f)
	}
	for _, h := range collector.Headers() {
		if h.Get("Authorization") != "Bearer c0llect0r" || h.Get("X-Scope-OrgID") != "sre" {
			t.Errorf("the headers are %v", h)
		}
	}
}

func kvFullOn(pod string) map[string]string {
	labels := maps.Clone(kvFull)
	labels["pod"] = pod
	return labels
}

// checkSpans checks the attributes of the first incident's spans.
func checkSpans(t *testing.T, spans []tracingtest.Span, in state.Incident, a state.Action) {
	t.Helper()
	allowed := []string{"paramedic.alerts", "paramedic.alertname", "paramedic.incident", "paramedic.cluster", "paramedic.namespace",
		"paramedic.cause", "paramedic.confidence", "paramedic.attempt", "paramedic.outcome", "paramedic.action", "paramedic.action_state",
		"http.response.status_code"}
	for _, s := range spans {
		for key, value := range s.Attributes {
			if !slices.Contains(allowed, key) || strings.Contains(value, "hunter2") || strings.Contains(value, kvFull["pod"]) {
				t.Errorf("%s has %s=%s", s.Name, key, value)
			}
		}
		if s.Name != "append" && !s.Server && s.Attributes["paramedic.incident"] != string(in.ID) {
			t.Errorf("%s does not name its incident: %v", s.Name, s.Attributes)
		}
	}
	for name, want := range map[string]map[string]string{
		"triage": {"paramedic.alerts": "1", "paramedic.alertname": "VLLMKVCacheExhaustion", "paramedic.cluster": "prod",
			"paramedic.namespace": "llm"},
		"verdict":                    {"paramedic.cause": "unknown"},
		"deliver slack":              {"paramedic.outcome": "done", "paramedic.attempt": "1"},
		"first aid":                  {"paramedic.action": string(a.ID)},
		"POST /webhook/alertmanager": {"http.response.status_code": "200"},
	} {
		s := spansNamed(spans, name)[0]
		for key, value := range want {
			if s.Attributes[key] != value {
				t.Errorf("%s has %v, want %s=%s", name, s.Attributes, key, value)
			}
		}
	}
}

// A collector that hangs or refuses delays neither pages nor first aid nor the end of the bot, and
// the log says so once.
func TestDeadCollectorDelaysNothing(t *testing.T) {
	for name, fail := range map[string]func(c *tracingtest.Collector){
		"hangs":   (*tracingtest.Collector).Hang,
		"refuses": func(c *tracingtest.Collector) { c.Refuse(http.StatusForbidden) },
		"is gone": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1") // exports begin at once
			collector := tracingtest.New()
			endpoint := collector.URL()
			if fail == nil {
				collector.Close()
			} else {
				defer collector.Close()
				fail(collector)
			}
			book := &logbook{}
			o := tracedBot(t, endpoint, "")
			o.log = book.logger()
			o.begin(approverTokens)
			for n := range 3 {
				o.alert(kvFullOn(fmt.Sprintf("vllm-llama-6d5f8c7b9-abcd%d", n)))
			}
			o.await("paged", o.paged)
			o.settled()
			if fail != nil {
				o.await("the collector was tried", func() bool { return collector.Tried() > 0 })
			}
			o.stop() // while the collector still hangs
			if lines := book.named("the collector takes no traces"); len(lines) > 1 || len(lines) == 0 && name == "refuses" {
				t.Errorf("the log has %q", lines)
			}
			for _, line := range book.named("") {
				if strings.Contains(line, "c0llect0r") {
					t.Errorf("the log has the collector's token: %s", line)
				}
			}
		})
	}
}

// Without an endpoint, or with none of the payloads sampled, nothing is traced and nothing stored.
func TestUntracedInputsKeepNoTrace(t *testing.T) {
	collector := tracingtest.New()
	defer collector.Close()
	o := tracedBot(t, collector.URL(), ", sample_ratio: 0")
	o.begin(approverTokens)
	o.alert(kvFull)
	o.await("paged", o.paged)
	in := o.bot.Keeper.Incidents()[0]
	o.settled()
	o.stop()
	if in.Trace != "" || len(collector.Spans()) != 0 {
		t.Errorf("the incident has the trace %q, and the collector %d spans", in.Trace, len(collector.Spans()))
	}
}

// `check --online` proves that the collector takes traces.
func TestCheckAsksTheCollector(t *testing.T) {
	collector := tracingtest.New()
	defer collector.Close()
	dir := t.TempDir()
	put(t, dir, "c.yaml", []byte("tracing: {endpoint: "+collector.URL()+"}\n"))
	says(t, ask(t, exitOK, "check", "--online", "--config", dir+"/c.yaml"), "tracing", "ok")
	collector.Refuse(http.StatusUnauthorized)
	says(t, ask(t, exitFinding, "check", "--online", "--config", dir+"/c.yaml"), "tracing", "401")
	for _, f := range collector.Failures() {
		t.Error(f)
	}
}
