package alerting

import (
	"testing"
	"time"

	"paramedic/lab"
	"paramedic/lab/drill"
)

// A decoy fires a nervous rule, and no rule on the users' experience.
func TestDecoysFireSensitiveRulesOnly(t *testing.T) {
	suffering := map[string]bool{"VLLMTTFTDegradation": true, "VLLMHighTTFT": true, "VLLMHighITL": true, "VLLMQueueTimeHigh": true,
		"LLMPreemptionStorm":     true,
		"VLLMRequestQueueBackup": true, "VLLMHighErrorRate": true, "VLLMEngineHang": true, "VLLMWorkerDown": true,
		"VLLMPreemptionRelatedDegradation": true}
	for _, name := range lab.Decoys() {
		t.Run(name, func(t *testing.T) {
			for _, seed := range []uint64{1} {
				s, err := drill.NewDecoy(name, seed)
				if err != nil {
					t.Fatal(err)
				}
				f, err := s.Build()
				if err != nil {
					t.Fatal(err)
				}
				r := NewRuler(f, "")
				r.Nervous()
				fired := map[string]time.Duration{}
				for at := time.Duration(0); at <= s.Length; at += 3 * ScrapeInterval {
					f.Advance(f.Start().Add(at))
					for _, a := range r.Evaluate() {
						if _, known := fired[a.Labels["alertname"]]; !known {
							fired[a.Labels["alertname"]] = at
						}
					}
				}
				t.Logf("seed %d: %v", seed, fired)
				if len(fired) == 0 {
					t.Errorf("seed %d: no rule fired", seed)
				}
				for alert := range fired {
					if suffering[alert] {
						t.Errorf("seed %d: %s fired: this is no decoy", seed, alert)
					}
				}
				for _, p := range f.Pods() {
					if p.Preemptions > 0 {
						t.Errorf("seed %d: %s preempted %.0f requests", seed, p.Name, p.Preemptions)
					}
				}
			}
		})
	}
}
