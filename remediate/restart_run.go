package remediate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"paramedic/remediate/cluster"
	"paramedic/remediate/guard"
	"paramedic/remediate/policy"
	"paramedic/state"
)

// apply takes the next of the steps isolate, drain, evict. The journal has the end of each step
// before the effect of the next one. So the record that the worker is drained is the intent to
// evict it.
func (k restartWorker) apply(ctx context.Context, r *stage) advance {
	a, wr := r.act, r.act.Write
	pod, err := r.cluster.Pod(ctx, a.Target.Namespace, a.Target.Name)
	gone := errors.Is(err, cluster.ErrNotFound) || err == nil && pod.UID != wr.UID
	if err != nil && !gone {
		return r.retry(err)
	}
	delete(a.Journal, "trouble")
	switch {
	case gone && a.Journal[keyDrained] == "":
		return advance{to: state.Superseded, text: "the worker ended before the eviction; Paramedic evicted nothing"}
	case gone:
		r.stamp(keyEvicted)
		return advance{to: state.Applied, text: "the worker is gone"}
	case pod.Terminating:
		return r.ending(pod)
	case a.Journal[keyUndo] != "":
		return k.putBack(ctx, r, pod)
	case a.Journal[keyIsolated] == "":
		return k.isolate(ctx, r, pod)
	case pod.Annotations[cluster.OpIDAnnotation] != wr.OpID || !k.isIsolated(pod, wr):
		return advance{to: state.NeedsHuman, text: relabelled}
	case r.optedOut:
		return r.person("the namespace opted out of first aid while the worker was out of serving")
	}
	// The other workers carry its load. If they fail at that, it is put back.
	if why := cmp.Or(r.stopped(), r.watch(ctx, k)); why != "" {
		r.note(keyUndo, why)
		return r.stay(0)
	}
	if a.Journal[keyDrained] == "" {
		return k.drain(ctx, r)
	}
	return k.evict(ctx, r, pod)
}

// ending waits until a worker is gone. It may never be: an unreachable kubelet confirms no end, and
// a finalizer may stay.
func (r *stage) ending(pod cluster.Pod) advance {
	most := r.cfg.Timing.Rollout
	switch since := r.stamp(keyEvicted); {
	case r.now.Sub(since) <= most:
		return r.stay(r.cfg.Timing.Poll)
	case pod.Annotations[cluster.OpIDAnnotation] != r.act.Write.OpID:
		return advance{to: state.Superseded,
			text: "another client deleted the worker before Paramedic took it out of serving; nothing was written"}
	}
	return advance{to: state.NeedsHuman,
		text: fmt.Sprintf("the worker still terminates after %s: check its node and its finalizers",
			state.FormatDuration(most))}
}

const relabelled = "another client changed the worker's labels after Paramedic took it out of serving: " +
	"Paramedic leaves them as they are; check that the worker serves"

// isIsolated reports whether every label that was changed still has the isolating value. It reports
// false if the record cannot be read.
func (restartWorker) isIsolated(pod cluster.Pod, wr state.Write) bool {
	old := oldLabels(wr)
	for l := range old {
		if pod.Labels[l] != wr.New {
			return false
		}
	}
	return len(old) > 0
}

// oldLabels returns the labels that the write changes, with their values before it.
func oldLabels(wr state.Write) map[string]string {
	old := map[string]string{}
	if json.Unmarshal([]byte(wr.Old), &old) != nil {
		return nil // an unreadable record matches no labels, and so stops the run
	}
	return old
}

// isolate changes the labels, or finds that they are changed.
func (k restartWorker) isolate(ctx context.Context, r *stage, pod cluster.Pod) advance {
	wr := r.act.Write
	// The worker served until its labels were seen changed or the write was answered, which may be
	// long after the delivery began.
	done := func() advance {
		r.note(keyIsolated, r.cfg.Clock.Now().Format(time.RFC3339Nano))
		return r.stay(0)
	}
	switch ours := pod.Annotations[cluster.OpIDAnnotation] == wr.OpID; {
	case ours && k.isIsolated(pod, wr):
		return done()
	case ours: // the answer was lost, and some of the labels may still keep the worker from serving
		return advance{to: state.NeedsHuman, text: relabelled}
	}
	old := oldLabels(wr)
	if len(old) == 0 || !cluster.Selects(old, pod.Labels) {
		return advance{to: state.Superseded,
			text: "another client changed the worker's labels before Paramedic did; nothing was written"}
	}
	if instead, ok := r.mayWrite(ctx); !ok {
		return instead
	}
	_, err := r.cluster.PatchPod(ctx, pod.Namespace, pod.Name, []byte(wr.Patch), false)
	switch {
	case err == nil:
		return done()
	case errors.Is(err, cluster.ErrConflict):
		return r.contend("isolate_conflict", err, func(why string) advance {
			return advance{to: state.Superseded,
				text: "the label change conflicts with other changes, nothing was written: " + why}
		})
	case errors.Is(err, cluster.ErrForbidden), errors.Is(err, cluster.ErrRefused):
		return advance{to: state.Denied, text: "Kubernetes refused the label change, nothing was written: " + err.Error()}
	}
	return r.retry(err)
}

