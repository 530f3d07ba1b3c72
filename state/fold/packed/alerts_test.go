package packed_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"paramedic/state"
	"paramedic/state/fold/packed"
)

// However alerts are stored, moved and removed, each is found by its fingerprint and by its
// incident only.
func TestAlertsAreFoundByIncident(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	alerts, want := packed.NewAlerts(0), map[state.Fingerprint]state.IncidentID{}
	incidents := []state.IncidentID{"", "INC-1", "INC-2", "INC-3"}
	for range 3000 {
		fp, id := state.Fingerprint(fmt.Sprint(r.IntN(40))), incidents[r.IntN(len(incidents))]
		known := alerts.Get(fp)
		switch {
		case known != nil && r.IntN(3) == 0:
			alerts.Remove(known)
			delete(want, fp)
		case known != nil && r.IntN(2) == 0:
			alerts.Move(known, id)
			want[fp] = id
		default:
			alerts.Put(packed.Of(&state.AlertRecord{Alert: state.Alert{Fingerprint: fp}, Incident: id}))
			want[fp] = id
		}
		got := map[state.Fingerprint]state.IncidentID{}
		for _, id := range incidents[1:] {
			for a := range alerts.Of(id) {
				got[a.Fingerprint()] = id
			}
			if n := len(slices.Collect(alerts.Of(id))); n != alerts.Count(id) {
				t.Fatalf("%s has %d alerts and counts %d", id, n, alerts.Count(id))
			}
		}
		for a := range alerts.All() {
			if a.Incident() == "" {
				got[a.Fingerprint()] = ""
			}
		}
		if !maps.Equal(got, want) {
			t.Fatalf("the alerts are %v, want %v", got, want)
		}
	}
}
