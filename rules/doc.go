// Package rules is Paramedic's medical knowledge, and the reasoning over it: what an alert means
// ([Catalog.Classify]), which alerts are one trouble ([Catalog.Correlate], [Catalog.Absorbs]), and
// what the trouble's cause is ([Catalog.Diagnose]).
//
// It promises to be pure: a catalogue is read once by [Load] and never changes, no function reads a
// clock, a file or the network, and the same arguments give the same answer to the last byte. It
// must not guess: evidence that is missing or stale counts for nothing and is named, and where the
// rest does not decide, the verdict is unknown.
//
// The knowledge is in YAML files: those in catalog/ are part of the program, and a user's directory
// adds to them or replaces entries by ID. A file may have any of these keys; unknown keys, unknown
// names and expressions that do not compile are problems, reported with file and line:
//
//	symptoms:  [{id, title}]                    what an alert can mean
//	alerts:    [{name, symptom, hints}]         alert rules that are known by their name
//	metrics:   [{any, is, also, idle, symptom}] what a rule means by the metrics of its expression
//	words:     [{any, symptom}]                 what a rule means by words in its name, where nothing else is known
//	recoveries: [{id, title, action, do, avoid}] what a GPU needs after a driver error, the worst first
//	xids:      [{code, name, class, needs, action}] NVIDIA's driver errors
//	causes:    [{id, title, prior, explains, evidence, …}]
//	pathologies: [{id, title, when, text, points_to, …}] published patterns that are told beside a pool's health and weigh nothing
//
// # Evidence
//
// A cause's score is in decibans, ten times the decimal logarithm of the odds: +10 makes it ten
// times likelier. It is the prior, plus what each explained symptom adds, less a fixed sum for each
// symptom that the cause does not explain, plus the weight of every piece of evidence that holds.
// Anyone can redo the sum by hand from the findings.
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
// The expression is CEL (https://cel.dev) without macros, so that it always ends soon. Every signal
// is a variable with the fields
//
//	value     the entity's own value; of a pool, its own series where there is one, otherwise the mean of its pods
//	max min avg sum count   over the pods of the scope, whatever entity is looked at
//	baseline  the value an hour before the onset; of what swings with the traffic, the value nearest to the present one in that hour,
//	          as far as it is of before the trouble; of what is known for less than an hour, its first minutes. In an expression that
//	          asks for the baselines of several signals all are of one moment, as hour_ago is
//	hour_ago  the value an hour before the onset, whatever swung since
//	day_ago week_ago        of key signals, at the same hour of the day and the week before
//	z         standard scores away from the hour before the onset
//	text      the value of a signal that is a word
//
// and these functions ask about the alerts and the scope:
//
//	has_symptom("ttft_high")   an alert of the incident has this symptom
//	only_symptom("ttft_high")  and none has another
//	began_before("kv_pressure", "aborts")   it has both, and the first began over a minute before the second
//	lasted("ttft_high", 240.0)   it has it, and has had it for so many seconds
//	hint("xid")                a fact that an alert carried, "" if none did
//	xid_class(gpu_xid.value)   "hardware", "application", "notice" or "" by the table of Xids
//	alerted_xid("hardware")    the worst Xid that an alert carried, of a rule that does not read the sticky gauge, is of this class
//	role                       "prefill" or "decode", the phase that the worker computes where the other has workers of its own; else ""
//	worker                     the pod that is looked at, or that the looked-at GPU serves; "" if that is not known, or of a whole scope
//	workers                    how many workers the scope has; 0 if that is not known
//	pool_known                 the alerts say which pool they are about; where they do not, the health of one that is guessed is no evidence
//
// Of a GPU that reported Xids within 15 minutes, gpu_xid is the worst of them: by the exporter's
// count, the gauge's own course and the alerts that name the GPU. The gauge itself shows the last,
// which is what the driver did about the worst.
//
// With "per: pod" (gpu, node) the expression is asked for each, and holds where it holds for any;
// "of: minority" wants it to hold for at least one and at most half of two or more, "of: all" for
// each. "marks: true" makes those that satisfied it the broken ones. An expression that needs a
// signal or field that is not there has no answer: the evidence is neutral and listed as missing.
package rules
