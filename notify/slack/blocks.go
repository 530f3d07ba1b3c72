package slack

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	api "github.com/slack-go/slack"

	"paramedic/internal/text"
	"paramedic/notify"
	"paramedic/state"
)

// Slack's limits that messages can reach (https://docs.slack.dev/reference/block-kit/blocks). The
// cap on all text of a message is not documented. Slack refused messages of 11,300 characters as
// msg_blocks_too_long, so ours stay below 10,000.
const (
	limitBlocks  = 50
	limitHeader  = 150
	limitText    = 3000
	limitButton  = 75
	limitValue   = 2000
	limitURL     = 3000
	limitConfirm = 300
	budget       = 8500 // of text from outside; labels and buttons have the rest

	maxOffers = 6 // actions shown
	maxFull   = 3 // actions with the details for a decision, and buttons
)

// A page builds a message's blocks within the budget.
type page struct {
	blocks []api.Block
	left   int
	cut    bool
	clicks bool // buttons work
	// approves reports whether any Slack user may approve an action with these approvers.
	approves func(approvers []string) bool
}

// text returns at most limit of s, and at most the rest of the budget, which it uses up. A block
// must not be empty, so an empty text becomes a dash.
func (p *page) text(s string, limit int) string {
	limit = min(limit, p.left)
	if text.Len(s) > limit {
		p.cut = true
		s = text.Cut(s, max(limit, 1))
	}
	if strings.TrimSpace(s) == "" {
		s = "–"
	}
	p.left -= text.Len(s)
	return s
}

func (p *page) add(b ...api.Block) { p.blocks = append(p.blocks, b...) }

func plain(s string) *api.TextBlockObject {
	return api.NewTextBlockObject(api.PlainTextType, s, false, false)
}

func words(s string) api.RichTextSectionElement { return api.NewRichTextSectionTextElement(s, nil) }

func strong(s string) api.RichTextSectionElement {
	return api.NewRichTextSectionTextElement(s, &api.RichTextSectionTextStyle{Bold: true})
}

func code(s string) api.RichTextSectionElement {
	return api.NewRichTextSectionTextElement(s, &api.RichTextSectionTextStyle{Code: true})
}

func row(e ...api.RichTextSectionElement) api.RichTextElement { return api.NewRichTextSection(e...) }

// rich returns a block of rows, each on a line of its own. Some of Slack's clients end no line
// after a section.
func rich(rows ...api.RichTextElement) api.Block {
	for i, r := range rows[:len(rows)-1] {
		if s, ok := r.(*api.RichTextSection); ok && rows[i+1].RichTextElementType() == api.RTESection {
			s.Elements = append(s.Elements, words("\n"))
		}
	}
	return api.NewRichTextBlock("", rows...)
}

// bullets returns a titled list, or nil for an empty list.
func (p *page) bullets(title string, lines []string, most, limit int) []api.RichTextElement {
	return p.list(api.RTEListBullet, title, lines, most, limit)
}

// steps returns a titled, numbered list.
func (p *page) steps(title string, lines []string, most, limit int) []api.RichTextElement {
	return p.list(api.RTEListOrdered, title, lines, most, limit)
}

func (p *page) list(style api.RichTextListElementType, title string, lines []string, most,
	limit int) []api.RichTextElement {
	if len(lines) == 0 {
		return nil
	}
	if len(lines) > most {
		p.cut = true
		lines = lines[:most]
	}
	var rows []api.RichTextElement
	for _, l := range lines {
		rows = append(rows, row(words(p.text(l, limit))))
	}
	return []api.RichTextElement{row(strong(title)), api.NewRichTextList(style, 0, rows...)}
}

// render returns the blocks of a message.
func (n *Notifier) render(m notify.Message) []api.Block {
	p := &page{left: budget, clicks: n.clicks(), approves: n.approves}
	p.add(api.NewHeaderBlock(plain(p.text(headline(m), limitHeader))))
	p.add(api.NewContextBlock("", plain(p.text(facts(m), 400))))
	if m.Status == state.StatusResolved {
		p.resolved(m)
	} else {
		p.open(m)
	}
	p.buttons(m)
	p.footer(m)
	return p.blocks[:min(len(p.blocks), limitBlocks)]
}

// brief returns the message in its shortest form: the fault and a link to the page.
func (n *Notifier) brief(m notify.Message) []api.Block {
	p := &page{left: 600, cut: true, clicks: n.clicks()}
	p.add(api.NewSectionBlock(plain(p.text(headline(m), 200)), nil, nil))
	p.add(api.NewSectionBlock(plain(p.text(m.What, 400)), nil, nil))
	p.buttons(m)
	p.footer(m)
	return p.blocks
}

func headline(m notify.Message) string {
	icon := map[state.Severity]string{state.Critical: "🔴", state.Warning: "🟠"}[m.Severity]
	switch {
	case m.MergedInto != "": // the problem goes on
		icon = "↪️"
	case m.Status == state.StatusResolved:
		icon = "✅"
	case icon == "":
		icon = "🔵"
	}
	return fmt.Sprintf("%s %s %s", icon, m.Name(), m.Headline())
}

// facts returns the line under the headline: how bad, how sure, where, since when.
func facts(m notify.Message) string {
	parts := []string{m.Gravity()}
	if m.MergedInto != "" {
		parts = append(parts, "merged")
	} else if m.Status == state.StatusMitigating || m.Status == state.StatusMonitoring || m.Status == state.StatusResolved {
		parts = append(parts, string(m.Status))
	}
	parts = append(parts, m.Place, text.Count(m.Alerts, "alert"), "since "+clock(m.StartedAt))
	if !m.AckedAt.IsZero() {
		parts = append(parts, "acknowledged by "+m.AckedBy.String())
	}
	return strings.Join(parts, " · ")
}

