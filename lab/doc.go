// Package lab simulates a pool of vLLM, SGLang, Dynamo or TensorRT-LLM workers on Kubernetes, and
// the faults of its parts. A bot reads its pages and acts on its workers as in a real cluster.
//
// A [Fleet] joins the parts, each of which is a package: the clients' traffic, the services in
// front of the workers, the engines, and the machines. It adds what Kubernetes does: pods, the
// Deployment and its rollouts. A [Fault] changes a cause: the traffic, a limit, the router, a GPU,
// a leak. The lab simulates mechanisms, and the symptoms follow.
//
// The package promises:
//
//   - The caller owns the time: [Fleet.Advance] simulates up to a moment, and nothing happens
//     between calls.
//   - The same [Config], faults and calls make the same pages, byte for byte.
//   - Pages have the names, labels, types and bucket edges of the engine's kind, dcgm-exporter,
//     kube-state-metrics and cAdvisor. They have the exporters' limits, too: engines observe queue,
//     prefill, decode and end-to-end times only when a request ends, the Xid gauge keeps its last
//     code, and a worker that loads its model serves no page.
//
// It does not simulate the network, the tokenizer or the text of answers, except for the share that
// refuses or is empty. It never touches a real cluster.
//
// Each fault's strength is chosen for the load that the default pool carries.
package lab
