// Bars measures how near the bot is to its machine's limit, and prints each result beside its bar,
// the one that misses its bar most first. "make bench" runs it in a quarter of an hour.
//
// It builds the bot, runs it as a process with its default settings and a new directory on the disk
// of the repository, and sends it payloads as Alertmanager writes them. It learns what the bot did
// from its answers, its /metrics page, /proc and its end by SIGKILL. Three benchmarks of package
// cmd/paramedic/service measure what no sender can see.
//
// The other side of a ratio runs on the same machine, in turns with the bot:
//
//   - a Go server that reads each request and answers 200: this program again
//   - a real Alertmanager, at $ALERTMANAGER or where Debian installs it, which takes the same
//     alerts in batches of 50 and keeps them in memory. It groups them as the bot's incidents, and
//     notifies nobody.
//
// With -scale it only fills one bot with up to a million active alerts of 1,000 clusters, and
// prints its rate, its memory and its time to start at each doubling.
//
// The senders share the processors with both sides. A rate counts only alerts that were accepted;
// a row names refused payloads.
package main
