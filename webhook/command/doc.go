// Package command carries out a person's request. It finds the incident or action, checks that the
// request makes sense, makes it durable, and waits until it is applied.
//
// The API, the pages and Slack make the same requests (docs/decisions/0029). An approval names the
// plan that the person saw.
package command