// drainTime returns how long the worker's requests may continue. The requests of a hung engine are
// lost already, so its playbook asks for less.
func drainTime(a *state.Action, t policy.Timing) time.Duration {
	if d, err := time.ParseDuration(a.Params["drain"]); err == nil && d > 0 {
		return min(d, t.Drain)
	}
	return t.Drain
}

// labelDelay is the longest time in which Services and gateways notice a label. The clocks of the
// bot and of the scraped targets may differ by as much.
const labelDelay = 5 * time.Second

// drain waits until a scrape from after the isolation shows that the worker is idle, or until the
// deadline.
func (k restartWorker) drain(ctx context.Context, r *stage) advance {
	a, since, most := r.act, r.stamp(keyIsolated), drainTime(r.act, r.cfg.Timing)
	ev := r.cfg.Gauge.Read(ctx, a.Target.Cluster, guard.PoolScope(a.Target, ""), r.in.StartedAt,
		[]string{"requests_running", "requests_waiting"})
	ofWorker := func(e state.Entity) bool { return e.Pod == a.Target.Name }
	v := guard.ValuesOf(ev, "requests_running", since.Add(labelDelay), ofWorker)
	waiting := guard.ValuesOf(ev, "requests_waiting", since.Add(labelDelay), ofWorker)
	switch {
	case len(v) > 0 && slices.Max(v) == 0 && (len(waiting) == 0 || slices.Max(waiting) == 0):
		r.note("drained_text", "it runs no requests")
	case r.now.Sub(since) < most:
		return r.stay(r.cfg.Timing.Poll)
	case len(v) > 0:
		still := fmt.Sprintf("%.0f requests still run", slices.Max(v))
		if len(waiting) > 0 && slices.Max(waiting) > 0 {
			still += fmt.Sprintf(" and %.0f wait", slices.Max(waiting))
		}
		r.note("drained_text", fmt.Sprintf("after %s %s", state.FormatDuration(most), still))
	default:
		r.note("drained_text", fmt.Sprintf("after %s the number of its requests cannot be read",
			state.FormatDuration(most)))
	}
	r.stamp(keyDrained)
	return r.stay(0)
}

// evict evicts the drained worker, unless a guard or a person stops it.
func (k restartWorker) evict(ctx context.Context, r *stage, pod cluster.Pod) advance {
	a := r.act
	if instead, ok := k.mayEvict(ctx, r); !ok {
		return instead
	}
	err := r.cluster.Evict(ctx, pod.Namespace, pod.Name, a.Write.UID, false)
	switch {
	case err == nil:
		r.stamp(keyEvicted)
		return r.stay(r.cfg.Timing.Poll)
	case errors.Is(err, cluster.ErrBlocked):
		return r.blocked("Kubernetes refused the eviction for %s: %s", err.Error())
	case errors.Is(err, cluster.ErrForbidden), errors.Is(err, cluster.ErrRefused):
		r.note(keyUndo, "Kubernetes refused the eviction: "+err.Error())
		return r.stay(0)
	}
	// The next read shows whether it happened: another pod of this name, or none.
	return r.contend("evict_trouble", err, func(why string) advance {
		r.note(keyUndo, "the eviction failed: "+why)
		return r.stay(0)
	})
}

// poolOf names the workload that the worker belongs to.
func poolOf(a *state.Action) cluster.Ref {
	kind := cmp.Or(a.Params["pool_kind"], "Deployment")
	return cluster.Ref{Namespace: a.Target.Namespace, Kind: kind, Name: a.Target.Pool}
}

