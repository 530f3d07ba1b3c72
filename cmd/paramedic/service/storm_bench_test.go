package service

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"paramedic/state"
)

// BenchmarkUnknownRule measures how long 50,000 alerts of one unknown rule take until all are
// triaged, and how long a critical alert behind them waits for its incident.
func BenchmarkUnknownRule(b *testing.B) {
	const alerts = 50_000
	for b.Loop() {
		url, service := startBot(b)
		body := podsBody("SomebodysOwnRule", "warning", 0, alerts)
		began := time.Now()
		postAlerts(b, url, body)
		accepted := time.Since(began)
		sent := time.Now()
		postAlerts(b, url, podsBody("VLLMKVCacheExhaustion", "critical", alerts, 1))
		awaitStorm(b, service, "the critical alert has its incident",
			func(all []state.Incident) bool { return slices.ContainsFunc(all, isCritical) })
		b.ReportMetric(time.Since(sent).Seconds(), "critical-s")
		awaitStorm(b, service, "all alerts are part of an incident", func(all []state.Incident) bool {
			n := 0
			for _, in := range all {
				if in.Open() {
					n += in.AlertCount
				}
			}
			return n == alerts+1
		})
		b.ReportMetric(time.Since(began).Seconds(), "triaged-s")
		b.ReportMetric(accepted.Seconds(), "accepted-s")
		b.ReportMetric(float64(len(body))/1e6, "MB")
		open := 0
		for _, in := range service.Keeper.Incidents() {
			if in.Open() {
				open++
			}
		}
		b.ReportMetric(float64(open), "incidents")
	}
}

// BenchmarkDiagnoseStorm measures how long many incidents take until each has a verdict, without
// evidence, and how long a critical incident among them waits for its own. Both count from the
// alert, so they include settle.
func BenchmarkDiagnoseStorm(b *testing.B) {
	for _, incidents := range []int{1_000, 5_000, 25_000} {
		b.Run(fmt.Sprintf("incidents=%d", incidents), func(b *testing.B) { benchDiagnoseStorm(b, incidents) })
	}
}

func benchDiagnoseStorm(b *testing.B, incidents int) {
	for b.Loop() {
		url, service := startBot(b)
		began := time.Now()
		for n := 0; n < incidents; n += 1000 {
			postAlerts(b, url, podsBody("VLLMKVCacheExhaustion", "warning", n, 1000))
		}
		awaitStorm(b, service, "every alert has its incident", func(all []state.Incident) bool { return len(all) == incidents })
		b.ReportMetric(time.Since(began).Seconds(), "triaged-s")
		sent := time.Now()
		postAlerts(b, url, podsBody("VLLMKVCacheExhaustion", "critical", incidents, 1))
		var critical state.IncidentID
		awaitStorm(b, service, "the critical alert has its incident", func(all []state.Incident) bool {
			if i := slices.IndexFunc(all, isCritical); i >= 0 {
				critical = all[i].ID
			}
			return critical != ""
		})
		for in, _ := service.Keeper.Incident(critical); in.DiagnosedAt.IsZero(); in, _ = service.Keeper.Incident(critical) {
			<-time.After(20 * time.Millisecond)
		}
		b.ReportMetric(time.Since(sent).Seconds(), "critical-s")
		awaitStorm(b, service, "every incident has its verdict", func(all []state.Incident) bool {
			return !slices.ContainsFunc(all, func(in state.Incident) bool { return in.DiagnosedAt.IsZero() })
		})
		b.ReportMetric(time.Since(began).Seconds(), "diagnosed-s")
	}
}

// podsBody returns a payload of alerts of one rule, each about a pod of its own pool, with the
// fewest labels that Alertmanager sends.
func podsBody(rule, severity string, from, alerts int) []byte {
	body := bytes.NewBufferString(`{"version":"4","receiver":"bench","status":"firing","alerts":[`)
	at := time.Now().UTC().Format(time.RFC3339)
	for n := from; n < from+alerts; n++ {
		if n > from {
			body.WriteByte(',')
		}
		fmt.Fprintf(body, `{"status":"firing","labels":{"alertname":%q,"pod":"app%d-0","severity":%q},"startsAt":%q}`, rule, n, severity, at)
	}
	body.WriteString("]}")
	return body.Bytes()
}

func postAlerts(tb testing.TB, url string, body []byte) {
	resp, err := http.Post(url+"/webhook/alertmanager", "application/json", bytes.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		tb.Fatal(resp.Status)
	}
}

func isCritical(in state.Incident) bool { return in.Severity == state.Critical }

// awaitStorm waits until the incidents are as wanted. It asks every two seconds, because that
// copies all of them.
func awaitStorm(tb testing.TB, s *Service, what string, want func([]state.Incident) bool) {
	deadline := time.After(10 * time.Minute)
	every := 200 * time.Millisecond
	for {
		all := s.Keeper.Incidents()
		if want(all) {
			return
		}
		if len(all) > 1000 {
			every = 2 * time.Second
		}
		select {
		case <-time.After(every):
		case <-deadline:
			tb.Fatalf("after ten minutes it is not so that %s", what)
		}
	}
}
