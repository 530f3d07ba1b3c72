// Package condition compiles the conditions of the catalogue and evaluates them for a [Subject].
//
// The expression is CEL (https://cel.dev) without macros, so it always terminates. Its regular
// expressions are limited (internal/pattern). Every signal is a variable with these fields:
//
//	value     the entity's own value; for a pool its own series, or else the mean of its pods
//	max min avg sum count   over the pods of the scope, for every entity
//	baseline  the value an hour before the onset; see below
//	hour_ago  the value an hour before the onset, for every signal
//	day_ago week_ago        of key signals, at the same hour of the day and the week before
//	z         distance from the hour before the onset, in standard deviations
//	text      the value of a signal that is a word
//
// If a signal swings with the traffic, its baseline is the value of the hour before the onset that
// is nearest to the present one and older than the incident. If a signal is younger than an hour,
// its baseline is the mean of its first minutes. In an expression with the baselines of several
// signals, each baseline is hour_ago, so that all are of one moment. If the pool was already in
// trouble an hour before the onset, the baseline and hour_ago are the value a day ago.
//
// These functions and variables read the alerts and the scope:
//
//	has_symptom("ttft_high")       an alert of the incident has this symptom
//	only_symptom("ttft_high")      and none has another
//	began_before("kv_pressure", "aborts")   it has both; the first began over a minute earlier
//	lasted("ttft_high", 240.0)     it has the symptom for at least this many seconds
//	hint("xid")                    a fact that an alert carried; "" if none did
//	xid_class(gpu_xid.value)       "hardware", "application", "notice" or "" by the table of Xids
//	alerted_xid("hardware")        the worst Xid of the alerts, not of the sticky gauge
//	role        "prefill" or "decode" if the pool has separate workers for both phases; else ""
//	worker      the pod itself, or the pod that uses the GPU; "" if unknown or for the whole scope
//	workers     the number of workers in the scope; 0 if unknown
//	trouble_age the seconds within which the trouble began: 1800, or 21600 if the pool was in
//	            trouble for over half an hour before the onset
//	pool_known  the alerts name their pool; if not, the health of a guessed pool is no evidence
//
// For a GPU that reported Xids within 15 minutes, gpu_xid is the worst of them. It comes from the
// exporter's count, from the changes of the gauge, and from the alerts that name the GPU. The gauge
// itself holds only the last Xid, which is the driver's reaction to the worst one.
//
// With "per: pod" (gpu, node) the expression is evaluated for each entity, and one match is enough.
// "of: minority" requires at least one match, and at most half of two or more entities. "of: all"
// requires every entity to match. "marks: true" marks the matching entities as broken. An
// expression has no answer if a signal or field that it needs is missing: the evidence is then
// neutral and listed as missing.
package condition
