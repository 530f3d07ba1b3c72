// Package webhook is everything that comes in over HTTP: Alertmanager's webhook, Slack's commands and buttons, PagerDuty's V3
// webhooks, and the REST API with its event stream.
//
// It authenticates, bounds, decodes and appends to the input log, and it reads the view; it decides nothing about incidents. Its
// promises:
//
//   - A sender hears 200 only after everything in its request is durable. What cannot be made durable now is answered with 503 and
//     Retry-After, never with 429, because Alertmanager retries 5xx only; nothing of it is kept.
//   - Unauthenticated, malformed, oversized, replayed or wrong-version requests get a clear 4xx and leave nothing behind.
//   - What is odd about one alert loses neither the alert nor those beside it: Alertmanager drops what is answered with 4xx, and with it
//     a whole group. It is mended, and the answer, the log and a counter say so.
//   - Labels, titles and chat text are data. Characters that no label has are replaced and what is too large is cut; the rest is kept as
//     it is, and escaped where it is shown.
//   - Secrets are re-read when their files change, compared in constant time, and appear in no log line and no error.
//
// The file of API tokens is a YAML list, strictly decoded; an invalid new version is refused and the old one kept:
//
//   - {token: 3f0c…, name: ana, role: responder, slack_user: U02ABC}   # role: viewer, responder or admin
//   - {token: 9d7e…, role: viewer}                                     # no name: the request's body names the actor
package webhook