// noOtherReady returns why the eviction would leave no ready worker, or "". It is asked right
// before the eviction, because the drain may have taken minutes.
func (restartWorker) noOtherReady(ctx context.Context, r *stage) string {
	a := r.act
	w, err := r.cluster.Workload(ctx, poolOf(a))
	if err != nil {
		return fmt.Sprintf("Paramedic could not read the pool before the eviction: %v", err)
	}
	pods, err := r.cluster.Pods(ctx, w)
	if err != nil {
		return fmt.Sprintf("Paramedic could not read the pool's workers before the eviction: %v", err)
	}
	others := slices.DeleteFunc(pods, func(p cluster.Pod) bool { return p.UID == a.Write.UID })
	if n := cluster.CountReady(others); n < 1 {
		return "no other worker is ready now"
	}
	return ""
}

// putBack restores the labels, and hands the run to a person.
func (k restartWorker) putBack(ctx context.Context, r *stage, pod cluster.Pod) advance {
	a, wr := r.act, r.act.Write
	why := a.Journal[keyUndo]
	switch {
	case pod.Annotations[cluster.OpIDAnnotation] == wr.OpID+undone:
		if by := a.Journal[state.CalledOff]; by != "" {
			r.note(state.Released, by) // the person who cancelled it knows
		}
		return advance{to: state.NeedsHuman, text: why + "; the worker serves again"}
	case pod.Annotations[cluster.OpIDAnnotation] != wr.OpID || !k.isIsolated(pod, wr):
		return advance{to: state.NeedsHuman,
			text: why + "; " + relabelled}
	case r.optedOut:
		return r.person(why + "; the namespace opted out of first aid while the worker was out of serving")
	}
	_, err := r.cluster.PatchPod(ctx, pod.Namespace, pod.Name, []byte(wr.Inverse), false)
	if errors.Is(err, cluster.ErrForbidden) || errors.Is(err, cluster.ErrRefused) {
		return r.person(why + "; the worker does not serve, and its labels could not be restored: " + err.Error())
	}
	if err == nil {
		return r.stay(0)
	}
	return r.contend("put_back_trouble", err, func(again string) advance {
		return r.person(why + "; the worker does not serve, and its labels could not be restored: " + again)
	})
}

// live waits until the pool is whole again without the old worker.
func (restartWorker) live(ctx context.Context, r *stage) advance {
	a := r.act
	since := guard.Entered(*r.act, state.Applied)
	w, err := r.cluster.Workload(ctx, poolOf(a))
	if err == nil {
		var pods []cluster.Pod
		if pods, err = r.cluster.Pods(ctx, w); err == nil {
			if fresh := replacement(pods, a, drainedAt(a)); fresh.UID != "" && r.whole(cluster.CountReady(pods), w.Replicas) {
				r.note(keyReplacement, fresh.Name)
				r.note(keyReplacementUID, fresh.UID)
				return advance{to: state.Verifying, text: "replaced by " + fresh.Name}
			}
		}
	}
	if r.now.Sub(since) > r.cfg.Timing.Rollout {
		return advance{to: state.NeedsHuman,
			text: fmt.Sprintf("the worker is gone, and the pool has no ready replacement after %s: check the new pod",
				state.FormatDuration(r.cfg.Timing.Rollout))}
	}
	return r.stay(r.cfg.Timing.Poll)
}

// drainedAt returns when the run was about to ask for the eviction. A worker that is found gone
// after a crash went after that.
func drainedAt(a *state.Action) time.Time {
	t, err := time.Parse(time.RFC3339Nano, a.Journal[keyDrained])
	if err != nil {
		t = guard.FirstStep(*a, state.Applied).At
	}
	return t
}

// replacement returns the ready worker that was created after the drain, or an empty one.
// Kubernetes' times are whole seconds.
func replacement(pods []cluster.Pod, a *state.Action, drained time.Time) cluster.Pod {
	for _, p := range pods {
		if p.UID != a.Write.UID && p.Ready && !p.Terminating &&
			!p.Created.Before(drained.Truncate(time.Second).Add(-time.Second)) {
			return p
		}
	}
	return cluster.Pod{}
}

func (restartWorker) still(ctx context.Context, r *stage) (advance, error) {
	pod, err := r.cluster.Pod(ctx, r.act.Target.Namespace, r.act.Journal[keyReplacement])
	if err != nil && !errors.Is(err, cluster.ErrNotFound) {
		return advance{}, err
	}
	uid := r.act.Journal[keyReplacementUID] // a StatefulSet gives the name to the next worker
	if err != nil || pod.Terminating || uid != "" && pod.UID != uid {
		return advance{to: state.NeedsHuman, text: "the replacement worker ended while Paramedic verified it"}, nil
	}
	return advance{}, nil
}

func (restartWorker) undo(_ context.Context, r *stage) advance {
	return r.person("an eviction has no rollback")
}
