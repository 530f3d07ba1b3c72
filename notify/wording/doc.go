// Package wording renders the operator's own templates. They are written as Alertmanager's are:
// with the same functions and data, and .Incident (see [Data]).
//
// Templates with these names are used. The others exist to be called by them:
//
//	paramedic.slack.title         the headline, after the icon and the incident's number:
//	                              one line of plain text
//	paramedic.slack.text          replaces the story, the advice and the evidence: Slack's mrkdwn
//	paramedic.slack.footer        the beginning of the last line: one line of plain text
//	paramedic.pagerduty.summary   the page's summary, after the incident's number: one line
//	paramedic.pagerduty.details   the page's details: text, or a JSON object
//	paramedic.links               links for both, one per line: https://… and a title
//
// It promises:
//
//   - A template that cannot be used is refused when it is loaded, with its file and line.
//   - If a template fails while it is rendered, the built-in text is used.
//   - No template runs or grows without bound: every iteration of a loop, every call of a template
//     and every byte that a function makes is counted
//     (docs/decisions/0023-templates-run-on-a-budget.md).
//   - Text from an alert makes no link and no mention in Slack's mrkdwn, whatever the template does
//     with it.
//
// It must not do I/O while it renders.
package wording
