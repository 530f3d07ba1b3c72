package score

import (
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/lab"
	"paramedic/lab/drill"
	"paramedic/state"
)

// After half an hour of watching, the bot reports that arrivals moved together with latency, and
// how far they are from their baseline.
func TestArrivalsMoveWithWhatUsersFeel(t *testing.T) {
	tr, err := newTrialOf(kindFault, lab.TrafficSurge, 3, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := drill.New(lab.TrafficSurge, 3)
	if err != nil {
		t.Fatal(err)
	}
	const healthy = 35 * time.Minute
	s.Faults[0].At = healthy
	tr.pools, tr.truths, tr.length = nil, nil, 0
	s.Length = healthy + 15*time.Minute
	if err := tr.addPool(0, s); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.play(t.Context()); err != nil {
		t.Fatal(err)
	}
	ins := tr.Board.Incidents()
	if len(ins) != 1 || ins[0].Diagnosis.Cause != lab.TrafficSurge {
		t.Fatalf("%+v", ins)
	}
	d := ins[0].Diagnosis
	moved := slices.IndexFunc(d.Correlations, func(c state.Correlation) bool { return c.Signal == "arrival_rate" })
	if moved < 0 || d.Correlations[moved].Lead < 0 || d.Correlations[moved].R < 0.8 || d.Correlations[moved].Points < 20 {
		t.Errorf("what moved together: %+v", d.Correlations)
	}
	told := map[string]state.Anomaly{}
	for _, a := range d.Anomalies {
		told[a.Signal] = a
	}
	a := told["arrival_rate"]
	if a.Z == nil || *a.Z < 3 || a.Baseline == nil || a.DayAgo != nil || !strings.Contains(a.Text, " vs before (") {
		t.Errorf("arrivals against the usual: %+v", a)
	}
}
