package chat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"paramedic/internal/text"
	"paramedic/state"
	"paramedic/webhook/command"
	"paramedic/webhook/httpio"
	"paramedic/webhook/report"
)

const help = "*Paramedic*\n" +
	"`list` list the open incidents\n" +
	"`show ID` show one incident: cause, explanation, advice, actions\n" +
	"`ack ID` acknowledge it: you work on it\n" +
	"`diagnose ID` gather evidence again\n" +
	"`approve ACT PLAN [reason]` / `deny ACT [reason]` decide on first aid; `show` has the plan\n" +
	"`cancel ACT [reason]` cancel first aid; if it needs a person, this confirms that it is fixed\n" +
	"`halt [reason]` / `resume` stop all first aid, or allow it again\n" +
	"The unique beginning of an ID is enough. An incident also has a number: 7, or prod-7 if there are " +
	"several clusters."

// Command answers /paramedic. Slack shows the answer to the person who asked.
func (s *Chat) Command(w http.ResponseWriter, r *http.Request) error {
	form, err := s.readForm(w, r)
	if err != nil {
		return err
	}
	user := form.Get("user_id")
	if !httpio.PlainID(user, 64) {
		return httpio.Fail(http.StatusBadRequest, "the command has no user_id")
	}
	text, err := s.run(r.Context(), call{
		user: user, name: form.Get("user_name"), trigger: form.Get("trigger_id"), text: text.Line(form.Get("text"), command.MaxReason+100),
		mayRead: s.MayRead != nil && s.MayRead(Asker{User: user, Channel: form.Get("channel_id"), ChannelName: form.Get("channel_name")}),
	})
	if err != nil {
		var a *httpio.Error
		if !errors.As(err, &a) {
			return err
		}
		// Slack shows nothing of an error's body, so the error is sent with 200.
		text = ":warning: " + escape(a.Text)
		for _, c := range a.Candidates {
			text += "\n• " + escape(c)
		}
	}
	return httpio.WriteJSON(w, http.StatusOK, ephemeral(text))
}

type call struct {
	user, name, trigger, text string
	mayRead                   bool
}

// errReader answers a user who may not know which incidents exist.
var errReader = httpio.Fail(http.StatusForbidden,
	"ask in the channel where Paramedic posts incidents, or ask an admin to add your Slack user to "+
		"auth.api.tokens_file (slack_user)")

// visible returns the error of a search. For a user who may not read, it returns an error that
// reveals nothing.
func (c call) visible(err error) error {
	if err != nil && !c.mayRead {
		return errReader
	}
	return err
}

func (s *Chat) run(ctx context.Context, c call) (string, error) {
	verb, rest, _ := strings.Cut(c.text, " ")
	name, reason, _ := strings.Cut(strings.TrimSpace(rest), " ")
	switch verb := strings.ToLower(verb); verb {
	case "", "help":
		return help, nil
	case "list":
		if !c.mayRead {
			return "", errReader
		}
		if err := s.Loaded(); err != nil {
			return "", err
		}
		return s.list(), nil
	case "show":
		if !c.mayRead {
			return "", errReader
		}
		in, err := s.Incident(ctx, name)
		if err != nil {
			return "", err
		}
		return s.show(in, s.ActionsOf(in)), nil
	case "ack", "diagnose":
		in, err := s.Incident(ctx, name)
		if err != nil {
			return "", c.visible(err)
		}
		return s.incident(ctx, c, state.Verb(verb), in)
	case "approve", "deny", "cancel":
		a, err := s.Action(ctx, name)
		if err != nil {
			return "", c.visible(err)
		}
		d := decision{verb: state.Verb(verb), action: a, reason: reason}
		if d.verb == state.VerbApprove {
			d.planHash, d.reason, _ = strings.Cut(strings.TrimSpace(reason), " ")
		}
		return s.decide(ctx, c, d)
	case "halt", "resume":
		return s.haltOrResume(ctx, c, state.Verb(verb), rest)
	default:
		return "", httpio.Fail(http.StatusBadRequest, "there is no command %q: /paramedic help lists the commands", httpio.Cut(verb, 32))
	}
}

