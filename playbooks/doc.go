// Package playbooks is what a good on-call engineer knows about each cause: what it means, what to
// check, what helps, what makes it worse and whom to call. A playbook is a Markdown file with YAML
// front matter; the built-in ones are in library/, and a user's directory adds to them or replaces
// them by ID.
//
// The package promises that a playbook that loads is whole: the front matter is decoded strictly,
// every problem of every file is reported at once with its file and line, and the body has the
// sections that a reader relies on. Rendering fills each check with the live answer from the
// incident's evidence; what was not measured is said to be not measured, and never counts as
// healthy. A playbook's text is trusted as far as Markdown goes: raw HTML in it is dropped, and so
// is every link that is not http, https, mailto or local.
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
//	    below: false             # true: low values are the bad ones
//	    broken: false            # true: asked of the workers that the verdict names alone
//	    unit: ratio
//	    bad: [OOMKilled]         # for signals that are words: these are the bad ones
//	    by_hand: kubectl …       # how to answer it without Paramedic
//	first_aid:
//	  - text: Lower max_num_seqs by a rolling restart.
//	    when: Preemptions outrun finished requests.
//	    action: set_engine_arg   # only where Paramedic can do it itself
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
// and {node} are replaced by the incident's scope, but only by names that mean nothing to a shell.
//
// Settings and metrics are written with vLLM's names (max_num_seqs, vllm:kv_cache_usage_perc). For
// an incident on SGLang, TensorRT-LLM or Dynamo they are rendered with that engine's (engines.go),
// but not in a sentence that says vLLM by name; where nobody knows the engine, all are shown.
package playbooks
