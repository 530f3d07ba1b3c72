package prometheus

import "fmt"

// seenLate is the longest time for which a scrape still shows a ReplicaSet without replicas after
// its first pod began.
const seenLate = 60

// rollout returns the seconds since ReplicaSets began to roll out. A new one begins when it is
// made. A rollback gives replicas to an older one, which begins when it last had none. If a
// Deployment has only one ReplicaSet with replicas in the window, it was scaled from zero, which is
// no rollout.
func (b builder) rollout(created, replicas string) string {
	w, of := window(b.src.Window), "namespace, exported_namespace, of"
	owned := func(expr string) string {
		return `label_replace(` + expr + `, "of", "$1", "replicaset", "(.+)-[^-]+")`
	}
	zero := fmt.Sprintf("max_over_time((timestamp(%s == 0))[%s:1m]) and %s > 0", b.at(replicas), w, b.at(replicas))
	sets := b.agg("max", "max_over_time("+b.over(replicas, w)+")") + " > 0"
	several := fmt.Sprintf("count by (%s) (%s) > 1", of, owned(sets))
	began := b.agg("max", fmt.Sprintf("%s and on (%s) (%s)", owned(zero), of, several))
	made := b.agg("max", b.at(created))
	return fmt.Sprintf("(%s - ((%s - %d > %s) or %s))", b.clock(), began, seenLate, made, made)
}