func outcome(applied bool, done string) string {
	if applied {
		return ":white_check_mark: " + done
	}
	return ":hourglass_flowing_sand: Recorded. Paramedic applies it in a moment."
}

func (s *Chat) incident(ctx context.Context, c call, verb state.Verb, in state.Incident) (string, error) {
	o := s.OnIncident(verb, in)
	if refused := s.authorize(&o, c.user, c.name, c.trigger, nil); refused != "" {
		s.Refuse(ctx, o, refused)
		return "", httpio.Fail(http.StatusForbidden, "%s", refused)
	}
	done, err := command.CheckIncident(verb, in)
	if err != nil {
		return "", err
	}
	label := fmt.Sprintf("%s (%s)", in.ID, escape(s.Name(&in)))
	if done {
		return "Already acknowledged by " + escape(in.Acker().String()) + ": " + label, nil
	}
	applied, err := s.do(ctx, o)
	if err != nil {
		return "", err
	}
	words := map[state.Verb]string{state.VerbAck: "Acknowledged: ", state.VerbDiagnose: "Paramedic gathers evidence again: "}
	return outcome(applied, words[verb]+label), nil
}

// A decision is a person's answer to one plan.
type decision struct {
	verb     state.Verb
	action   state.Action
	planHash string // the plan that the person saw, from the button or the command
	reason   string
}

func (s *Chat) decide(ctx context.Context, c call, d decision) (string, error) {
	o := s.OnAction(d.verb, d.action)
	o.Reason = text.Line(d.reason, command.MaxReason)
	if refused := s.authorize(&o, c.user, c.name, c.trigger, &d.action); refused != "" {
		s.Refuse(ctx, o, refused)
		return "", httpio.Fail(http.StatusForbidden, "%s", refused)
	}
	if err := s.CheckAction(d.verb, d.action, d.planHash, o.Seen); err != nil {
		var a *httpio.Error
		if errors.As(err, &a) && a.Missing == "plan_hash" {
			return "", httpio.Fail(http.StatusBadRequest, "say which plan you approve: %s", approveLine(d.action))
		}
		return "", err
	}
	applied, err := s.do(ctx, o)
	if err != nil {
		return "", err
	}
	words := map[state.Verb]string{state.VerbApprove: "Approved: ", state.VerbDeny: "Denied: ",
		state.VerbCancel: "Cancelled: "}
	if d.verb == state.VerbCancel && d.action.NeedsPerson() {
		words[d.verb] = "Taken care of: "
	}
	return outcome(applied, words[d.verb]+escape(d.action.Change)), nil
}

// approveLine returns the command that approves an action's plan, with the plan's effect.
func approveLine(a state.Action) string {
	return fmt.Sprintf("/paramedic approve %s %s (%s)", a.ID, state.ShortPlan(a.PlanHash), a.Change)
}

func (s *Chat) haltOrResume(ctx context.Context, c call, verb state.Verb, reason string) (string, error) {
	o := s.OnClusters(verb, s.Clusters)
	o.Reason = text.Line(reason, command.MaxReason)
	if refused := s.authorize(&o, c.user, c.name, c.trigger, nil); refused != "" {
		s.Refuse(ctx, o, refused)
		return "", httpio.Fail(http.StatusForbidden, "%s", refused)
	}
	applied, err := s.do(ctx, o)
	if err != nil {
		return "", err
	}
	words := map[state.Verb]string{state.VerbHalt: "First aid is halted everywhere. To allow it again: /paramedic resume",
		state.VerbResume: "First aid is allowed again."}
	return outcome(applied, words[verb]), nil
}

const listMost = 15

