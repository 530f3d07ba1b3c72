package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/notify/pagerduty/pagerdutytest"
	"paramedic/notify/slack"
	"paramedic/notify/slack/slacktest"
	"paramedic/playbooks"
	"paramedic/remediate"
	"paramedic/remediate/cluster"
	"paramedic/remediate/guard"
	"paramedic/remediate/policy"
	"paramedic/remediate/simcluster"
	"paramedic/state"
	"paramedic/webhook/access"
)

// The people who try to approve, each with a token, a Slack user, or both.
const approverTokens = `- {token: ada-has-a-token, name: ada, role: responder, slack_user: U0ADA}
- {token: vera-has-a-token, name: vera, role: viewer, slack_user: U0VERA}
- {token: root-has-a-token, name: root, role: admin}
- {token: all-share-a-token, role: responder}
`

type approver struct{ name, token, slackUser string }

var approvers = []approver{{"ada", "ada-has-a-token", "U0ADA"}, {"vera", "vera-has-a-token", "U0VERA"}, {"root", "root-has-a-token", ""},
	{"shared", "all-share-a-token", ""}, {"listed", "", "U0LISTED"}, {"guest", "", "U0GUEST"}}

// An approvalBot is a bot with an incident, on which plans wait for approval.
type approvalBot struct {
	*onCall
	in    state.Incident
	n     int
	until time.Time // how long plans wait; zero: an hour
}

func newApprovalBot(t *testing.T, approvers []string) *approvalBot {
	policy := ""
	if approvers != nil {
		policy = ", policies: [{approvers: [" + strings.Join(approvers, ", ") + "]}]"
	}
	o := &onCall{t: t, dir: t.TempDir(), settle: "1h", extra: "remediate: {mode: approve" + policy + "}\n",
		slack: slacktest.New(slacktest.Options{}), pager: pagerdutytest.New(pagerdutytest.Options{RoutingKey: onCallKey})}
	o.begin(approverTokens)
	o.alert(kvFull)
	o.await("an incident is open", func() bool { return len(o.bot.Keeper.Incidents()) == 1 })
	return &approvalBot{onCall: o, in: o.bot.Keeper.Incidents()[0]}
}

// plan records a plan that waits for approval.
func (d *approvalBot) plan(approvers []string) state.Action {
	d.t.Helper()
	d.n++
	if d.until.IsZero() {
		d.until = time.Now().Add(time.Hour)
	}
	a := state.Action{ID: state.NewActionID(time.Now(), fmt.Sprint(d.n)), Incident: d.in.ID, Kind: "restart_worker", Mode: "approve",
		State: state.AwaitingApproval, Approvers: approvers,
		Change: fmt.Sprintf("restart pod llm/vllm-%d", d.n), ExpiresAt: d.until, Steps: []state.ActionStep{{State: state.AwaitingApproval,
			At: time.Now()}},
		Target: state.Target{Cluster: d.in.Cluster, Namespace: "llm", Kind: "Pod", Name: fmt.Sprintf("vllm-%d", d.n), Pool: "vllm"}}
	// as first aid makes it
	a.PlanHash = state.Hash(string(a.Incident), a.Kind, a.Target.Cluster, a.Target.String(), a.Target.UID, a.Target.Container, a.Change)
	if err := d.bot.Keeper.Append(d.t.Context(), state.Input{Cluster: d.in.Cluster, Action: &state.ActionEvent{Action: a}}); err != nil {
		d.t.Fatal(err)
	}
	d.await("the plan waits", func() bool { _, ok := d.bot.Keeper.Action(a.ID); return ok })
	return a
}

// answer sends a request and returns the body of the answer.
func (d *approvalBot) answer(path string, body []byte, header http.Header) string {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, d.url+path, bytes.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return string(raw)
}

