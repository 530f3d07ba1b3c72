// Package command carries out what a person orders: it finds the incident or action, checks that the
// order makes sense, makes it durable, and waits until it is applied.
//
// The API, the pages and Slack give the same orders in the same way (docs/decisions/0029). An
// approval names the plan that the person saw.
package command
