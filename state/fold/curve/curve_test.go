package curve

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"paramedic/state"
)

var curveOnset = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

// gatheringAt returns a gathering some minutes after the onset. It has a signal of pods, from an
// hour before the onset until then.
func gatheringAt(minute int, signal string, course func(pod string, minute int) (float64, bool), pods ...string) *state.Evidence {
	ev := &state.Evidence{At: curveOnset.Add(time.Duration(minute) * time.Minute)}
	for _, pod := range pods {
		s := state.Sample{Signal: signal, Unit: "ratio", Entity: state.Entity{Namespace: "llm", Pool: "vllm", Pod: pod}, At: ev.At}
		for m := -60; m <= minute; m++ {
			if v, ok := course(pod, m); ok {
				s.Value = v
				s.Series = append(s.Series, state.Point{At: curveOnset.Add(time.Duration(m) * time.Minute), Value: v})
			}
		}
		ev.Samples = append(ev.Samples, s)
	}
	return ev
}

// rollout returns the values of a rollout: old pods are full from the onset on and end ten minutes
// later, when new ones begin.
func rollout(pod string, minute int) (float64, bool) {
	switch old := pod[0] == 'o'; {
	case old && minute > 10, !old && minute < 10:
		return 0, false
	case old && minute >= 0:
		return 0.97, true
	}
	return 0.4, true
}

func curveOf(t *testing.T, curves []state.Curve, signal, pod string) []state.Point {
	t.Helper()
	i := slices.IndexFunc(curves, func(c state.Curve) bool { return c.Signal == signal && c.Entity.Pod == pod })
	if i < 0 {
		t.Fatalf("%s of %s is not drawn any more", signal, pod)
	}
	return curves[i].Points()
}

func TestReplacedWorkersKeepCurves(t *testing.T) {
	in := &state.Incident{StartedAt: curveOnset, DiagnosedAt: curveOnset.Add(time.Minute), Scope: state.Scope{Pods: []string{"old-a"}}}
	var curves []state.Curve
	for m := 1; m <= 40; m++ {
		pods := []string{"old-a", "old-b"}
		if m > 10 {
			pods = []string{"new-a", "new-b"}
		}
		curves = Merge(curves, gatheringAt(m, "kv_usage", rollout, pods...), in)
	}
	old, young := curveOf(t, curves, "kv_usage", "old-a"), curveOf(t, curves, "kv_usage", "new-b")
	if first, last := old[0], old[len(old)-1]; first.Value != 0.4 || last.Value != 0.97 || !last.At.Equal(curveOnset.Add(10*time.Minute)) ||
		curveOnset.Sub(first.At) < 55*time.Minute {
		t.Errorf("the replaced worker is drawn from %v to %v", first, last)
	}
	if first, last := young[0], young[len(young)-1]; !first.At.Equal(curveOnset.Add(10*time.Minute)) || last.Value != 0.4 ||
		!last.At.Equal(curveOnset.Add(40*time.Minute)) {
		t.Errorf("the one in its place is drawn from %v to %v", first, last)
	}
}

func TestWorkersGoneBeforeFirstGatheringAreDrawn(t *testing.T) {
	ev := gatheringAt(15, "ttft_p95", rollout, "new-a")
	ev.Gone = gatheringAt(15, "ttft_p95", rollout, "old-a").Samples
	in := &state.Incident{StartedAt: curveOnset}
	if old := curveOf(t, Merge(nil, ev, in), "ttft_p95", "old-a"); len(old) < 60 {
		t.Errorf("%d points", len(old))
	}
}

func TestCurvesAreBounded(t *testing.T) {
	in := &state.Incident{StartedAt: curveOnset, DiagnosedAt: curveOnset.Add(time.Minute)}
	in.Diagnosis.Findings = []state.Finding{{Signal: "signal-11", Pod: "pod-27"}}
	in.Diagnosis.Chain = []state.Link{{Role: state.LinkCause, Signal: "signal-10"}}
	var curves []state.Curve
	for hour := range 12 {
		ev := &state.Evidence{}
		for s := range 12 {
			var pods []string
			for p := range 30 {
				pods = append(pods, fmt.Sprintf("pod-%02d", p+hour)) // a worker is replaced every hour
			}
			more := gatheringAt(hour*60, fmt.Sprintf("signal-%02d", s), func(_ string, m int) (float64, bool) {
				v := 0.123456789 + 0.1*math.Sin(float64(m))
				if m == 7 {
					v = 5 // a peak of one minute
				}
				return v, m > hour*60-120
			}, pods...)
			ev.Samples = append(ev.Samples, more.Samples...)
		}
		curves = Merge(curves, ev, in)
	}
	raw, err := json.Marshal(curves)
	if err != nil {
		t.Fatal(err)
	}
	if len(curves) > maxSignals*maxEntities || len(raw) > 90_000 {
		t.Errorf("%d curves of %d bytes are kept", len(curves), len(raw))
	}
	if !slices.ContainsFunc(curves, func(c state.Curve) bool { return c.Signal == "signal-10" }) {
		t.Error("the signal of the verdict's chain is not drawn")
	}
	top := 0.0
	for _, p := range curveOf(t, curves, "signal-11", "pod-27") {
		top = math.Max(top, p.Value)
	}
	if top != 5 {
		t.Errorf("the verdict's own curve lost its peak: %v is its highest", top)
	}
}
