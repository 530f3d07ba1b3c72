// Package access decides who may send a request: Alertmanager, a person with a token or a login, or
// a program on this machine.
//
// Secrets are read again when their files change. They are compared in constant time, and appear in
// no log line and no error. Logins are sessions that end. The number of wrong tokens per source and
// in total is bounded. Requests without authentication pass only if they name this machine and come
// from no other site.
//
// The file of API tokens is a YAML list, strictly decoded. A changed file that is invalid is
// refused, and the entries before it stay valid:
//
//   - {token: 3f0c…, name: ana, role: responder, slack_user: U02ABC}
//   - {token: 9d7e…, role: viewer}
//
// A role is viewer, responder or admin. A request with a token that has no name gives the name in
// its body, and the name is marked as unverified.
package access
