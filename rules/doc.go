// Package rules holds Paramedic's medical knowledge and reasons over it. [Catalog.Classify] maps an
// alert to a symptom. [Catalog.Correlate] and [Catalog.Absorbs] group alerts into incidents.
// [Catalog.Diagnose] names the cause of an incident.
//
// The package is pure. [Load] reads a catalogue once, and nothing changes it afterwards. No
// function reads a clock, a file or the network, and the same arguments give the same bytes. It
// never guesses: missing or stale evidence has no weight and is listed. If the remaining evidence
// does not decide, the verdict is unknown.
//
// The knowledge is in YAML files. The files in catalog/ are part of the program. A user's directory
// adds entries, or replaces entries that have the same ID. A file may have the keys below. Load
// reports unknown keys, unknown names and expressions that do not compile, with file and line:
//
//	symptoms:  [{id, title}]                    what an alert can mean
//	alerts:    [{name, symptom, hints}]         symptoms of alert rules, by the rule's name
//	metrics:   [{any, is, also, idle, symptom}] symptoms by the metrics of a rule's expression
//	words:     [{any, symptom}]                 symptoms by words in a rule's name, if nothing else is known
//	recoveries: [{id, title, action, do, avoid}] what a GPU needs after a driver error, the worst first
//	xids:      [{code, name, class, needs, action}] NVIDIA's driver errors
//	causes:    [{id, title, prior, explains, evidence, …}]
//	pathologies: [{id, title, when, text, points_to, …}] published patterns, shown with a pool's health, without weight
//
// # Evidence
//
// A cause's score is in decibans, ten times the decimal logarithm of the odds: +10 makes it ten
// times likelier. The score is a sum: the prior, a weight for each explained symptom, and the
// weight of each piece of evidence that holds. Each symptom that the cause does not explain costs a
// fixed sum. The findings list every term, so a reader can check the sum.
//
//	evidence:
//	  - when: kv_usage.value > 0.95
//	    per: pod
//	    marks: true
//	    weight: 8
//	    text: "KV cache {kv_usage} full on {pod}"
//	    expects: some worker's KV cache above 95 %
//	    else: {weight: -8, when: kv_usage.max < 0.9, text: "KV cache has room ({kv_usage.max} at most)"}
//
// The expression is CEL (https://cel.dev) without macros, so it always terminates. Every signal is
// a variable with these fields:
//
//	value     the entity's own value; for a pool its own series, or else the mean of its pods
//	max min avg sum count   over the pods of the scope, for every entity
//	baseline  the value an hour before the onset. If the signal swings with the traffic, it is the value
//	          of that hour that is nearest to the present one and older than the incident. If the signal
//	          is younger than an hour, it is the mean of its first minutes. In an expression with the
//	          baselines of several signals, each baseline is hour_ago, so that all are of one moment
//	hour_ago  the value an hour before the onset, for every signal
//	day_ago week_ago        of key signals, at the same hour of the day and the week before
//	z         distance from the hour before the onset, in standard deviations
//	text      the value of a signal that is a word
//
// These functions read the alerts and the scope:
//
//	has_symptom("ttft_high")   an alert of the incident has this symptom
//	only_symptom("ttft_high")  and none has another
//	began_before("kv_pressure", "aborts")   it has both, and the first began over a minute before the second
//	lasted("ttft_high", 240.0)   it has it, and has had it for this many seconds
//	hint("xid")                a fact that an alert carried; "" if none did
//	xid_class(gpu_xid.value)   "hardware", "application", "notice" or "", from the table of Xids
//	alerted_xid("hardware")    the worst Xid that an alert carried is of this class; rules on the sticky gauge do not count
//	role                       "prefill" or "decode" if the pool has separate workers for both phases; else ""
//	worker                     the pod itself, or the pod that uses the GPU; "" if unknown or if the entity is the whole scope
//	workers                    the number of workers in the scope; 0 if unknown
//	pool_known                 the alerts name their pool; if not, the health of a guessed pool is no evidence
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
package rules
