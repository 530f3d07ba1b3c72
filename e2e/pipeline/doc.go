// Package pipeline tests the whole alert path. The real bot runs behind a real Prometheus and a
// real Alertmanager that watch a simulated fleet, with strict fakes of Slack and PagerDuty at the
// other end. Other tests kill the bot at random moments, send payloads that it must refuse, change
// its configuration, and end it under load.
//
// # Time
//
// Alert rules wait for minutes, and a test should take seconds. So every range and every `for` of
// the rules file is divided by 20. The fleet's past has its full length: promtool writes 29
// simulated minutes into Prometheus, of which the fault has the last four. Then the fleet continues
// in real time while Prometheus scrapes its pages every second. So the bot's queries (five-minute
// rates, baselines) read the same as in production. After the repair the fleet runs ten times as
// fast, to shorten the rollout.
package pipeline
