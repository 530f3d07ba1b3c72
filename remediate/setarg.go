package remediate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"paramedic/internal/text"
	"paramedic/remediate/cluster"
	"paramedic/remediate/engineflag"
	"paramedic/remediate/guard"
	"paramedic/state"
)

// setEngineArg sets max_num_seqs of a Deployment, which SGLang calls max_running_requests and
// TensorRT-LLM max_batch_size. It replaces the one string of the pod template that holds the flag,
// which rolls the pool.
type setEngineArg struct{}

func (setEngineArg) verbs() []Verb {
	return []Verb{{"apps", "deployments", "patch"}}
}

func (setEngineArg) reversible() bool { return true }

func (setEngineArg) target(in state.Incident, ev state.Evidence, params map[string]string) (state.Target, error) {
	if arg := params["arg"]; arg != "max_num_seqs" {
		return state.Target{}, fmt.Errorf("the playbook sets %q, and only max_num_seqs can be set", text.Line(arg, 60))
	}
	if d := params["direction"]; d != "lower" && d != "raise" {
		return state.Target{}, fmt.Errorf("the playbook has direction %q, and it must be lower or raise", text.Line(d, 60))
	}
	t, err := poolTarget(in, ev)
	t.Name = t.Pool
	return t, err
}

// poolTarget returns the pool of the incident.
func poolTarget(in state.Incident, ev state.Evidence) (state.Target, error) {
	sc := in.Diagnosis.Scope
	t := state.Target{Cluster: in.Cluster, Namespace: cmp.Or(sc.Namespace, in.Scope.Namespace),
		Pool: cmp.Or(sc.Pool, in.Scope.Pool), Kind: "Deployment"}
	if t.Namespace == "" || t.Pool == "" {
		return t, errors.New("the incident names no single pool")
	}
	for _, w := range ev.Workers {
		if w.Pool == t.Pool && w.PoolKind != "" {
			t.Kind = w.PoolKind
		}
	}
	return t, nil
}

func (setEngineArg) draft(s *guard.Scene) error {
	a, arg := s.Action, engineflag.CapFlag(s.Workload.Containers)
	a.Change = arg // in refusals, until the values are known
	if s.Workload.Kind != "Deployment" {
		return fmt.Errorf("%s is a %s: set %s in it by hand", s.Workload.Name, s.Workload.Kind, arg)
	}
	p, err := engineflag.Locate(s.Workload.Containers, arg)
	if err != nil {
		return err
	}
	from, err := present(s, p, arg)
	if err != nil {
		return err
	}
	to, why, err := compute(s, from, a.Params["direction"])
	if err != nil {
		return err
	}
	a.Target.UID, a.Target.Container = s.Workload.UID, s.Workload.Containers[p.Container].Name
	a.Params["from"], a.Params["to"] = strconv.Itoa(from), strconv.Itoa(to)
	a.Change = fmt.Sprintf("%s %d → %d", arg, from, to)
	a.Why = why
	a.Command = kubectl(a.Target, encode(expected(s.Workload, p), replaceOf(p, p.With(arg, to))))
	return nil
}

// present returns the value that is set, or the engines' own if none is.
func present(s *guard.Scene, p engineflag.Place, arg string) (int, error) {
	if !p.Absent {
		return p.Value, nil
	}
	v := s.Of("max_num_seqs")
	if len(v) == 0 || slices.Min(v) != slices.Max(v) {
		return 0, fmt.Errorf("--%s is not set, and its default depends on the GPU: set it once by hand to the present value",
			engineflag.Spelled(arg))
	}
	return int(v[0]), nil
}

// expected returns the test of what the write expects to find. A missing flag has no old value, so
// the generation is tested. Other arguments may be secrets, and people read the plan.
func expected(w cluster.Workload, p engineflag.Place) op {
	if p.Absent {
		return test(pointer("metadata", "generation"), w.Generation)
	}
	return test(pathOf(p), p.Token)
}

