// Package report writes the post-incident report in Markdown, and the short texts on verdicts that
// the API, Slack and the command line share.
//
// Everything that came from outside is escaped: it reads as text.
package report