func clock(t time.Time) string { return t.UTC().Format("Jan 2 15:04 UTC") }

// limitOwn bounds the operator's own text, in one block.
const limitOwn = 2900

// operatorText adds the operator's own text in place of the built-in one, and reports whether there
// is one. The text has markup. Text from an alert makes no link or mention in it, and the block is
// verbatim, so that Slack adds none.
func (p *page) operatorText(m notify.Message) bool {
	if m.Words.Text == "" {
		return false
	}
	p.add(api.NewSectionBlock(api.NewTextBlockObject(api.MarkdownType, p.text(m.Words.Text, limitOwn), false, true),
		nil, nil))
	return true
}

func (p *page) open(m notify.Message) {
	own := p.operatorText(m)
	if !own {
		p.story(m)
	}
	for i, o := range m.Actions {
		if i == maxOffers {
			p.cut = true
			break
		}
		p.offer(o, i < maxFull)
	}
	if !own {
		p.background(m)
	}
}

// story adds what is wrong, why, and what to do.
func (p *page) story(m notify.Message) {
	p.add(rich(row(strong("What is wrong  "), words(p.text(m.What, 900))),
		row(strong("Why we believe it  "), words(p.text(m.Why, 700)))))
	parts := p.steps("Do now", m.Do, 6, 300)
	parts = append(parts, p.bullets("Do not", m.Avoid, 6, 240)...)
	if len(parts) > 0 {
		p.add(rich(parts...))
	}
}

// background adds what a reader needs only after the advice: the other cause, the phases of late
// requests, and the evidence and the checks that the story does not name.
func (p *page) background(m notify.Message) {
	var parts []api.RichTextElement
	if m.Else != "" {
		parts = append(parts, row(strong("What else it could be  "), words(p.text(m.Else, 400))))
	}
	if m.Time != "" {
		parts = append(parts, row(strong("Where the time goes  "), words(p.text(m.Time, 400))))
	}
	evidence := m.MoreEvidence()
	parts = append(parts, p.bullets("More evidence", evidence[:min(len(evidence), 3)], 3, 180)...)
	parts = append(parts, p.bullets("Checked for you", m.CheckLines(), 5, 180)...)
	if len(parts) > 0 {
		p.add(rich(parts...))
	}
}

// resolved adds the summary that replaces an ended incident's message.
func (p *page) resolved(m notify.Message) {
	var rows []api.RichTextElement
	if m.MergedInto != "" {
		rows = append(rows, row(strong("Merged  "),
			words(p.text("It was the same problem as "+m.MergedInto+". Look there.", 400))))
	} else {
		rows = append(rows, row(words(p.text(cmp.Or(m.Ended, "Resolved."), 600))))
	}
	if m.Words.Text == "" {
		rows = append(rows, row(strong("The diagnosis was  "), words(p.text(m.What, 900))))
	}
	var done []string
	for _, o := range m.Actions {
		if m.MergedInto != "" || !o.Wrote { // the end names the others
			done = append(done, strings.TrimSpace(fmt.Sprintf("%s: %s. %s", o.Change, stateText(o), o.Result)))
		}
	}
	rows = append(rows, p.bullets("First aid", done, 5, 300)...)
	p.add(rich(rows...))
	p.operatorText(m)
}

// stateText returns an action's state in words.
func stateText(o notify.Offer) string {
	if o.Stopping {
		return "being cancelled"
	}
	switch {
	case o.NeedsPerson:
		return "needs a person"
	case o.ReleasedBy != "":
		return "taken care of by " + o.ReleasedBy
	}
	switch o.State {
	case state.Proposed:
		return "suggested, nothing changed"
	case state.AwaitingApproval:
		return "waits for approval"
	case state.Approved, state.Admitted, state.Intent:
		if len(o.Stopped()) > 0 {
			return "approved, a guard holds it"
		}
		return "approved, about to start"
	case state.Applied, state.Verifying:
		return "applied, Paramedic verifies it"
	case state.Succeeded:
		return "it helped"
	case state.RollbackIntent:
		return "rolling back"
	case state.RolledBack:
		return "rolled back"
	}
	return strings.ReplaceAll(string(o.State), "_", " ")
}

// offer adds one action: in full if a person may have to decide on it, otherwise in a line.
func (p *page) offer(o notify.Offer, full bool) {
	rows := []api.RichTextElement{row(strong("First aid  "), code(p.text(o.Change, 200)), words("  "+stateText(o)))}
	if o.Result != "" && full {
		rows = append(rows, row(words(p.text(o.Result, 300))))
	}
	if full && o.State.BeforeEffect() {
		rows = append(rows, row(words(p.text(o.Why, 300))))
		if asked := o.Asked(); asked != "" {
			rows = append(rows, row(words(p.text(asked, 300))))
		}
		if o.Command != "" && !o.Awaits() {
			rows = append(rows, row(words("To do it yourself:")), &api.RichTextPreformatted{
				Type: api.RTEPreformatted, Elements: []api.RichTextSectionElement{words(p.text(o.Command, 400))},
			})
		}
		if o.Awaits() && !p.decides(o) {
			rows = append(rows, row(words("Slack cannot approve it. Approve it on the page, or with "+o.ApproveCommand())))
		}
	}
	p.add(rich(rows...))
	if full && o.Awaits() && p.decides(o) {
		p.decide(o)
	}
	if full && o.NeedsPerson {
		p.handed(o)
	}
}

// escape makes text safe for a notification, which Slack reads as markup.
func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "@", "@\u200b",
		"*", "\u200b*", "_", "\u200b_", "~", "\u200b~", "`", "\u200b`").Replace(s)
}
