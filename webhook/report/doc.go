// Package report writes the post-incident report in Markdown, and the short texts on verdicts that
// the API, Slack and the command line share.
//
// Text from outside is escaped, so that it is shown literally.
package report
