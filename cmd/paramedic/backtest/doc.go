// Package backtest plays the alerts of the past through the bot's own rules. It shows what the bot
// would have made of them, and what it would have done. It reads the ALERTS series and all evidence
// from one Prometheus, at the times of the past. It writes to no cluster and sends no message.
//
// It reads the window in pieces of at most [piece], and keeps only open incidents, the alerts that
// fire, and sums. After each piece it can write a state file, from which another run continues with
// the same result.
package backtest
