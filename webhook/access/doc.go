// Package access decides who may send a request: Alertmanager, a person with a token or a login, or
// a program on this machine.
//
// Secrets are re-read when their files change, compared in constant time, and appear in no log line
// and no error. Logins are sessions that end, and guesses at tokens are bounded. What needs no
// proof of who asks is given to requests that name this machine and come from no other site.
//
// The file of API tokens is a YAML list, strictly decoded; an invalid new version is refused and
// the old one kept:
//
//   - {token: 3f0c…, name: ana, role: responder, slack_user: U02ABC} # role: viewer, responder or
//     admin
//   - {token: 9d7e…, role: viewer} # no name: the request's body says who asks, and that is marked
//     as unverified
package access