// approve sends a person's approval of a plan through an entry point, and returns the answer. It
// returns false if the person cannot use that entry point.
func (d *approvalBot) approve(entry string, who approver, a state.Action, plan string) (told string, can bool) {
	d.t.Helper()
	api := func(header http.Header) string {
		header.Set("Content-Type", "application/json")
		body, err := json.Marshal(map[string]string{"plan_hash": plan})
		if who.name == "shared" {
			body, err = json.Marshal(map[string]string{"plan_hash": plan, "actor": "ada"})
		}
		if err != nil {
			d.t.Fatal(err)
		}
		return d.answer("/api/v1/actions/"+string(a.ID)+"/approve", body, header)
	}
	switch entry {
	case "api":
		return api(http.Header{"Authorization": {"Bearer " + who.token}}), who.token != ""
	case "page":
		if who.token == "" {
			return "", false
		}
		return api(http.Header{"Cookie": {d.loginTo(who.token)}, "Origin": {d.url}}), true
	case "cli":
		d.t.Setenv("PARAMEDIC_TOKEN", who.token)
		d.t.Setenv("USER", "ada")
		if who.token == "" {
			return "", false
		}
		var out bytes.Buffer
		run(d.t.Context(), append([]string{"approve", string(a.ID), "--server", d.url}, strings.Fields(plan)...), &out, &out)
		return out.String(), true
	case "button":
		if who.slackUser == "" || plan == "" { // a button has its plan
			return "", false
		}
		payload, err := json.Marshal(map[string]any{"type": "block_actions",
			"user": map[string]string{"id": who.slackUser, "username": who.name}, "trigger_id": fmt.Sprint(a.ID, who.name, plan),
			"response_url": d.slack.URL() +
				"response_url", "actions": []any{map[string]string{"action_id": slack.ActionApprove, "value": string(a.ID) + "|" + plan}}})
		if err != nil {
			d.t.Fatal(err)
		}
		body := []byte(url.Values{"payload": {string(payload)}}.Encode())
		return d.answer("/webhook/slack/interaction", body, slacktest.Sign(onCallSecret, body, time.Now())), true
	default:
		body := []byte(url.Values{"command": {"/paramedic"}, "user_id": {who.slackUser}, "user_name": {who.name},
			"trigger_id": {fmt.Sprint(a.ID, who.name, plan, "t")}, "channel_name": {"llm-oncall"},
			"text": {strings.TrimSpace("approve " + string(a.ID) + " " + plan)}}.Encode())
		return d.answer("/webhook/slack/command", body, slacktest.Sign(onCallSecret, body, time.Now())), who.slackUser != ""
	}
}

func (d *approvalBot) loginTo(token string) string {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, d.url+"/login",
		strings.NewReader(url.Values{"token": {token}}.Encode()))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Origin": {d.url}}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		d.t.Fatal(err)
	}
	resp.Body.Close()
	for _, c := range resp.Cookies() {
		if c.Name == access.SessionCookie {
			return c.Name + "=" + c.Value
		}
	}
	d.t.Fatalf("no login: %s", resp.Status)
	return ""
}

// decided returns who decided the plan. It is empty while the plan waits.
func (d *approvalBot) decided(a state.Action) state.Actor {
	now, _ := d.bot.Keeper.Action(a.ID)
	return now.DecidedBy
}

// guardOf returns the guard's result for an approval by a person.
func (d *approvalBot) guardOf(a state.Action, by state.Actor) state.GuardResult {
	d.t.Helper()
	a.State, a.DecidedBy, a.DecidedAt = state.Approved, by, time.Now()
	aid, err := remediate.New(remediate.Config{
		Site: guard.Site{
			Rules: policy.Rules{Mode: policy.Approve, Policies: d.cfg.Remediation(policy.Timing{}).Policies},
			View:  oneRun{oneIncident: oneIncident{in: d.in}, run: a}, Gauge: blindGauge{},
			Clusters: map[string]cluster.Cluster{d.in.Cluster: simcluster.New(state.SystemClock{})}},
		Playbook: func(state.Diagnosis) (playbooks.Playbook, bool) { return playbooks.Playbook{}, false },
	})
	if err != nil {
		d.t.Fatal(err)
	}
	for _, in := range aid.Run.Deliver(d.t.Context(), state.Effect{Action: a.ID}).Inputs {
		for _, g := range in.Action.Action.Guards {
			if g.Guard == "approval" {
				return g
			}
		}
	}
	d.t.Fatal("the guard was not asked")
	return state.GuardResult{}
}

// A blindGauge measures nothing.
type blindGauge struct{}

func (blindGauge) Read(context.Context, string, state.Scope, time.Time, []string) state.Evidence {
	return state.Evidence{}
}

// oneRun is a view of one incident and its one run.
type oneRun struct {
	oneIncident
	run state.Action
}

func (v oneRun) Action(state.ActionID) (state.Action, bool)               { return v.run, true }
func (v oneRun) ActionsOf(state.IncidentID) []state.Action                { return []state.Action{v.run} }
func (v oneRun) BegunActions() []state.Action                             { return nil }
func (v oneRun) ListIncidents(state.IncidentQuery) (p state.IncidentPage) { return p }

var entryPoints = []string{"api", "page", "cli", "button", "command"}

// The guard allows every approval that an entry point accepts. No entry point accepts an approval
// that the guard would deny, and the refusal is recorded.
func TestEntryPointsAndGuardAgreeOnApprovers(t *testing.T) { // 17
	for _, c := range []struct {
		approvers []string
		may       []string
		buttons   bool
	}{
		{nil, []string{"ada", "root", "shared"}, true},
		{[]string{"ada"}, []string{"ada"}, true},
		{[]string{"U0ADA"}, []string{"ada"}, true},
		{[]string{"U0LISTED", "vera"}, []string{"listed"}, true},
		{[]string{"root"}, []string{"root"}, false},
	} {
		t.Run(fmt.Sprint(c.approvers), func(t *testing.T) {
			d := newApprovalBot(t, c.approvers)
			tokens, err := access.LoadTokens(d.cfg.Auth.API.TokensFile)
			if err != nil {
				t.Fatal(err)
			}
			if got := tokens.SlackApproves(c.approvers); got != c.buttons {
				t.Errorf("the buttons are shown: %t", got)
			}
			for _, who := range approvers {
				for _, entry := range entryPoints {
					a := d.plan(c.approvers)
					told, can := d.approve(entry, who, a, a.PlanHash)
					if !can {
						continue
					}
					by := d.decided(a)
					if may := slices.Contains(c.may, who.name); may != (by.ID != "") {
						t.Errorf("%s through the %s: may approve: %t, approved by %q, told %q", who.name, entry, may, by, told)
					}
					if by.ID != "" {
						if g := d.guardOf(a, by); g.Decision != state.Allow {
							t.Errorf("%s was let in by the %s, and the guard says %s", who.name, entry, g.Reason)
						}
					} else if !d.refusedOnRecord(a) {
						t.Errorf("%s through the %s: the refusal is not on record", who.name, entry)
					}
				}
			}
		})
	}
}

