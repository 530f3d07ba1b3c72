package topology

import (
	"cmp"
	"strings"

	"paramedic/internal/text"
	"paramedic/state"
)

// Target returns the most specific known name of the affected scope.
func Target(s state.Scope) string {
	return cmp.Or(s.Model, s.Pool, text.List(s.Pods), text.List(s.Nodes), s.Namespace, "the fleet")
}

// DeploymentOf returns the Deployment that created a ReplicaSet. If the name does not end in a
// hash, it returns the ReplicaSet.
func DeploymentOf(replicaSet string) string {
	const pod = "-zzzzz"
	return cmp.Or(PoolOf(replicaSet+pod), replicaSet)
}

// noHash are letters and digits that Kubernetes never puts into a name that it makes up
// (SafeEncodeString of k8s.io/apimachinery/pkg/util/rand). Before a genuine suffix they are a part
// of the workload's name: vllm-qwen3-x7k2q is a DaemonSet's pod.
const noHash = "aeiouy013"

// PoolOf guesses the workload from a pod's name, for pods that are unknown to the topology. It
// returns "" if the name has no known form. A LeaderWorkerSet's rank (name-0-1) looks like a
// StatefulSet's pod (llama-3-0): its pool is then its leader's name, which the topology maps to the
// pool.
func PoolOf(pod string) string {
	suffix := suffixPod.FindStringSubmatch(pod)
	if m := replicaSetPod.FindStringSubmatch(pod); m != nil {
		if suffix != nil && strings.ContainsAny(m[2], noHash) {
			return suffix[1]
		}
		return m[1]
	}
	if m := ordinalPod.FindStringSubmatch(pod); m != nil {
		return m[1]
	}
	if suffix != nil && strings.ContainsAny(pod[len(suffix[1]):], "2456789") {
		return suffix[1]
	}
	return ""
}
