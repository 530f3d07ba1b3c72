// Package slack shows incidents in a Slack channel. An incident has one message, which is posted
// once and edited in place, and its timeline in the message's thread. Buttons acknowledge the
// incident, approve and deny actions, and report that a run is taken care of.
//
// It promises:
//
//   - One message: after an attempt with an unknown outcome it looks for the message by its
//     metadata (event type paramedic_incident) before it posts again. It does the same for the
//     entries in the thread.
//   - Texts are shortened to Slack's limits, with a link to the incident's page. If Slack still
//     refuses the blocks, the message is sent in its shortest form.
//   - Text from an alert is never markup: it is sent as rich text or plain text, in which Slack
//     reads no mentions, links or formatting. The notification's text is read as markup, and is
//     escaped.
//
// The buttons are a contract with the receiver of the clicks:
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

// The event types of the messages' metadata, which find a message again.
const (
	EventIncident = "paramedic_incident"
	EventTimeline = "paramedic_timeline"
)