// replaceOf returns the operation that sets the value. A missing flag is appended to the list.
func replaceOf(p engineflag.Place, value string) op {
	if p.Absent {
		return add(pathOf(p), value)
	}
	return replace(pathOf(p), value)
}

func (setEngineArg) Write(s *guard.Scene, opID string) (state.Write, error) {
	a := s.Action
	flag := engineflag.CapFlag(s.Workload.Containers)
	p, err := engineflag.Locate(s.Workload.Containers, flag)
	if err != nil {
		return state.Write{}, err
	}
	to, err := strconv.Atoi(a.Params["to"])
	if err != nil {
		return state.Write{}, fmt.Errorf("the plan has no number to write: %w", err)
	}
	from, err := present(s, p, flag)
	if err != nil {
		return state.Write{}, err
	}
	if strconv.Itoa(from) != a.Params["from"] {
		return state.Write{}, fmt.Errorf("%s was %s when this was planned, and is %d now", flag, a.Params["from"], from)
	}
	if err := outdated(s, from, to); err != nil {
		return state.Write{}, err
	}
	uid := test(pointer("metadata", "uid"), s.Workload.UID)
	name := test(pointer("spec", "template", "spec", "containers", p.Container, "name"),
		s.Workload.Containers[p.Container].Name)
	value := p.With(flag, to)
	// The generation changes with the spec and not with the status: a rollout that begins now fails
	// the test, a heartbeat does not. A missing flag has no old value to test, so the generation
	// tests the list instead.
	ops := []op{uid, test(pointer("metadata", "generation"), s.Workload.Generation), name}
	back := []op{uid, test(pointer("metadata", "annotations", cluster.OpIDAnnotation), opID), name,
		test(pathOf(p), value)}
	if p.Absent {
		back = append(back, op{"remove", pathOf(p), nil})
	} else {
		ops = append(ops, test(pathOf(p), p.Token))
		back = append(back, replace(pathOf(p), p.Token))
	}
	ops = append(ops, replaceOf(p, value))
	ops = append(ops, mark(s.Workload.Annotations, opID)...)
	back = append(back, replace(pointer("metadata", "annotations", cluster.OpIDAnnotation), opID+undone))
	return state.Write{OpID: opID, UID: s.Workload.UID, Old: p.Token, New: value, Path: pathOf(p),
		Patch: encode(ops...), Inverse: encode(back...)}, nil
}

// undone marks the op-id of a write that was rolled back.
const undone = "-undone"

func (setEngineArg) DryRun(ctx context.Context, s *guard.Scene, w state.Write) error {
	_, err := s.Cluster.PatchWorkload(ctx, s.PoolRef(), []byte(w.Patch), true)
	return err
}

// valueAt returns the string of a workload's pod template at a path made by pathOf.
func valueAt(w cluster.Workload, path string) (string, bool) {
	t := strings.Split(path, "/")
	if len(t) != 8 {
		return "", false
	}
	c, err1 := strconv.Atoi(t[5])
	i, err2 := strconv.Atoi(t[7])
	if err1 != nil || err2 != nil || c >= len(w.Containers) {
		return "", false
	}
	list := w.Containers[c].Args
	if t[6] == "command" {
		list = w.Containers[c].Command
	}
	if i >= len(list) {
		return "", true // missing, which is the old value of a flag that was appended
	}
	return list[i], true
}

