// Package catalog holds the knowledge: symptoms, alert rules, driver errors, causes and
// pathologies. [Load] reads it once, and no entry changes afterwards.
//
// The knowledge is in YAML files. The files in catalog/ are part of the program. A user's directory
// adds entries, or replaces entries that have the same ID. A file may have the keys below. Load
// reports unknown keys, unknown names and expressions that do not compile, with file and line:
//
//	symptoms:    [{id, title}]                    an alert's meaning
//	alerts:      [{name, symptom, hints}]         symptoms by the name of an alert rule
//	metrics:     [{any, is, also, idle, symptom}] symptoms by the metrics of a rule's expression
//	words:       [{any, symptom}]                 symptoms by words in a rule's name
//	recoveries:  [{id, title, action, do, avoid}] actions after a GPU's driver error
//	xids:        [{code, name, class, needs, …}]  NVIDIA's driver errors
//	causes:      [{id, title, prior, explains, evidence, …}]
//	pathologies: [{id, title, when, text, …}]     published patterns of a pool's health
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
//	    else:
//	      weight: -8
//	      when: kv_usage.max < 0.9
//	      text: "KV cache has room ({kv_usage.max} at most)"
package catalog
