package service

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"paramedic/state"
)

var (
	buildInfo = prometheus.NewDesc("paramedic_build_info", "Always 1. The label holds the version.", []string{"version"}, nil)
	incidents = prometheus.NewDesc("paramedic_incidents", "Incidents within retention, by status (open, resolved).",
		[]string{"status"}, nil)
	runs = prometheus.NewDesc("paramedic_runs",
		"Runs of first aid within retention that passed the guards, by state.", []string{"state"}, nil)
	needPerson = prometheus.NewDesc("paramedic_runs_need_person",
		"Runs of first aid that wait for a person, because the bot cannot tell or repair their effect.", nil, nil)
	halted = prometheus.NewDesc("paramedic_first_aid_halted", "1 if first aid is halted in the cluster.",
		[]string{"cluster"}, nil)
	active     = prometheus.NewDesc("paramedic_active", "1 if this process commits and delivers, 0 if it only follows.", nil, nil)
	storeBytes = prometheus.NewDesc("paramedic_store_bytes", "Size of the log and the records, in bytes.", nil, nil)
)

// sizer is implemented by a store that knows its size. *jetstream.Store does.
type sizer interface {
	Bytes(ctx context.Context) (uint64, error)
}

// sizeTime bounds how long a scrape waits for the size of an external store.
const sizeTime = 2 * time.Second

// A stateCollector reports the incidents, the runs and the store of the running service, at each
// scrape.
type stateCollector struct{ metrics *metrics }

// Describe implements prometheus.Collector.
func (c stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{buildInfo, incidents, runs, needPerson, halted, active, storeBytes} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. It leaves out the size of a store that does not answer.
func (c stateCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(buildInfo, 1, Version)
	s := c.metrics.running.Load()
	if s == nil {
		return
	}
	tally := s.Keeper.Tally()
	gauge(incidents, float64(tally.Open), "open")
	gauge(incidents, float64(tally.Resolved), "resolved")
	byState, waiting := map[state.ActionState]int{}, 0
	for _, a := range s.Keeper.BegunActions() {
		byState[a.State]++
		if a.NeedsPerson() {
			waiting++
		}
	}
	for st, n := range byState {
		gauge(runs, float64(n), string(st))
	}
	gauge(needPerson, float64(waiting))
	for _, cluster := range s.cfg.ClusterNames() {
		on := 0.0
		if _, is := s.Keeper.Halted(cluster); is {
			on = 1
		}
		gauge(halted, on, cluster)
	}
	holds := 0.0
	if s.active() {
		holds = 1
	}
	gauge(active, holds)
	if store, ok := s.deps.Store.(sizer); ok {
		ctx, cancel := context.WithTimeout(context.Background(), sizeTime)
		defer cancel()
		if n, err := store.Bytes(ctx); err == nil {
			gauge(storeBytes, float64(n))
		}
	}
}