func (setEngineArg) apply(ctx context.Context, r *stage) advance {
	a, wr := r.act, r.act.Write
	w, err := r.cluster.Workload(ctx,
		cluster.Ref{Namespace: a.Target.Namespace, Kind: a.Target.Kind, Name: a.Target.Name})
	if err != nil && !errors.Is(err, cluster.ErrNotFound) {
		return r.retry(err)
	}
	live, ok := valueAt(w, wr.Path)
	switch {
	case err != nil || w.UID != wr.UID:
		return advance{to: state.Superseded, text: "another client replaced the workload before the write; nothing was written"}
	case w.Annotations[cluster.OpIDAnnotation] == wr.OpID:
		r.wrote(w)
		return advance{to: state.Applied, text: "the workload has the new value"}
	case !ok || live != wr.Old: // another argument may be there now, such as a key: it is not shown
		return advance{to: state.Superseded, text: "another client changed the value before the write; nothing was written"}
	case a.Journal["conflict"] != "":
		return advance{to: state.Superseded, text: "another client changed the workload's spec since the plan; nothing was written"}
	}
	if instead, ok := r.mayWrite(ctx); !ok {
		return instead
	}
	w, err = r.cluster.PatchWorkload(ctx, w.Ref, []byte(wr.Patch), false)
	switch {
	case err == nil:
		r.wrote(w)
		return advance{to: state.Applied, text: "Paramedic wrote the new value"}
	case errors.Is(err, cluster.ErrConflict):
		r.note("conflict", err.Error())
		return r.stay(0)
	case errors.Is(err, cluster.ErrForbidden), errors.Is(err, cluster.ErrRefused):
		return advance{to: state.Denied, text: "Kubernetes refused the write, nothing was written: " + err.Error()}
	}
	return r.retry(err)
}

// isOurs reports whether the containers are still those that the run wrote. Another edit of them,
// such as a new image, would be judged and rolled back with the run's value.
func isOurs(w cluster.Workload, a *state.Action) bool {
	live, ok := valueAt(w, a.Write.Path)
	same := a.Journal[keyContainers] == "" || a.Journal[keyContainers] == containersOf(w)
	return w.UID == a.Write.UID && ok && live == a.Write.New && same && w.Annotations[cluster.OpIDAnnotation] == a.Write.OpID
}

// keyContainers is the journal's key for the containers right after the write.
const keyContainers = "containers"

// containersOf returns a hash of the images, commands and args of a workload's containers.
func containersOf(w cluster.Workload) string { return state.Hash(fmt.Sprintf("%q", w.Containers)) }

// wrote records the workload right after the write.
func (r *stage) wrote(w cluster.Workload) {
	r.act.Write.AsOf = strconv.FormatInt(w.Generation, 10)
	r.note(keyContainers, containersOf(w))
}

func (setEngineArg) live(ctx context.Context, r *stage) advance {
	a := r.act
	w, err := r.cluster.Workload(ctx,
		cluster.Ref{Namespace: a.Target.Namespace, Kind: a.Target.Kind, Name: a.Target.Name})
	if err != nil && !errors.Is(err, cluster.ErrNotFound) {
		return r.retry(err)
	}
	delete(a.Journal, "trouble")
	switch {
	case err == nil && putBack(w, a.Write):
		return handedOff(w)
	case err != nil || !isOurs(w, a):
		return advance{to: state.NeedsHuman,
			text: "another client changed the workload after the write: Paramedic leaves it as it is; check its value"}
	case !w.RollingOut() && r.whole(w.Ready, w.Replicas):
		return advance{to: state.Verifying, text: "the rollout is complete"}
	case r.now.Sub(r.progress(w, state.Applied)) > r.cfg.Timing.Rollout:
		return advance{to: state.RollbackIntent,
			text: fmt.Sprintf("the rollout has not progressed for %s (%d of %d updated, %d ready)",
				state.FormatDuration(r.cfg.Timing.Rollout), w.Updated, w.Replicas, w.Ready)}
	}
	return r.stay(r.cfg.Timing.Poll)
}

// progress returns when the rollout that began in a state last progressed: when more workers were
// updated or ready than ever before in it, or when the state was entered.
func (r *stage) progress(w cluster.Workload, since state.ActionState) time.Time {
	most, at := "progress_"+string(since), "progress_at_"+string(since)
	last, err := time.Parse(time.RFC3339Nano, r.act.Journal[at])
	if err != nil {
		last = guard.Entered(*r.act, since)
	}
	if w.Observed < w.Generation { // the controller has not seen the write yet
		return last
	}
	before, err := strconv.Atoi(r.act.Journal[most])
	now := w.Updated + w.Ready
	if err == nil && now > before {
		last = r.now
	}
	if err != nil || now > before {
		r.note(most, strconv.Itoa(now))
		r.note(at, last.Format(time.RFC3339Nano))
	}
	return last
}

