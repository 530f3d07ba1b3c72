package query

import "fmt"

const (
	// seenLate is the longest time in seconds for which a scrape still shows a ReplicaSet without
	// replicas after its first pod began.
	seenLate = 60
	// recreates is the longest time in seconds between the end of a ReplicaSet and the first
	// replicas of the next one, if the Deployment's strategy is Recreate: its pods end first.
	recreates = 1800
)

// rollout returns the seconds since ReplicaSets began to roll out. A new one begins when it is
// made. A rollback gives replicas to an older one, which begins when it last had none. Until then,
// another ReplicaSet of its Deployment had replicas. Without one it was scaled from zero, which is
// no rollout.
func (b builder) rollout(created, replicas string) string {
	w, of := window(b.src.Window), "namespace, exported_namespace, of"
	owned := func(expr string) string {
		return `label_replace(` + expr + `, "of", "$1", "replicaset", "(.+)-[^-]+")`
	}
	times := func(cond string) string {
		return fmt.Sprintf("max_over_time((timestamp(%s %s))[%s:1m])", b.at(replicas), cond, w)
	}
	zero := owned(fmt.Sprintf("%s and %s > 0", times("== 0"), b.at(replicas)))
	several := fmt.Sprintf("count by (%s) (%s >= on (%s) group_left () (max by (%s) (%s) - %d)) > 1",
		of, owned(b.agg("max", times("> 0"))), of, of, zero, recreates)
	began := b.agg("max", fmt.Sprintf("%s and on (%s) (%s)", zero, of, several))
	made := b.agg("max", b.at(created))
	return fmt.Sprintf("(%s - ((%s - %d > %s) or %s))", b.clock(), began, seenLate, made, made)
}
