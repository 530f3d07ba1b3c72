package service

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"paramedic/state"
	"paramedic/state/outbox"
)

// metrics holds the bot's own metrics. A reload of the configuration keeps them.
type metrics struct {
	registry   *prometheus.Registry
	requests   *prometheus.HistogramVec
	alerts     prometheus.Counter
	payload    prometheus.Gauge
	setAside   *prometheus.CounterVec
	deliveries *prometheus.HistogramVec
	opened     *prometheus.CounterVec
	verdictAge prometheus.Histogram
	confidence *prometheus.HistogramVec
	guards     *prometheus.CounterVec
	running    atomic.Pointer[Service]
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "paramedic_http_request_duration_seconds",
			Help: "Time to answer a request, by route and status code.", Buckets: prometheus.ExponentialBuckets(0.001,
				4, 8)}, []string{"route", "code"}),
		alerts: prometheus.NewCounter(prometheus.CounterOpts{Name: "paramedic_alerts_accepted_total",
			Help: "Alerts that the bot stored and answered with 200."}),
		payload: prometheus.NewGauge(prometheus.GaugeOpts{Name: "paramedic_last_payload_timestamp_seconds",
			Help: "Time of the last payload that the bot stored, in Unix seconds; 0 if there is none since the start."}),
		setAside: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "paramedic_alerts_set_aside_total",
			Help: "Alerts that the bot did not accept, by reason. /api/v1/status lists the last ones."}, []string{"reason"}),
		deliveries: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "paramedic_effect_duration_seconds",
			Help: "Time to deliver an effect, by kind, channel and outcome (done, retry, " +
				"failed).", Buckets: prometheus.ExponentialBuckets(0.005, 4, 8)},
			[]string{"kind", "channel", "outcome"}),
		opened: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "paramedic_incidents_opened_total",
			Help: "Incidents that the bot opened, by the severity at that time."}, []string{"severity"}),
		verdictAge: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "paramedic_diagnosis_delay_seconds",
			Help:    "Time from the first alert of an incident to its first verdict.",
			Buckets: []float64{1, 2, 5, 10, 15, 30, 60, 120, 300}}),
		confidence: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "paramedic_diagnosis_confidence",
			Help: "Confidence of each new verdict, by cause, from 0 to 1.", Buckets: []float64{0.5, 0.7, 0.8, 0.9, 0.95, 0.99}},
			[]string{"cause"}),
		guards: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "paramedic_guard_decisions_total",
			Help: "Answers of the guards of first aid, by guard and decision (allow, hold, deny)."},
			[]string{"guard", "decision"}),
	}
	m.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), m.requests, m.alerts, m.payload, m.setAside,
		m.deliveries, m.opened, m.verdictAge, m.confidence, m.guards, lagCollector{m}, stateCollector{m})
	return m
}

// alertmanagerRoute is the pattern of the webhook for alerts.
const alertmanagerRoute = "POST /webhook/alertmanager"

// observe counts an answered request. alerts is the number of alerts that it made durable.
func (m *metrics) observe(route string, code int, d time.Duration, alerts int) {
	m.requests.WithLabelValues(route, strconv.Itoa(code)).Observe(d.Seconds())
	m.alerts.Add(float64(alerts))
	if route == alertmanagerRoute && code == http.StatusOK {
		m.payload.SetToCurrentTime()
	}
}

func (m *metrics) aside(reason string, n uint64) {
	m.setAside.WithLabelValues(reason).Add(float64(n))
}

func (m *metrics) delivered(a outbox.Attempt) {
	outcome := "retry"
	switch {
	case a.Done && a.Error != "":
		outcome = "failed"
	case a.Done:
		outcome = "done"
	}
	m.deliveries.WithLabelValues(string(a.Effect.Kind), string(a.Effect.Channel), outcome).Observe(a.Took.Seconds())
}

// recorded counts the incidents and verdicts of new timeline entries.
func (m *metrics) recorded(view state.View, entries []state.Entry) {
	for _, e := range entries {
		if e.Kind != "opened" && e.Kind != "diagnosed" {
			continue
		}
		in, ok := view.Incident(e.Incident)
		if !ok {
			continue
		}
		if e.Kind == "opened" {
			m.opened.WithLabelValues(string(in.Severity)).Inc()
			continue
		}
		m.confidence.WithLabelValues(string(in.Cause())).Observe(in.Diagnosis.Confidence)
		if e.At.Equal(in.DiagnosedAt) {
			m.verdictAge.Observe(in.DiagnosedAt.Sub(in.OpenedAt).Seconds())
		}
	}
}

// decided counts the answers of guards.
func (m *metrics) decided(results []state.GuardResult) {
	for _, r := range results {
		m.guards.WithLabelValues(r.Guard, string(r.Decision)).Inc()
	}
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
