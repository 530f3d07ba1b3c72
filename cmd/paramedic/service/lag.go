package service

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"paramedic/state"
)

var (
	waitingInputs = prometheus.NewDesc("paramedic_backlog_inputs",
		"Accepted inputs that are not applied yet, by partition.", []string{"partition"}, nil)
	waitingAlerts = prometheus.NewDesc("paramedic_backlog_alerts", "Alerts in the waiting inputs, by partition.",
		[]string{"partition"}, nil)
	waitingAge = prometheus.NewDesc("paramedic_backlog_oldest_seconds",
		"Age of the oldest waiting input, by partition.", []string{"partition"}, nil)
	waitingWork = prometheus.NewDesc("paramedic_backlog_work_seconds",
		"Time to apply the waiting inputs at the recent speed, by partition. triage.max_lag "+
			"limits it.", []string{"partition"}, nil)
	effectsDue = prometheus.NewDesc("paramedic_outbox_due", "Effects that are due but not done.", nil, nil)
	effectsAge = prometheus.NewDesc("paramedic_outbox_oldest_seconds",
		"Time since the oldest such effect was due.", nil, nil)
	pagesFolded = prometheus.NewDesc("paramedic_pages_folded",
		"Incidents that wait for their own page and are named in a summary page.", nil, nil)
	storeReopened = prometheus.NewDesc("paramedic_store_reopened_total",
		"How often the bot reopened the embedded store because it accepted no writes.", nil, nil)
	inputsLost = prometheus.NewDesc("paramedic_inputs_lost_total",
		"Accepted inputs that a damaged disk lost before they were applied.", nil, nil)
	inputsAside = prometheus.NewDesc("paramedic_inputs_set_aside_total",
		"Inputs that were skipped because the bot cannot apply them.", nil, nil)
	entriesLost = prometheus.NewDesc("paramedic_timeline_entries_lost_total",
		"Timeline entries that the store has lost, as far as the bot has checked.", nil, nil)
	stateRebuilt = prometheus.NewDesc("paramedic_partitions_rebuilt_total",
		"How often the bot rebuilt a damaged partition from its log.", nil, nil)
)

// damageCounts is implemented by a store that counts damage. *jetstream.Store does.
type damageCounts interface {
	Reopened() uint64
	Lost() uint64
}

// A lagCollector reports the backlog of the running service, at each scrape.
type lagCollector struct{ metrics *metrics }

// Describe implements prometheus.Collector.
func (c lagCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{waitingInputs, waitingAlerts, waitingAge, waitingWork, effectsDue, effectsAge, pagesFolded,
		storeReopened, inputsLost, inputsAside, entriesLost, stateRebuilt} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. It sends nothing before the first service runs.
func (c lagCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.metrics.running.Load()
	if s == nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, lag := range s.Keeper.Lag() {
		partition := strconv.Itoa(lag.Partition)
		gauge(waitingInputs, float64(lag.Inputs), partition)
		gauge(waitingAlerts, float64(lag.Alerts), partition)
		gauge(waitingAge, lag.Age.Seconds(), partition)
		gauge(waitingWork, lag.Work.Seconds(), partition)
	}
	since, due := s.Keeper.OldestDue()
	age := 0.0
	if !since.IsZero() {
		age = s.deps.Clock.Now().Sub(since).Seconds()
	}
	gauge(effectsDue, float64(due))
	gauge(effectsAge, age)
	folded := 0
	if f, ok := s.Keeper.Flood(state.ChannelPagerDuty); ok && !f.Over() {
		if count, known := s.Keeper.FirstWaiting(state.ChannelPagerDuty); known {
			folded = count.Waiting
		}
	}
	gauge(pagesFolded, float64(folded))
	counter := func(d *prometheus.Desc, v uint64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v))
	}
	counter(inputsAside, s.Keeper.SetAside())
	counter(entriesLost, s.Keeper.EntriesLost())
	counter(stateRebuilt, s.Keeper.Rebuilt())
	if store, ok := s.deps.Store.(damageCounts); ok {
		counter(storeReopened, store.Reopened())
		counter(inputsLost, store.Lost())
	}
}
