package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// root is the repository.
const root = "../.."

// bars returns the table without values.
func bars() table {
	const rates, mb, bytes = "%.0f ÷ %.0f alerts/s", "%.0f ÷ %.0f MB", "%.0f ÷ %.0f bytes"
	return table{
		{id: "durable", limit: 0.5, sides: rates,
			what: "durable alerts/s, 1 a payload, 64 connections ÷ an HTTP server that only answers"},
		{id: "durable-full", limit: 0.8, sides: rates,
			what: "durable alerts/s, 1 a payload, beside 100k active alerts in 25k incidents ÷ on an empty store"},
		{id: "accepted-one", limit: 1.3, sides: rates, what: "durable alerts/s, 50 a payload, one incident ÷ Alertmanager"},
		{id: "accepted-each", limit: 1.3, sides: rates,
			what: "durable alerts/s, 50 a payload, an incident a payload ÷ Alertmanager"},
		{id: "triaged-one", limit: 1, sides: rates, what: "triaged alerts/s, 50 a payload, one incident ÷ Alertmanager"},
		{id: "triaged-each", limit: 0.8, sides: rates,
			what: "triaged alerts/s, 50 a payload, an incident a payload ÷ Alertmanager"},
		{id: "lag-one", limit: 5, most: true, unit: "s", what: "lag of triage after 100k alerts in 60 s, one incident"},
		{id: "lag-each", limit: 5, most: true, unit: "s", what: "lag of triage after 100k alerts in 60 s, an incident an alert"},
		{id: "apply", limit: 1.3, most: true, what: "cost of one more alert at 100k ÷ 1k active, nine shapes"},
		{id: "peak", limit: 1, most: true, sides: mb, what: "peak RSS with 100k active alerts in one incident ÷ Alertmanager"},
		{id: "later", limit: 0.5, most: true, sides: mb,
			what: "RSS a minute later, 100k active alerts in one incident ÷ Alertmanager"},
		{id: "memory-one", limit: 1.0 / 3, most: true, sides: bytes,
			what: "(RSS a minute later − idle) an alert, one incident ÷ Alertmanager"},
		{id: "memory-many", limit: 1, most: true, sides: bytes,
			what: "(RSS a minute later − idle) an alert, 25k incidents ÷ Alertmanager"},
		{id: "deliveries", limit: 0.8, sides: "%.0f ÷ %.0f a second", what: "deliveries/s, 50,000 effects due ÷ 100 due"},
		{id: "ready-one", limit: 3, most: true, unit: "s", what: "ready after SIGKILL, 100k alerts in one incident"},
		{id: "ready-many", limit: 5, most: true, unit: "s", what: "ready after SIGKILL, 100k alerts in 25k incidents"},
		{id: "ready-busy", limit: 2.5, most: true, sides: "%.1f ÷ %.1f s",
			what: "ready after SIGKILL, 25k incidents, beside two busy processes ÷ alone"},
		{id: "p99-one", limit: 25, most: true, unit: "ms", what: "p99 of the webhook at half the maximum rate, one incident"},
		{id: "p99-each", limit: 25, most: true, unit: "ms",
			what: "p99 of the webhook at half the maximum rate, an incident an alert"},
		{id: "page", limit: 1, most: true, unit: "s", what: "first critical page in a storm of 10k incidents, after `triage.settle`"},
	}
}

func main() {
	playRole()
	m := measurement{table: bars(), sizes: sizes{active: 100_000, single: 15_000, large: 50_000, paced: 10 * time.Second,
		minute: time.Minute}}
	flag.IntVar(&m.rounds, "rounds", 5, "rounds of all rows but the slowest")
	flag.BoolVar(&m.quick, "quick", false, "one round with few alerts and no Go benchmarks, to try the program")
	scale := flag.Bool("scale", false, "only fill one bot with a million alerts of 1,000 clusters")
	skip := flag.Bool("skip-alertmanager", false, "leave out the rows that need Alertmanager")
	flag.Parse()
	if m.quick {
		m.rounds, m.sizes = 1, sizes{active: 2000, single: 500, large: 2000, paced: time.Second, minute: 2 * time.Second}
	}
	var stop func()
	m.ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *scale {
		m.only = m.scale
	}
	if *skip || *scale {
		m.skipAlertmanager()
	} else {
		err = m.findAlertmanager()
	}
	if err == nil {
		err = m.run(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bars:", err)
		os.Exit(1)
	}
}

// playRole runs one of the processes that this program starts of itself.
func playRole() {
	if len(os.Args) > 2 && os.Args[1] == "answer" {
		check(answer(os.Args[2]))
	}
	for len(os.Args) > 1 && os.Args[1] == "spin" {
	}
}

// findAlertmanager looks for Alertmanager. By default it is where Debian's package installs it.
func (m *measurement) findAlertmanager() error {
	path, err := exec.LookPath(cmp.Or(os.Getenv("ALERTMANAGER"), "/usr/bin/prometheus-alertmanager"))
	if err != nil {
		return fmt.Errorf("%w: install the package prometheus-alertmanager, name another binary in ALERTMANAGER, or leave out its "+
			"rows with -skip-alertmanager", err)
	}
	m.alertmanager = path
	return nil
}

// skipAlertmanager gives the rows that need Alertmanager a reason instead of a value.
func (m *measurement) skipAlertmanager() {
	for _, b := range m.table {
		if strings.HasSuffix(b.what, "÷ Alertmanager") {
			b.note = "left out with -skip-alertmanager"
		}
	}
}

// run measures the bars and prints the table, even if it ends early.
func (m *measurement) run(w io.Writer) (err error) {
	cache := must(filepath.Abs(filepath.Join(root, ".cache")))
	check(os.MkdirAll(cache, 0o755))
	m.dir = must(os.MkdirTemp(cache, "bars-"))
	defer os.RemoveAll(m.dir)
	m.bot = filepath.Join(m.dir, "paramedic")
	build := exec.CommandContext(m.ctx, "go", "build", "-o", m.bot, "./cmd/paramedic")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the bot: %w\n%s", err, out)
	}
	was := readMachine()
	defer func() {
		if failed := recover(); failed != nil {
			said, _ := os.ReadFile(filepath.Join(m.dir, "log")) // of the last server; it may not exist
			err = fmt.Errorf("%v\n%s", failed, said[max(0, len(said)-4000):])
		}
		fmt.Fprintln(w, readMachine().since(was))
		if m.only != nil {
			return
		}
		if m.quick {
			fmt.Fprintf(w, "A quick run: %d alerts instead of 100k, %s instead of a minute, no Go benchmarks.\n", m.active, m.minute)
		}
		fmt.Fprintln(w)
		m.table.write(w)
	}()
	if m.only != nil {
		m.only(w)
		return nil
	}
	m.all()
	return nil
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}
