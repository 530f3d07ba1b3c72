// Package score plays the lab's faults, decoys and double faults against the bot's own rules on
// simulated time, and counts how often the diagnosis is right. It listens on nothing and sends
// nothing.
package score
