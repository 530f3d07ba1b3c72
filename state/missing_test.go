package state

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestMissingEvidenceKeepsAReasonOnce(t *testing.T) {
	const none = "the cluster default has no Prometheus, engines or Kubernetes configured"
	ev := Evidence{Incident: "INC-1", Samples: []Sample{{Signal: "up", Value: 1}}}
	for i := range 90 {
		ev.Missing = append(ev.Missing, Missing{Signal: fmt.Sprintf("signal_%d", i), Reason: none})
	}
	ev.Missing = append(ev.Missing, Missing{Signal: "baseline", Reason: "nothing is known"})
	raw, err := json.Marshal(Input{Evidence: &ev})
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(raw), none); n != 1 || len(raw) > 2048 {
		t.Errorf("%d bytes name the reason %d times, want once in 2 kB", len(raw), n)
	}
	var back Input
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(back.Evidence.Missing, ev.Missing) || len(back.Evidence.Samples) != 1 || back.Evidence.Incident != "INC-1" {
		t.Errorf("read back %+v", back.Evidence)
	}
}

func TestMissingEvidenceReadsOlderRecords(t *testing.T) {
	var ev Evidence
	if err := json.Unmarshal([]byte(`{"incident":"INC-1","missing":[{"signal":"up","reason":"late"},{"signal":"kv_usage","reason":"late"}]}`), &ev); err != nil {
		t.Fatal(err)
	}
	if want := []Missing{{"up", "late"}, {"kv_usage", "late"}}; !slices.Equal(ev.Missing, want) {
		t.Errorf("read %v, want %v", ev.Missing, want)
	}
}
