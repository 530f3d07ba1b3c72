// Package playbooks holds the knowledge of an on-call engineer about each cause: its meaning, the
// checks, the first aid, the steps that make it worse, and the people to call. A playbook is a
// Markdown file with YAML front matter. The built-in playbooks are in library/, and a user's
// directory adds to them or replaces them by ID.
//
// A playbook that loads is complete. The front matter is decoded strictly, every problem of every
// file is reported at once with its file and line, and the body has the sections that a reader
// relies on. Rendering fills each check with the answer from the incident's evidence. A signal that
// was not measured is shown as not measured, and never counts as healthy. A playbook's text is
// trusted as Markdown only: raw HTML is dropped, and so is every link that is not http, https,
// mailto or local.
//
// The format:
//
//	---
//	id: kv_exhaustion            # the file's name without .md
//	title: KV cache exhausted
//	cause: kv_exhaustion         # the verdict that it answers
//	severity: critical           # critical, warning or info
//	checks:
//	  - id: kv_full
//	    ask: Are KV blocks exhausted?
//	    signal: kv_usage         # a declared signal
//	    agg: max                 # over the pods: max, min, avg or sum
//	    warn: 0.90               # the answer is a warning from here …
//	    crit: 0.97               # … and bad from here
//	    below: false             # true: low values are bad
//	    broken: false            # true: only for the workers that the verdict names
//	    unit: ratio
//	    bad: [OOMKilled]         # for text signals: these words are bad
//	    by_hand: kubectl …       # the same answer without Paramedic
//	first_aid:
//	  - text: Lower max_num_seqs by a rolling restart.
//	    when: Preemptions outrun finished requests.
//	    action: set_engine_arg   # only if Paramedic can do it itself
//	    params: {arg: max_num_seqs, direction: lower}
//	worse:
//	  - Restarting workers under load.
//	escalate: {after: 30m, to: the platform team that owns capacity}
//	---
//	## What it means
//	## Who is affected
//	## By hand
//
// In by_hand and in the body the words {cluster}, {namespace}, {model}, {pool}, {workload}, {pod}
// and {node} are replaced by the names of the incident's scope. Only names without a meaning in a
// shell are used.
//
// Settings and metrics are written with vLLM's names (max_num_seqs, vllm:kv_cache_usage_perc). For
// an incident on SGLang, TensorRT-LLM or Dynamo they are rendered with that engine's names
// (engines.go), but not in a sentence that names vLLM. If the engine is unknown, the names of all
// engines are shown.
package playbooks
