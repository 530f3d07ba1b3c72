package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// batch is the number of alerts in a large payload, and in a batch of Alertmanager's API.
const batch = 50

// A measurement measures the bars with real processes.
type measurement struct {
	runner
	table table
	sizes
	rounds int
	quick  bool
	only   func(io.Writer) // instead of the table
}

// sizes are numbers of alerts and times.
type sizes struct {
	active int           // alerts that are active
	single int           // payloads of one alert for a rate
	large  int           // alerts in large payloads for a rate
	paced  time.Duration // half the maximum rate lasts so long
	minute time.Duration // a storm and the time until memory is read again
}

// all takes the values of all rows. The slowest rows have one round.
func (m *measurement) all() {
	progress("memory and restarts")
	m.activeAlerts()
	for round := range m.rounds {
		progress("rates, round %d of %d", round+1, m.rounds)
		m.singles(round)
		if m.alertmanager != "" {
			m.batches(round, onePool, "accepted-one", "triaged-one")
			m.batches(round, poolPerBatch, "accepted-each", "triaged-each")
		}
	}
	progress("two storms")
	m.lag(onePool, "lag-one")
	m.lag(poolPerAlert, "lag-each")
	if m.quick {
		for _, id := range []string{"apply", "deliveries", "page"} {
			m.table.bar(id).note = "left out with -quick"
		}
		return
	}
	progress("Go benchmarks")
	m.benchmarks()
}

const hook, api = "/webhook/alertmanager", "/api/v2/alerts"

// singles measures payloads of one alert.
func (m *measurement) singles(round int) {
	var answered, empty delivery
	inTurns(round, func() {
		p := m.startAnswer()
		defer p.kill()
		answered = m.send(p.url+hook, onePool.payloads(0, m.single, 1), 0)
	}, func() {
		empty = m.halfRate(onePool, "p99-one")
	})
	m.table.divide("durable", empty.perSecond(), answered.perSecond(), empty)
	m.halfRate(poolPerAlert, "p99-each")
}

// halfRate measures the maximum rate of an empty bot, and adds the time of its answers at half that
// rate. It returns the delivery at the maximum rate.
func (m *measurement) halfRate(s shape, id string) delivery {
	p := m.startBot()
	defer p.end()
	full := m.send(p.url+hook, s.payloads(0, m.single, 1), 0)
	p.triaged()
	rate := full.perSecond() / 2
	half := m.send(p.url+hook, s.payloads(m.single, int(rate*m.paced.Seconds()), 1), rate)
	m.table.add(id, half.p99().Seconds()*1000, half)
	return full
}

// batches measures large payloads beside Alertmanager's batches.
func (m *measurement) batches(round int, s shape, accepted, triaged string) {
	var ours, theirs delivery
	var last time.Time
	inTurns(round, func() {
		p := m.startAlertmanager()
		defer p.end()
		theirs = m.send(p.url+api, s.posts(m.large), 0)
	}, func() {
		p := m.startBot()
		defer p.end()
		ours = m.send(p.url+hook, s.payloads(0, m.large, batch), 0)
		last = p.triaged()
	})
	other := theirs.perSecond() * batch
	m.table.divide(accepted, ours.perSecond()*batch, other, ours)
	m.table.divide(triaged, float64(ours.accepted)*batch/last.Sub(ours.began).Seconds(), other, ours)
}

// inTurns runs each side. Every round begins with another one.
func inTurns(round int, sides ...func()) {
	for i := range sides {
		sides[(i+round)%len(sides)]()
	}
}

// A subject is a process whose memory is measured, in bytes.
type subject struct {
	*process
	fill              func(*process)
	idle, peak, later float64
}

