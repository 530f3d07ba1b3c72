package remediate

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/remediate/cluster"
	"paramedic/remediate/guard"
	"paramedic/remediate/remediatetest"
	"paramedic/state"
)

var errAway = errors.New("connection refused")

var quietLogger = slog.New(slog.DiscardHandler)

// A fakeCluster is a cluster of one pool with the answers of a test. It records the writes.
type fakeCluster struct {
	w                                                     cluster.Workload
	pod                                                   cluster.Pod
	pods                                                  []cluster.Pod
	ns                                                    cluster.Namespace
	wErr, podErr, podsErr, nsErr, patchErr, evictErr, dry error
	wrote                                                 []string
}

func (p *fakeCluster) Workload(context.Context, cluster.Ref) (cluster.Workload, error) {
	return p.w, p.wErr
}
func (p *fakeCluster) Pod(context.Context, string, string) (cluster.Pod, error) {
	return p.pod, p.podErr
}
func (p *fakeCluster) Pods(context.Context, cluster.Workload) ([]cluster.Pod, error) {
	return p.pods, p.podsErr
}
func (p *fakeCluster) Namespace(context.Context, string) (cluster.Namespace, error) {
	return p.ns, p.nsErr
}
func (p *fakeCluster) note(dryRun bool, what string, err error) error {
	if dryRun {
		return p.dry
	}
	p.wrote = append(p.wrote, what)
	return err
}

func (p *fakeCluster) PatchWorkload(_ context.Context, _ cluster.Ref, patch []byte, dryRun bool) (cluster.Workload, error) {
	return p.w, p.note(dryRun, string(patch), p.patchErr)
}

func (p *fakeCluster) PatchPod(_ context.Context, _, _ string, patch []byte, dryRun bool) (cluster.Pod, error) {
	return p.pod, p.note(dryRun, string(patch), p.patchErr)
}

func (p *fakeCluster) Evict(_ context.Context, _, _, uid string, dryRun bool) error {
	return p.note(dryRun, "evict "+uid, p.evictErr)
}

// A fixedClock always returns one time.
type fixedClock struct{ time.Time }

func (c fixedClock) Now() time.Time                     { return c.Time }
func (fixedClock) After(time.Duration) <-chan time.Time { return nil }

// A fixedGauge returns the evidence that it holds.
type fixedGauge struct{ ev *state.Evidence }

func (g fixedGauge) Read(_ context.Context, _ string, sc state.Scope, _ time.Time, _ []string) state.Evidence {
	ev := *g.ev
	ev.Samples = slices.DeleteFunc(slices.Clone(ev.Samples),
		func(v state.Sample) bool { return sc.Pool != "" && v.Entity.Pool != "" && v.Entity.Pool != sc.Pool })
	return ev
}

// A runCase is a run in one state, with its fakeCluster.
type runCase struct {
	*stage
	p  *fakeCluster
	ev *state.Evidence
}

// newRun returns a run that recorded its intent just now and came to its state a minute ago. For a
// pool, --max-num-seqs 100 becomes 50. For a worker, its label serving changes. The writes up to
// that state are in place.
func newRun(kind string, st state.ActionState) *runCase {
	s := sceneOf(kind)
	a := s.Action
	a.State, a.Journal = st, map[string]string{}
	a.Write = state.Write{OpID: "op", UID: "dep-1", Path: "/spec/template/spec/containers/0/args/0", Old: "--max-num-seqs=100",
		New: "--max-num-seqs=50", Patch: "patch", Inverse: "inverse", At: noon}
	s.Workload.Annotations = map[string]string{}
	s.Pod.Labels = map[string]string{"app": "vllm", "serving": "yes"}
	s.Pod.Annotations = map[string]string{}
	if kind == restartWorkerKind {
		a.Write = state.Write{OpID: "op", UID: "pod-0", Path: "/metadata/labels", Old: `{"serving":"yes"}`, New: isolated, Patch: "patch", Inverse: "inverse", At: noon}
	}
	a.Steps = []state.ActionStep{{State: state.Intent, At: noon.Add(-2 * time.Minute)}}
	if st != state.Intent {
		a.Steps = append(a.Steps, state.ActionStep{State: st, At: noon.Add(-time.Minute), Text: "because"})
		s.Workload.Containers[0].Args[0], s.Workload.Annotations[cluster.OpIDAnnotation] = a.Write.New, "op"
	}
	p := &fakeCluster{w: s.Workload, pod: s.Pod, pods: s.Pods, ns: s.Namespace}
	cfg := &Config{Site: *s.Site}
	cfg.Clock, cfg.Clusters = fixedClock{noon}, map[string]cluster.Cluster{"prod": p}
	b := &runCase{stage: &stage{cfg: cfg, cluster: p, act: a, in: s.Incident, now: noon}, p: p, ev: &s.Evidence}
	cfg.Gauge = fixedGauge{b.ev}
	return b
}

