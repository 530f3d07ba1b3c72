// Package stats sums up the incidents of a time window: how long people and the bot took, which
// alert rules are noisy, and what first aid achieved.
package stats

// Help is the help of the figures, for the command line.
const Help = "\nIt sums up the incidents that opened in the time --since. Times begin when an incident opens:\n" +
	"  diagnosed:    until its first verdict, which may be unknown\n" +
	"  acknowledged: until its acknowledgement that stands\n" +
	"  mitigated:    until it resolved, or until first aid was verified to have helped, if that was earlier\n" +
	"A merged incident counts with the incident that it was merged into. An incident is noise if its verdict is\n" +
	"benign_alert. It is also noise if its alerts ended by themselves: no acknowledgement, no person resolved it, and\n" +
	"first aid wrote nothing. Feedback is the last one of each person on an incident.\n"
