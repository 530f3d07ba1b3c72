package pipeline

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"paramedic/e2e/bot"
	"paramedic/lab"
	"paramedic/state"
)

// TestFaultMakesOneIncident follows KV exhaustion from Prometheus's first alert to Alertmanager's
// last resolved one. It also runs the commands that need no running bot.
func TestFaultMakesOneIncident(t *testing.T) {
	t.Parallel()
	chats, b := newChats(t), bot.New(t)
	w := newWorld(t, lab.KVExhaustion, b.URL()+"/webhook/alertmanager", intakeToken)
	configure(b, chats, map[string]any{
		"clusters": []any{map[string]any{"name": "default", "prometheus": map[string]any{"url": w.prometheus},
			"alertmanager": map[string]any{"url": w.alertmanager}}},
		"triage": map[string]any{"settle": "1s", "resolve_hold": "10s"},
	})
	b.Start()
	bot.Eventually(t, 60*time.Second, "one incident names the cause", func() error {
		list, err := b.Incidents()
		switch {
		case err != nil:
			return err
		case len(list) != 1:
			return fmt.Errorf("%d incidents", len(list))
		case list[0].Cause != lab.KVExhaustion:
			return fmt.Errorf("its cause is %s: %s", list[0].Cause, list[0].Title)
		}
		return nil
	})
	in := b.MustIncidents()[0]
	if in.Severity != state.Critical || in.Scope.Pool != "vllm-llama" || in.Scope.Namespace != "llm" || in.Scope.Model != "llama-70b" ||
		in.Playbook != lab.KVExhaustion {
		t.Errorf("%+v", in)
	}
	if len(in.Evidence) < 3 || in.Confidence < 0.8 {
		t.Errorf("%.2f sure by %+v", in.Confidence, in.Evidence)
	}
	bot.Eventually(t, soon, "Slack and PagerDuty are notified", func() error { return chats.notified(b.MustIncidents(), "triggered") })
	first := chats.slack.Messages()[0]

	runsCommands(t, w)

	w.repair()
	bot.Eventually(t, 100*time.Second, "everything is resolved", func() error {
		list := b.MustIncidents()
		if len(own(list)) != 1 {
			return bot.Final(fmt.Errorf("one fault became %d incidents: %+v", len(list), list))
		}
		if list[0].Status != state.StatusResolved || list[0].ActiveAlerts != 0 {
			return fmt.Errorf("%s with %d active alerts: %+v", list[0].Status, list[0].ActiveAlerts, list[0].Symptoms)
		}
		return chats.notified(list, "resolved")
	})
	if in = b.MustIncidents()[0]; in.Cause != lab.KVExhaustion || in.ResolvedBy != "alerts" {
		t.Errorf("it ended as %s, resolved by %s", in.Cause, in.ResolvedBy)
	}

	// There is one message, which was edited and has a thread, and one page.
	last := chats.slack.Messages()[0]
	if last.TS != first.TS || last.Edits <= first.Edits {
		t.Errorf("the message was edited %d and then %d times", first.Edits, last.Edits)
	}
	// Slack takes one message a second of a channel, so the reply comes after the edit.
	bot.Eventually(t, soon, "the thread ends with the end", func() error {
		var story []string
		for _, reply := range chats.slack.Thread(last.TS) {
			story = append(story, reply.Text)
		}
		if len(story) == 0 || !strings.Contains(story[len(story)-1], "resolved") {
			return fmt.Errorf("the thread's story is %q", story)
		}
		return nil
	})
	if events := chats.pager.Events(); len(events) != 2 || !strings.HasPrefix(events[0], "trigger ") ||
		!strings.HasPrefix(events[1], "resolve ") {
		t.Errorf("PagerDuty was told %q, want one trigger and one resolve", events)
	}
	chats.clean(t)
	replays(t, w)
}

// runsCommands runs diagnose and check against the world during the fault.
func runsCommands(t *testing.T, w *world) {
	t.Helper()
	var found struct {
		Verdicts []struct {
			Diagnosis struct{ Cause string }
		}
	}
	out, errs, code := bot.Run(t, w.dir, "diagnose", "--prometheus", w.prometheus, "-o", "json")
	if err := json.Unmarshal([]byte(out), &found); code != 2 || err != nil || len(found.Verdicts) != 1 ||
		found.Verdicts[0].Diagnosis.Cause != lab.KVExhaustion {
		t.Errorf("diagnose of the broken fleet: exit %d, %v\n%s%s", code, err, out, errs)
	}
	before := w.fleet.Start().Add(healthy - 10*time.Second).Format(time.RFC3339)
	if out, errs, code := bot.Run(t, w.dir, "diagnose", "--prometheus", w.prometheus, "--at", before); code != 0 {
		t.Errorf("diagnose of the time before: exit %d\n%s%s", code, out, errs)
	}
	if _, errs, code := bot.Run(t, w.dir, "diagnose", "--prometheus", "http://"+bot.FreeAddress(t)); code != 1 || errs == "" {
		t.Errorf("diagnose where nothing listens: exit %d\n%s", code, errs)
	}
	config := w.write("online.yaml", fmt.Appendf(nil, "clusters: [{name: default, prometheus: {url: %q}}]\n", w.prometheus))
	out, errs, code = bot.Run(t, w.dir, "check", "--online", "--config", config)
	for _, want := range []string{
		"default/prometheus               ok",
		"vllm/VLLMHighTTFT                      the threshold 3 lies between the buckets 2.5 and 5 of " +
			"vllm:time_to_first_token_seconds_bucket",
		"vllm/GPUMemoryHighUtilization          does not show load: the engines here allocate GPU memory",
	} {
		if code != 2 || !strings.Contains(out, want) {
			t.Errorf("check --online: exit %d, and not %q\n%s%s", code, want, out, errs)
		}
	}
	config = w.write("offline.yaml", fmt.Appendf(nil, "clusters: [{name: default, prometheus: {url: %q}}]\n", "http://"+bot.FreeAddress(t)))
	if out, errs, code := bot.Run(t, w.dir, "check", "--online", "--config", config); code != 2 {
		t.Errorf("check --online where nothing listens: exit %d\n%s%s", code, out, errs)
	}
}

// replays runs the replay command on the payloads that Alertmanager sent.
func replays(t *testing.T, w *world) {
	t.Helper()
	file := w.write("recorded.ndjson", w.recorder.payloads())
	var found struct {
		Payloads, Alerts int
		Incidents        []struct {
			Status     string
			MergedInto string `json:"merged_into"`
		}
	}
	out, errs, code := bot.Run(t, w.dir, "replay", file, "-o", "json")
	if err := json.Unmarshal([]byte(out), &found); code != 0 || err != nil ||
		found.Payloads != strings.Count(string(w.recorder.payloads()), "\n") || len(found.Incidents) == 0 {
		t.Errorf("replay: exit %d, %v\n%s%s", code, err, out, errs)
	}
	for _, in := range found.Incidents {
		if in.Status != "resolved" {
			t.Errorf("replay leaves an incident %s\n%s", in.Status, out)
		}
	}
	if _, errs, code := bot.Run(t, w.dir, "replay", w.write("broken.json", []byte(`{"version":"3"}`))); code != 1 ||
		!strings.Contains(errs, "broken.json: payload 1") {
		t.Errorf("replay of what is no payload: exit %d\n%s", code, errs)
	}
}
