package wording

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	gotext "text/template"
	"time"

	"paramedic/internal/text"
	"paramedic/notify"
	"paramedic/state"
)

// maxLinks bounds the links of a message.
const maxLinks = 5

// Words renders the templates of a channel. A template that fails keeps the built-in text. The
// reason is logged, and the name is in Failed.
func (t *Templates) Words(ctx context.Context, ch state.Channel, f notify.Facts, m notify.Message,
	now time.Time) notify.Words {
	var w notify.Words
	as := map[string]escaper{}
	into := map[string]*string{}
	switch ch {
	case state.ChannelSlack:
		as = map[string]escaper{SlackTitle: plain, SlackText: mrkdwn, SlackFooter: plain, Links: plain}
		into = map[string]*string{SlackTitle: &w.Title, SlackText: &w.Text, SlackFooter: &w.Footer}
	case state.ChannelPagerDuty:
		as = map[string]escaper{PagerDutySummary: plain, PagerDutyDetails: lines, Links: plain}
		into = map[string]*string{PagerDutySummary: &w.Title, PagerDutyDetails: &w.Text}
	}
	for _, name := range Names {
		if as[name] == nil || t.set.Lookup(name) == nil {
			continue
		}
		out, err := t.render(ctx, name, as[name], data(f, m, as[name]), now)
		if name != SlackText { // no mention exists elsewhere
			out = unmarkOf.Replace(out)
		}
		switch {
		case err != nil:
		case name == Links:
			w.Links, err = links(out)
		case name == SlackText:
			*into[name] = unmarkOf.Replace(shownOf.Replace(withoutMentions(paragraphs(out))))
		case name == PagerDutyDetails:
			*into[name] = paragraphs(out)
		default:
			*into[name] = text.Clean(out)
		}
		if err != nil {
			t.log.WarnContext(ctx, "a template failed, and the built-in words stand in", "incident", m.Incident, "template", name,
				"err", err)
			w.Failed = append(w.Failed, fmt.Sprintf("%s failed, so the built-in words stand here: %s", name,
				text.Cut(text.Clean(reason(err)), 200)))
		}
	}
	return w
}

// render executes a template within the budget.
func (t *Templates) render(ctx context.Context, name string, v escaper, d Data, now time.Time) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	set, err := t.set.Clone() // each rendering has a budget of its own
	if err != nil {
		return "", fmt.Errorf("preparing the templates: %w", err)
	}
	b := &budget{ctx: ctx, escape: v}
	var out limited
	if err := set.Funcs(b.funcs(now)).ExecuteTemplate(&out, name, d); err != nil {
		return "", err
	}
	return out.String(), nil
}

// bound returns the bound that a template exceeded, or nil.
func bound(err error) error {
	for _, b := range []error{errTime, errSteps, errNested, errMade, errOutput} {
		if errors.Is(err, b) {
			return b
		}
	}
	return nil
}

// reason returns why a template failed: the bound that it exceeded, or the library's error.
func reason(err error) string {
	if over := bound(err); over != nil {
		return over.Error()
	}
	var exec gotext.ExecError
	if errors.As(err, &exec) {
		return strings.TrimPrefix(exec.Error(), "template: ")
	}
	return err.Error()
}

// paragraphs returns a text of several lines. Each line is clean, and at most one empty line
// separates two others.
func paragraphs(s string) string {
	var out []string
	for line := range strings.Lines(s) {
		body := strings.TrimLeft(line, " ")
		indent := min(len(line)-len(body), 8)
		line = strings.Repeat(" ", indent) + text.Clean(body)
		if strings.TrimSpace(line) == "" {
			line = ""
		}
		if line != "" || len(out) > 0 && out[len(out)-1] != "" {
			out = append(out, line)
		}
	}
	return strings.TrimRight(strings.Join(out, "\n"), "\n ")
}

// mention matches Slack's mentions of people, groups and channels.
var mention = regexp.MustCompile(`<[!@#][^<>]*>?`)

// withOwnMentions replaces the brackets of the operator's own mentions by private characters.
func withOwnMentions(literal []byte) []byte {
	return mention.ReplaceAllFunc(literal, func(found []byte) []byte { return []byte(markOf.Replace(string(found))) })
}

// withoutMentions escapes mentions that the operator did not write out. A mention made of a
// template's brackets and a label's text would let the label call people.
func withoutMentions(s string) string {
	return mention.ReplaceAllStringFunc(s, func(found string) string {
		return strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(found)
	})
}

// links reads links, one per line: the address and its title.
func links(s string) ([]notify.Link, error) {
	var out []notify.Link
	for line := range strings.Lines(s) {
		line = text.Clean(line)
		if line == "" {
			continue
		}
		if len(out) == maxLinks {
			return out, fmt.Errorf("it gives more than %d links", maxLinks)
		}
		address, name, _ := strings.Cut(line, " ")
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return out, fmt.Errorf("%q does not begin with an http or https address", text.Cut(line, 80))
		}
		if name == "" {
			name = u.Host
		}
		out = append(out, notify.Link{URL: u.String(), Text: text.Cut(name, 150)})
	}
	return out, nil
}