// activeAlerts measures two bots with active alerts, in one incident and in many: their memory
// beside Alertmanager's, the rate of more alerts, and the time to start again.
func (m *measurement) activeAlerts() {
	var all []*subject
	var filled delivery
	for _, s := range []shape{onePool, manyPools} {
		bot := &subject{process: m.startBot(), fill: func(p *process) {
			// What is refused is sent again, as Alertmanager does.
			for bodies := s.payloads(0, m.active, batch); len(bodies) > 0; p.triaged() {
				d := m.send(p.url+hook, bodies, 0)
				bodies, filled.refused = d.again, filled.refused+d.refused
			}
		}}
		defer bot.end()
		all = append(all, bot)
		if m.alertmanager != "" {
			other := &subject{process: m.startAlertmanager(), fill: func(p *process) { m.send(p.url+api, s.posts(m.active), 0) }}
			defer other.end()
			all = append(all, other)
		}
	}
	m.watch(all)
	one, many := all[0], all[len(all)/2]
	if m.alertmanager != "" {
		m.table.divide("peak", one.peak/1e6, all[1].peak/1e6, filled)
		m.table.divide("later", one.later/1e6, all[1].later/1e6, filled)
		for i, id := range []string{"memory-one", "memory-many"} {
			each := func(s *subject) float64 { return (s.later - s.idle) / float64(m.active) }
			m.table.divide(id, each(all[2*i]), each(all[2*i+1]), filled)
		}
	}
	many.await("paramedic_outbox_due") // the storm is over
	for round := range m.rounds {
		m.beside(round, many.process)
	}
	one.kill()
	many.kill()
	m.restarts(one.dir, many.dir)
}

// watch fills one process after another, and reads their memory before and a minute afterwards.
func (m *measurement) watch(all []*subject) {
	time.Sleep(m.minute / 2) // a start leaves garbage
	for _, s := range all {
		s.idle = s.memory("VmRSS")
	}
	for _, s := range all {
		s.fill(s.process)
	}
	time.Sleep(m.minute)
	for _, s := range all {
		s.later, s.peak = s.memory("VmRSS"), s.memory("VmHWM")
	}
}

// beside compares the rate of a bot with active alerts with that of an empty one. Few payloads are
// enough, so that the number of active alerts stays near.
func (m *measurement) beside(round int, busy *process) {
	var full, empty delivery
	count := m.single / 3
	inTurns(round, func() {
		full = m.send(busy.url+hook, onePool.payloads(m.active+round*count, count, 1), 0)
		busy.triaged()
	}, func() {
		p := m.startBot()
		defer p.end()
		empty = m.send(p.url+hook, onePool.payloads(0, count, 1), 0)
	})
	m.table.divide("durable-full", full.perSecond(), empty.perSecond(), full)
}

// restarts measures the time from a start after SIGKILL until the bot is ready, also beside two
// processes that keep the processors busy.
func (m *measurement) restarts(one, many string) {
	again := m.copyOf(many)
	ready := func(id, dir string) float64 {
		p := m.restartBot(dir)
		defer p.end()
		if p.metric("paramedic_partitions_rebuilt_total") > 0 {
			m.table.bar(id).note = "the bot found damage and rebuilt its state"
		}
		return p.took.Seconds()
	}
	m.table.add("ready-one", ready("ready-one", one), delivery{})
	alone := ready("ready-many", many)
	m.table.add("ready-many", alone, delivery{})
	for range 2 {
		spin := exec.CommandContext(m.ctx, must(os.Executable()), "spin")
		check(spin.Start())
		defer func() { _ = spin.Process.Kill(); _ = spin.Wait() }()
	}
	m.table.divide("ready-busy", ready("ready-busy", again), alone, delivery{})
}

// lag measures how long after a storm the last accepted alert is triaged.
func (m *measurement) lag(s shape, id string) {
	p := m.startBot()
	defer p.end()
	d := m.send(p.url+hook, s.payloads(0, m.active, 1), float64(m.active)/m.minute.Seconds())
	m.table.add(id, p.triagedUntil(d.ended).Sub(d.ended).Seconds(), d)
	if n := p.metric("paramedic_inputs_set_aside_total"); n > 0 {
		panic(fmt.Errorf("the bot skipped %v inputs", n))
	}
}

// benchmarks adds the rows that Go benchmarks measure.
func (m *measurement) benchmarks() {
	apply := m.goBench("^BenchmarkApply$", "100x")
	worst := slices.MaxFunc(apply, func(a, b result) int { return cmp.Compare(a.metrics["ratio-100k"], b.metrics["ratio-100k"]) })
	m.table.add("apply", worst.metrics["ratio-100k"], delivery{})
	m.table.bar("apply").note = "the worst: " + strings.TrimPrefix(worst.name, "BenchmarkApply/")
	deliveries := m.goBench("^BenchmarkDeliveries$", "5x")[0].metrics
	m.table.divide("deliveries", deliveries["many/s"], deliveries["few/s"], delivery{})
	m.table.add("page", m.goBench("^BenchmarkPageStorm$", "1x")[0].metrics["after-settle-s"], delivery{})
}
