// Package webhook serves everything that comes in over HTTP: Alertmanager's and PagerDuty's
// webhooks, Slack's commands and buttons, and the REST API with its event stream.
//
// It takes alerts and PagerDuty's events itself. The rest is below it: access (who asks), command
// (what a person orders), api, chat (Slack), alertmanager (the payload), report and httpio. None of
// them decides anything about incidents. The promises:
//
//   - A sender gets 200 only after everything in its request is durable. What cannot be made
//     durable now is answered with 503 and Retry-After, never with 429, because Alertmanager
//     retries 5xx only; nothing of it is kept. The same goes for alerts while triage is too far
//     behind.
//   - One alert that cannot be taken costs none of the others of its payload: it is set aside,
//     counted and shown.
//   - Unauthenticated, malformed, oversized, replayed or wrong-version requests get a clear 4xx and
//     leave nothing behind.
//   - Labels, titles and chat text are data. They are checked for size and for characters that no
//     label has, kept as they are, and escaped where they are shown.
//   - An approval names the plan that the person saw, and the same people may give it through the
//     API, the pages and Slack (docs/decisions/0029).
//   - Only a name that a token vouches for is an approver's.
package webhook
