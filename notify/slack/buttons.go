package slack

import (
	"fmt"

	api "github.com/slack-go/slack"

	"paramedic/internal/text"
	"paramedic/notify"
	"paramedic/state"
)

// handed adds the button of a run that needs a person, which confirms that it is fixed.
// Without clicks it adds the command.
func (p *page) handed(o notify.Offer) {
	value := fmt.Sprintf("%s|%s", o.ID, o.PlanHash)
	if !p.clicks || len(value) > limitValue {
		p.add(rich(row(words("When it is fixed, confirm it on the page, or with paramedic cancel " +
			string(o.ID)))))
		return
	}
	ask := text.Cut(fmt.Sprintf("Is %s on %s fixed? After that, Paramedic may act on this pool again.",
		o.Change, o.Target), limitConfirm)
	p.left -= text.Len(ask)
	confirm := api.NewConfirmationBlockObject(plain("Is it fixed?"), plain(ask), plain("It is fixed"),
		plain("Not yet"))
	button := api.NewButtonBlockElement(ActionCancel, value, plain("Taken care of")).WithConfirm(confirm)
	p.add(api.NewActionBlock("cancel."+string(o.ID), button))
}

// decides reports whether a click can decide on an action. A button that could only be refused is
// not shown.
func (p *page) decides(o notify.Offer) bool { return p.clicks && p.approves(o.Approvers) }

// decide adds the buttons of an action that waits for approval. Their value binds the click to the
// plan that is shown.
func (p *page) decide(o notify.Offer) {
	value := fmt.Sprintf("%s|%s", o.ID, o.PlanHash)
	if len(value) > limitValue {
		return // not one of our plans
	}
	title := "Approve first aid?"
	ask := text.Cut(fmt.Sprintf("%s on %s. %s", o.Change, o.Target, o.Why), limitConfirm)
	p.left -= text.Len(ask)
	confirm := api.NewConfirmationBlockObject(plain(title), plain(ask), plain("Approve"), plain("Not now"))
	approve := api.NewButtonBlockElement(ActionApprove, value,
		plain("Approve")).WithStyle(api.StylePrimary).WithConfirm(confirm)
	deny := api.NewButtonBlockElement(ActionDeny, value, plain("Deny")).WithStyle(api.StyleDanger)
	p.add(api.NewActionBlock("decide."+string(o.ID), approve, deny))
}

// buttons adds the buttons of the incident itself.
func (p *page) buttons(m notify.Message) {
	var elements []api.BlockElement
	if p.clicks && m.Status != state.StatusResolved && !m.Acknowledged() {
		elements = append(elements, api.NewButtonBlockElement(ActionAck, string(m.Incident), plain("Acknowledge")))
	}
	if m.URL != "" && len(m.URL) <= limitURL {
		elements = append(elements, api.NewButtonBlockElement(ActionOpen, "", plain("Open page")).WithURL(m.URL))
	}
	if len(elements) > 0 {
		p.add(api.NewActionBlock("incident."+string(m.Incident), elements...))
	}
}

func (p *page) footer(m notify.Message) {
	var e []api.RichTextSectionElement
	link := func(url, title string) {
		if len(e) > 0 {
			e = append(e, words("  ·  "))
		}
		title = text.Cut(title, 150)
		if url == "" || len(url) > limitURL {
			e = append(e, words(title))
			return
		}
		e = append(e, api.NewRichTextSectionLinkElement(url, title, nil))
	}
	if m.Words.Footer != "" {
		link("", p.text(m.Words.Footer, 300))
	}
	for _, l := range m.Words.Links {
		link(l.URL, l.Text)
	}
	if m.PlaybookID != "" && m.Status != state.StatusResolved {
		title := m.PlaybookTitle
		if title == "" {
			title = m.PlaybookID
		}
		link(m.PlaybookURL, "Playbook: "+title)
	}
	if p.cut {
		link(m.URL, "Shortened. The incident's page has the rest.")
	}
	for _, why := range m.Words.Failed {
		link("", why)
	}
	link("", string(m.Incident))
	p.add(rich(row(e...)))
}
