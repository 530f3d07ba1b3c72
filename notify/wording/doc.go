// Package wording renders the operator's own templates, written as Alertmanager's are: the same
// functions, the same data and .Incident beside it (see [Data]).
//
// Templates that have one of these names are used; the others are there to be called by them:
//
//	paramedic.slack.title         the headline, after the icon and the incident's number; one line of plain text
//	paramedic.slack.text          what stands in place of the story, the advice and the evidence; Slack's mrkdwn
//	paramedic.slack.footer        the beginning of the last line; one line of plain text
//	paramedic.pagerduty.summary   the page's summary, after the incident's number; one line
//	paramedic.pagerduty.details   the page's details: text, or a JSON object
//	paramedic.links               links for both, a line each: https://… and what it is called
//
// It promises:
//
//   - A template that cannot be used is refused when it is loaded, with its file and line.
//   - One that fails while it is rendered gives an error and no text, so that the built-in words
//     stand in.
//   - None runs without end and none grows without bound: every turn of a loop, every template that
//     is called and every byte that a function makes is counted
//     (docs/decisions/0023-templates-run-on-a-budget.md).
//   - What came out of an alert makes no link and no mention in Slack's mrkdwn, whatever the
//     template does with it.
//
// It must not do I/O while it renders.
package wording
