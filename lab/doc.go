// Package lab is a simulated pool of vLLM, SGLang, Dynamo or TensorRT-LLM workers on Kubernetes,
// good enough that a bot which reads its pages and acts on its workers cannot tell.
//
// What is simulated is the mechanism, not the symptoms. Every worker runs the V1 scheduler:
// requests wait for a slot and for KV blocks, running ones are decoded first, prefill fills the
// rest of the token budget in chunks, shared prefixes are cached and evicted in the order in which
// they were freed, and when blocks run out the newest request is preempted and computed again from
// its start. A step lasts what memory bandwidth and arithmetic allow (see [Cost]). A [Fault]
// changes a cause (the traffic, a limit, the router, a GPU, a leak), and the metrics follow.
//
// The package promises:
//
//   - Time is the caller's: [Fleet.Advance] simulates up to a moment, and nothing happens in
//     between calls. [Clock] maps real time to simulated time at any speed, for a bot that has to
//     live in it.
//   - The same [Config], faults and calls make the same pages, byte for byte.
//   - Pages have the names, labels, types and bucket edges of the [Kind], dcgm-exporter,
//     kube-state-metrics and cAdvisor, and the engines' bad habits too: queue, prefill, decode and
//     end-to-end times are observed only when a request finishes, the Xid gauge keeps its last code
//     for ever, and a worker that loads its model serves no page.
//   - [Rules] carries every alert rule twice, as PromQL for a real Prometheus and as Go for the
//     [Ruler]; [Alertmanager] groups what fires and posts genuine version 4 webhooks.
//
// It does not simulate the network, the tokenizer or the answers' text (only how many of them
// refuse or are empty), and it never touches a real cluster.
//
// A direct scrape has no relabelling, so a page by itself does not say which pod it came from.
// [Fleet.Handler] can add the labels that a scrape configuration would (see [HandlerConfig]), by
// Prometheus's own rule for clashes: a label of the page that a target label hides becomes
// exported_<name>, unless the target's job honours labels.
package lab
