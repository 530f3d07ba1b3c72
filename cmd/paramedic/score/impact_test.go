package score

import (
	"testing"
	"time"

	"paramedic/lab"
	"paramedic/lab/alerting"
	"paramedic/lab/engine"
	"paramedic/state"
)

// A critical alert of a rule that nothing knows posts while the fleet serves its users, and pages
// once that is not measured any more. The evidence is gathered from the engines' own pages.
func TestUnknownAlertPagesOnceUnmeasured(t *testing.T) {
	for _, kind := range []engine.Kind{engine.VLLM, engine.SGLang, engine.Dynamo} {
		t.Run(string(kind), func(t *testing.T) {
			run, err := newTrialOf(kindDecoy, lab.SlowClient, 3, Options{Kind: kind})
			if err != nil {
				t.Fatal(err)
			}
			fleet := run.pools[0].fleet
			alert := state.Alert{Fingerprint: "f", Status: state.Firing, StartsAt: fleet.Start().Add(3 * time.Minute), Labels: map[string]string{
				"alertname": "BackupIsLate", "severity": "critical", "namespace": fleet.Deployment().Namespace, "deployment": fleet.Deployment().Name}}
			until := func(minute time.Duration) state.Incident {
				for ; run.At.Before(fleet.Start().Add(minute * time.Minute)); run.At = run.At.Add(alerting.ScrapeInterval) {
					fleet.Advance(run.At)
					if run.At.Sub(fleet.Start())%trialScrapes == 0 {
						run.scraper.Scrape(t.Context())
					}
					if run.At.Equal(alert.StartsAt) {
						run.apply(state.Input{Cluster: Cluster, Alerts: &state.AlertBatch{Alerts: []state.Alert{alert}}})
					}
					if due, cluster := run.Board.NextDue(); !due.IsZero() && !due.After(run.At) {
						run.apply(state.Input{Cluster: cluster})
					}
					run.answer(t.Context())
				}
				return run.Board.Incidents()[0]
			}
			in := until(4)
			if in.Cause() != state.Unknown || in.Diagnosis.Impact != state.ImpactNone || run.Paged[in.ID] || len(in.Channels) != 2 {
				t.Errorf("%s, impact %s, told %v, missing %v", in.Cause(), in.Diagnosis.Impact, in.Channels, in.Diagnosis.Missing)
			}
			run.pools = nil // no page answers
			if in = until(5); in.Cause() != state.Unknown || !run.Paged[in.ID] {
				t.Errorf("without pages: %s, impact %s, told %v", in.Cause(), in.Diagnosis.Impact, in.Channels)
			}
		})
	}
}