func (s *Chat) list() string {
	var b strings.Builder
	open := s.View.Tally().Open
	newest := s.View.ListIncidents(state.IncidentQuery{Which: state.OpenIncidents, Limit: listMost})
	for _, in := range newest.Incidents {
		fmt.Fprintf(&b, "• *%s* `%s` %s, %s: %s\n", escape(s.Name(&in)), in.ID, in.Severity, in.Status,
			httpio.Cut(escape(in.Title), 120))
	}
	for _, c := range s.Clusters {
		if h, ok := s.View.Halted(c); ok {
			fmt.Fprintf(&b, ":octagonal_sign: First aid is halted in %s by %s\n", escape(c),
				escape(h.Actor.String()))
		}
	}
	switch {
	case open == 0:
		return "No incident is open.\n" + b.String()
	case open > listMost:
		fmt.Fprintf(&b, "and %d more", open-listMost)
	}
	return b.String()
}

// storyMost bounds the steps of each kind in an answer in Slack. No playbook of the library has as
// many.
const storyMost = 10

// actionsMost bounds the actions in an answer.
const actionsMost = 5

// show returns an incident: how it ended, or what is wrong and what to do, then its actions.
func (s *Chat) show(in state.Incident, actions []state.Action) string {
	var b strings.Builder
	d, ended := in.Diagnosis, state.EndText(&in, actions, s.Titles.Signal)
	fmt.Fprintf(&b, "*%s %s*\n`%s` %s, %s, %s\n", escape(s.Name(&in)), httpio.Cut(escape(in.Title), 200),
		in.ID, in.Severity, in.Status, text.Count(in.AlertCount, "alert"))
	if ended != "" {
		b.WriteString(escape(ended) + "\n")
	}
	fmt.Fprintf(&b, "Cause: *%s*", escape(string(in.Cause())))
	if sure := report.Sureness(in.Cause(), d.Confidence); !in.DiagnosedAt.IsZero() && sure != report.NoVerdict {
		fmt.Fprintf(&b, ", %s sure", sure)
	} else if !in.DiagnosedAt.IsZero() {
		fmt.Fprintf(&b, " (%s)", sure)
	}
	b.WriteByte('\n')
	part := func(label, words string) {
		if words != "" {
			fmt.Fprintf(&b, "*%s*  %s\n", label, escape(words))
		}
	}
	if ended != "" {
		part("The diagnosis was", d.Story.What)
		return b.String()
	}
	part("What is wrong", d.Story.What)
	part("Why we believe it", d.Story.Why)
	for _, part := range []struct {
		label string
		lines []string
	}{{"Do now", d.Story.Do}, {"Do not", d.Story.Avoid}} {
		if len(part.lines) > 0 {
			fmt.Fprintf(&b, "*%s*\n", part.label)
		}
		for _, l := range part.lines[:min(len(part.lines), storyMost)] {
			fmt.Fprintf(&b, "• %s\n", httpio.Cut(escape(l), 400))
		}
	}
	if len(actions) > 0 {
		b.WriteString("*First aid*\n")
	}
	// What needs a person comes first, then the newest.
	actions = slices.Clone(actions)
	slices.Reverse(actions)
	slices.SortStableFunc(actions, func(a, b state.Action) int { return cmp.Compare(b.Need(), a.Need()) })
	for _, a := range actions[:min(len(actions), actionsMost)] {
		fmt.Fprintf(&b, "• `%s` %s (%s)\n", a.ID, httpio.Cut(escape(a.Change), 120),
			strings.ReplaceAll(string(a.State), "_", " "))
		if said := state.GuardText(a.Guards, a.State); said != "" && a.State.BeforeEffect() {
			fmt.Fprintf(&b, "   %s\n", httpio.Cut(escape(said), 300))
		}
		if a.State == state.AwaitingApproval {
			fmt.Fprintf(&b, "   `/paramedic approve %s %s`\n", a.ID, state.ShortPlan(a.PlanHash))
		}
	}
	if more := len(actions) - actionsMost; more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	part("What else it could be", d.Story.Else)
	return b.String()
}
