// Package slack shows incidents in a Slack channel: one message an incident, posted once and edited
// in place, its timeline in the message's thread, and buttons to acknowledge, approve and deny, and
// to say that a run which needs a person is taken care of.
//
// It promises:
//
//   - One message: after an attempt whose outcome is not known it looks for the message by its
//     metadata (event type paramedic_incident) before it posts again, and the same for what it
//     wrote into the thread.
//   - Slack's limits are held by shortening with a link to the incident's page. Where Slack refuses
//     the blocks all the same, the message goes out in its shortest form.
//   - What came out of an alert is never markup: all of it travels as rich text or plain text, in
//     which Slack reads no mentions, links or formatting; the one text that is read as markup, the
//     notification's, is escaped.
//
// The buttons are a contract with whoever receives the clicks:
//
//	action_id           value
//	paramedic.ack       the incident's ID
//	paramedic.approve   <action ID>|<plan hash>
//	paramedic.deny      <action ID>|<plan hash>
//	paramedic.cancel    <action ID>|<plan hash>
//	paramedic.open      none; the button is a link
package slack

// The action IDs of the buttons.
const (
	ActionAck     = "paramedic.ack"
	ActionApprove = "paramedic.approve"
	ActionDeny    = "paramedic.deny"
	ActionCancel  = "paramedic.cancel"
	ActionOpen    = "paramedic.open"
)

// The event types of the messages' metadata, by which a message is found again.
const (
	EventIncident = "paramedic_incident"
	EventTimeline = "paramedic_timeline"
)
