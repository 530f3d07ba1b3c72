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
	front, last := cutLast(pod)
	suffix := len(last) == 5 && all(last, hashLetters+"2456789")
	// a Deployment's pod: name, hash of the ReplicaSet, suffix
	if name, hash := cutLast(front); name != "" && len(last) == 5 && all(last, lowerCase+digits) && replicaSetHash(hash) {
		if suffix && strings.ContainsAny(hash, noHash) {
			return front
		}
		return name
	}
	switch {
	case len(last) >= 1 && len(last) <= 4 && all(last, digits): // a StatefulSet's or LeaderWorkerSet's pod
		return front
	case suffix && strings.ContainsAny(last, digits): // a DaemonSet's pod
		return front
	}
	return ""
}

const (
	digits    = "0123456789"
	lowerCase = "abcdefghijklmnopqrstuvwxyz"
	// hashLetters are the letters of made-up names. Their digits are 2 and 4 to 9.
	hashLetters = "bcdfghjklmnpqrstvwxz"
)

// replicaSetHash reports whether a word may be the hash of a ReplicaSet. One without a digit needs
// the usual length.
func replicaSetHash(word string) bool {
	return len(word) >= 6 && len(word) <= 10 && all(word, hashLetters+digits) ||
		strings.ContainsAny(word, digits) && all(word, lowerCase+digits)
}

// cutLast cuts a name at its last hyphen. Both parts are empty if nothing is before it.
func cutLast(name string) (front, last string) {
	i := strings.LastIndexByte(name, '-')
	if i <= 0 {
		return "", ""
	}
	return name[:i], name[i+1:]
}

// all reports whether a word has only such characters.
func all(word, characters string) bool {
	for i := range len(word) {
		if strings.IndexByte(characters, word[i]) < 0 {
			return false
		}
	}
	return true
}
