package service

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"paramedic/state/outbox"
)

// metrics holds the bot's own metrics.
type metrics struct {
	registry   *prometheus.Registry
	requests   *prometheus.HistogramVec
	alerts     prometheus.Counter
	setAside   *prometheus.CounterVec
	deliveries *prometheus.HistogramVec
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
		setAside: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "paramedic_alerts_set_aside_total",
			Help: "Alerts that the bot did not accept, by reason. /api/v1/status lists the last ones."}, []string{"reason"}),
		deliveries: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "paramedic_effect_duration_seconds",
			Help: "Time to deliver an effect, by kind, channel and outcome (done, retry, " +
				"failed).", Buckets: prometheus.ExponentialBuckets(0.005, 4, 8)},
			[]string{"kind", "channel", "outcome"}),
	}
	m.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), m.requests, m.alerts, m.setAside,
		m.deliveries, lagCollector{m})
	return m
}

func (m *metrics) observe(route string, code int, d time.Duration, alerts int) {
	m.requests.WithLabelValues(route, strconv.Itoa(code)).Observe(d.Seconds())
	m.alerts.Add(float64(alerts))
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

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