// refusedOnRecord waits until the timeline has the refusal.
func (d *approvalBot) refusedOnRecord(a state.Action) bool {
	found := false
	d.await("the refusal is on record", func() bool {
		entries, err := d.bot.Keeper.Timeline(d.t.Context(), d.in.ID)
		found = err == nil && slices.ContainsFunc(entries, func(e state.Entry) bool { return e.Kind == "refused" && e.Action == a.ID })
		return found
	})
	return found
}

// At every entry point, an approval names the plan that the person saw. Approvals without a plan,
// or with another plan, are refused.
func TestApprovalNeedsThePlanEverywhere(t *testing.T) { // 19
	d := newApprovalBot(t, nil)
	for _, entry := range entryPoints {
		a, other := d.plan(nil), d.plan(nil)
		for plan, want := range map[string]string{"": "say which plan you approve", other.PlanHash: "has changed",
			a.PlanHash[:4]: "give at least 8 characters"} {
			told, can := d.approve(entry, approvers[0], a, plan)
			if can && entry != "button" && !strings.Contains(told, want) {
				t.Errorf("%s, plan %q: told %q", entry, plan, told)
			}
			if by := d.decided(a); by.ID != "" {
				t.Fatalf("%s: approved with the plan %q", entry, plan)
			}
		}
		if _, can := d.approve(entry, approvers[0], a, state.ShortPlan(a.PlanHash)); can && d.decided(a).ID == "" {
			t.Errorf("%s: the plan as it is shown is not taken", entry)
		}
	}
}

// At every entry point, an approval after the expiry, after another decision, or after the
// incident's end has no effect.
func TestLateApprovalFailsEverywhere(t *testing.T) { // 13, 14, 15, 16
	d := newApprovalBot(t, nil)
	ada, root := approvers[0], approvers[2]
	post := func(path string) {
		if told := d.answer(path, []byte("{}"), http.Header{"Authorization": {"Bearer " + root.token}, "Content-Type": {"application/json"}}); strings.Contains(told, `"error"`) {
			t.Fatal(told)
		}
	}
	for _, c := range []struct {
		name   string
		before func(a state.Action)
		by     string // who has decided
	}{
		{"expired", func(state.Action) {}, ""},
		{"approved", func(a state.Action) { d.approve("api", root, a, a.PlanHash) }, "root"},
		{"denied", func(a state.Action) { post("/api/v1/actions/" + string(a.ID) + "/deny") }, "root"},
		{"resolved", func(state.Action) { post("/api/v1/incidents/" + string(d.in.ID) + "/resolve") }, ""},
	} {
		d.until = time.Time{}
		if c.name == "expired" {
			d.until = time.Now().Add(-time.Second)
		}
		var plans []state.Action
		for range entryPoints {
			plans = append(plans, d.plan(nil))
		}
		for i, entry := range entryPoints {
			a := plans[i]
			if c.before(a); c.name == "resolved" {
				c.before = func(state.Action) {} // once is enough
			}
			told, _ := d.approve(entry, ada, a, a.PlanHash)
			if now, _ := d.bot.Keeper.Action(a.ID); now.DecidedBy.ID != c.by || c.by == "" &&
				slices.ContainsFunc(now.Steps, func(s state.ActionStep) bool { return s.State == state.Approved }) {
				t.Errorf("%s, %s: it is %s, decided by %q, told %q", c.name, entry, now.State, now.DecidedBy, told)
			} else if entry != "button" && strings.Contains(told, "Approved:") {
				t.Errorf("%s, %s: told %q", c.name, entry, told)
			}
		}
	}
}

// A responder in the tokens file can approve in Slack if no policy names approvers: the buttons are
// shown and work.
func TestResponderApprovesInSlack(t *testing.T) {
	o := newOnCall(t, "")
	o.alert(kvFull)
	o.await("posted", o.paged)
	d := &approvalBot{onCall: o, in: o.bot.Keeper.Incidents()[0]}
	a := d.plan(nil)
	o.await("the button is there", func() bool { return len(o.slack.Messages()[0].Buttons(slack.ActionApprove)) == 1 })
	o.click(slack.ActionApprove, 0)
	o.await("approved", func() bool { return d.decided(a).Alias == "ada" })
}
