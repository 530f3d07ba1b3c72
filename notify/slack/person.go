package slack

import (
	"fmt"

	api "github.com/slack-go/slack"

	"paramedic/internal/text"
	"paramedic/notify"
)

// handed adds the button of a run that needs a person, which reports that it is taken care of.
// Without clicks it adds the command.
func (p *page) handed(o notify.Offer) {
	value := fmt.Sprintf("%s|%s", o.ID, o.PlanHash)
	if !p.clicks || len(value) > limitValue {
		p.add(rich(row(words("When it is taken care of, say so on the page, or with paramedic cancel " +
			string(o.ID)))))
		return
	}
	ask := text.Cut(fmt.Sprintf("%s on %s: is it as it should be? The pool may get first aid again after that.",
		o.Change, o.Target), limitConfirm)
	p.left -= text.Len(ask)
	confirm := api.NewConfirmationBlockObject(plain("Taken care of?"), plain(ask), plain("It is taken care of"),
		plain("Not yet"))
	button := api.NewButtonBlockElement(ActionCancel, value, plain("Taken care of")).WithConfirm(confirm)
	p.add(api.NewActionBlock("cancel."+string(o.ID), button))
}