// A stepCase is a case of one step: the changes before it, and its result.
type stepCase struct {
	name  string
	set   func(*runCase)
	to    state.ActionState
	says  string
	wait  time.Duration
	wrote string // what is written, all of it
}

func runSteps(t *testing.T, begin func() *runCase, step func(context.Context, *stage) advance, cases []stepCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := begin()
			if c.set != nil {
				c.set(b)
			}
			got := step(t.Context(), b.stage)
			if got.to != c.to || !strings.Contains(got.text, c.says) || got.wait != c.wait {
				t.Errorf("to %s after %s: %q, want %s after %s with %q", got.to, got.wait, got.text, c.to, c.wait, c.says)
			}
			if wrote := strings.Join(b.p.wrote, ", "); wrote != c.wrote {
				t.Errorf("wrote %q, want %q", wrote, c.wrote)
			}
		})
	}
}

// dryRuns is a cluster with given results for the dry runs of a patch and of an eviction.
type dryRuns struct {
	*fakeCluster
	patch, evict error
}

func (d *dryRuns) PatchPod(context.Context, string, string, []byte, bool) (cluster.Pod, error) {
	return d.pod, d.patch
}
func (d *dryRuns) Evict(context.Context, string, string, string, bool) error { return d.evict }

var noon = remediatetest.Noon

// moment is the shortest time. Tests check a bound at it, and one moment before it.
const moment = time.Nanosecond

func ptr(v float64) *float64 { return &v }

// sceneOf returns a scene that every guard allows.
func sceneOf(kind string) *guard.Scene {
	c := remediatetest.NewCase(kind)
	s := &guard.Scene{Site: &guard.Site{Rules: c.Rules, View: c.View}, Now: noon, Incident: c.Incident, Action: c.Action,
		Namespace: c.Namespace, Workload: c.Workload, Pods: c.Pods, Pod: c.Pod, Evidence: c.Evidence}
	s.Kind, _ = actionOf(kind)
	s.Rule = s.Site.For(s.Action.Cause, kind, s.Action.Target)
	return s
}

// sample adds a value that a worker reports.
func sample(s *guard.Scene, signal, pod string, value float64, age time.Duration) {
	remediatetest.AddSample(&s.Evidence, signal, pod, value, s.Now.Add(-age))
}

// each adds a value that every worker of the pool reports now.
func each(s *guard.Scene, signal string, value float64) {
	for _, p := range s.Pods {
		sample(s, signal, p.Name, value, 0)
	}
}

// asked is a gauge that records the signals that it is asked for.
type asked struct{ signals []string }

func (a *asked) Read(_ context.Context, _ string, _ state.Scope, _ time.Time, signals []string) state.Evidence {
	a.signals = signals
	return state.Evidence{}
}

// answer returns the answer of one guard.
func answer(ctx context.Context, s *guard.Scene, name string) state.GuardResult {
	for _, g := range guard.Ask(ctx, s, guard.All()) {
		if g.Guard == name {
			return g
		}
	}
	return state.GuardResult{}
}
