// Package pipeline proves the whole alert path on real neighbours: the real bot behind a real
// Prometheus and a real Alertmanager that watch the simulated fleet, with strict fakes of Slack and
// PagerDuty at the other end; the same path when the bot is killed at any moment; what the door
// refuses; and how the bot takes a changed configuration and its end.
//
// # Time
//
// Alert rules are written for minutes, and a test should last seconds. What is shortened is only
// the rules file's own waiting: every range and every `for` is divided by 20. The fleet's past is
// not shortened: nine simulated minutes, of which the last four are the fault's, are written into
// Prometheus as the samples that it would have scraped, with promtool, and the fleet then goes on
// at the machine's own pace while Prometheus scrapes its pages every second. So the bot's own
// queries (five-minute rates, baselines) read what they would read in production. Once the fault is
// mended the fleet runs ten times as fast, so that nobody waits for a rollout.
package pipeline
