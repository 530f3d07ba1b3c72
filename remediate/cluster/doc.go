// Package cluster declares what first aid reads and writes in a Kubernetes cluster: the objects,
// the calls, and the errors that callers distinguish.
//
// It imports nothing of the product. Package kube implements it over an API server, and package
// simcluster in memory.
package cluster
