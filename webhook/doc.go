// Package webhook is everything that comes in over HTTP: Alertmanager's webhook, Slack's commands
// and buttons, PagerDuty's V3 webhooks, and the REST API with its event stream.
//
// It authenticates, bounds, decodes and appends to the input log, and it reads the view; it decides
// nothing about incidents. Its promises:
//
//   - A sender hears 200 only after everything in its request is durable. What cannot be made
//     durable now is answered with 503 and Retry-After, never with 429, because Alertmanager
//     retries 5xx only; nothing of it is kept. The same goes for alerts while triage is too far
//     behind.
//   - One alert that cannot be taken costs none of the others of its payload: it is set aside,
//     counted and shown.
//   - Unauthenticated, malformed, oversized, replayed or wrong-version requests get a clear 4xx and
//     leave nothing behind.
//   - Labels, titles and chat text are data. They are checked for size and for characters that no
//     label has, kept as they are, and escaped where they are shown.
//   - What needs no proof of who asks is given to requests that name this machine and come from no
//     other site.
//   - An approval names the plan that the person saw, and the same people may give it at every door
//     (docs/decisions/0029).
//   - A name that no token vouches for is no approver's. Logins are sessions that end, and guesses
//     at tokens are bounded.
//   - Secrets are re-read when their files change, compared in constant time, and appear in no log
//     line and no error.
//
// The file of API tokens is a YAML list, strictly decoded; an invalid new version is refused and
// the old one kept:
//
//   - {token: 3f0c…, name: ana, role: responder, slack_user: U02ABC} # role: viewer, responder or
//     admin
//   - {token: 9d7e…, role: viewer} # no name: the request's body says who asks, and that is marked
//     as unverified
package webhook