func (setEngineArg) still(ctx context.Context, r *stage) (advance, error) {
	t := r.act.Target
	w, err := r.cluster.Workload(ctx, cluster.Ref{Namespace: t.Namespace, Kind: t.Kind, Name: t.Name})
	switch {
	case err != nil && !errors.Is(err, cluster.ErrNotFound):
		return advance{}, err
	case err == nil && putBack(w, r.act.Write):
		return handedOff(w), nil
	case err != nil || !isOurs(w, r.act):
		return advance{to: state.NeedsHuman,
				text: "another client changed the workload during the verification: Paramedic leaves it as it is; check its value"},
			nil
	}
	return advance{}, nil
}

func (setEngineArg) undo(ctx context.Context, r *stage) advance {
	a, wr := r.act, r.act.Write
	ref := cluster.Ref{Namespace: a.Target.Namespace, Kind: a.Target.Kind, Name: a.Target.Name}
	w, err := r.cluster.Workload(ctx, ref)
	if err != nil && !errors.Is(err, cluster.ErrNotFound) {
		return r.retry(err)
	}
	delete(a.Journal, "trouble")
	why := guard.FirstStep(*a, state.RollbackIntent).Text
	back := w.Annotations[cluster.OpIDAnnotation] == wr.OpID+undone
	live, _ := valueAt(w, wr.Path)
	switch {
	case err != nil || w.UID != wr.UID:
		return advance{to: state.NeedsHuman, text: "another client replaced the workload: it has no write of Paramedic to undo"}
	case back && live != wr.Old:
		return advance{to: state.NeedsHuman,
			text: "another client changed the workload after the rollback: Paramedic leaves it as it is; check its value"}
	case back && !w.RollingOut() && r.whole(w.Ready, w.Replicas):
		return advance{to: state.RolledBack, text: fmt.Sprintf("the old value is live again (%s)", why)}
	case back && r.now.Sub(r.progress(w, state.RollbackIntent)) > r.cfg.Timing.Rollout:
		return advance{to: state.NeedsHuman,
			text: fmt.Sprintf("the old value is back, but its rollout is not complete (%d of %d ready): check the new pods", w.Ready,
				w.Replicas)}
	case back:
		return r.stay(r.cfg.Timing.Poll)
	case putBack(w, wr):
		return handedOff(w)
	case r.optedOut:
		return r.person("the namespace opted out of first aid before the rollback")
	case !isOurs(w, a):
		return advance{to: state.NeedsHuman,
			text: "another client changed the workload after the write: Paramedic does not roll back over that change"}
	}
	_, err = r.cluster.PatchWorkload(ctx, ref, []byte(wr.Inverse), false)
	switch {
	case err == nil:
		return r.stay(0) // the next read shows whether it is back
	case errors.Is(err, cluster.ErrConflict):
		return r.contend("undo_conflict", err,
			func(why string) advance { return r.person("the rollback conflicts with other changes: " + why) })
	case errors.Is(err, cluster.ErrForbidden), errors.Is(err, cluster.ErrRefused):
		return r.person("Kubernetes refused the rollback: " + err.Error())
	}
	return r.contend("undo_trouble", err,
		func(why string) advance { return r.person("the rollback failed: " + why) })
}

// kubectl returns the command that does what a patch does.
func kubectl(t state.Target, patch string) string {
	return fmt.Sprintf("kubectl -n %s patch %s %s --type=json -p %s", t.Namespace, strings.ToLower(t.Kind), t.Name,
		quote(patch))
}

// undoCommand returns the command that undoes the run's write.
func undoCommand(a *state.Action) string { return kubectl(a.Target, a.Write.Inverse) }

// quote returns a string as one word of a shell command.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// pathOf returns the JSON pointer of the string within a workload.
func pathOf(p engineflag.Place) string {
	return pointer("spec", "template", "spec", "containers", p.Container, p.List, p.Index)
}
