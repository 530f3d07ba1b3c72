package evidence

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"paramedic/rules"
	"paramedic/rules/enrich"
	"paramedic/rules/enrich/prometheus"
	"paramedic/rules/signals"
	"paramedic/state"
)

// BenchmarkEvidence gathers one incident's evidence of a pool of 64 workers from a real
// Prometheus with 100,000 series: the version of tools/prometheus, or the binary at $PROMETHEUS.
// It reports the median, the 95th percentile, the number of queries and Prometheus's CPU time
// of:
//
//   - ahead: prefetching the past when the incident opens
//   - first: the first gathering, ten seconds later
//   - next: a later gathering
//   - alone: a gathering without prefetch
//
// It also reports the time of the diagnosis.
func BenchmarkEvidence(b *testing.B) {
	dir := b.TempDir()
	start := time.Now().Add(-healthy - sick).Truncate(time.Second)
	end, series, err := record(filepath.Join(dir, "tsdb"), start)
	if err != nil {
		b.Fatal(err)
	}
	if series < enough {
		b.Fatalf("%d series, want %d", series, enough)
	}
	address := startPrometheus(b, dir, "global: {scrape_interval: 15s}\n")
	counting := &counter{next: prometheus.Transport()}
	known, err := signals.LoadSignals()
	if err != nil {
		b.Fatal(err)
	}
	gatherer := func() *enrich.Gatherer {
		client, err := prometheus.New(prometheus.Config{URL: address, Transport: counting})
		if err != nil {
			b.Fatal(err)
		}
		return enrich.New(enrich.Config{Clusters: map[string]enrich.Cluster{"default": {Prometheus: client}}, Signals: known,
			Deadline: time.Minute})
	}
	request := enrich.Request{Cluster: "default",
		Scope: state.Scope{Cluster: "default", Namespace: "llm", Pool: "vllm-llama", Model: "llama-70b"}, Now: end,
		Onset: end.Add(-sick + 2*time.Minute)}
	opening, later := request, request
	opening.Now, later.Now = end.Add(-10*time.Second), end.Add(45*time.Second)
	ev := gatherer().Gather(b.Context(), request)
	if len(ev.Workers) != workers {
		b.Fatalf("%d workers, missing %v", len(ev.Workers), ev.Missing)
	}
	var ahead, first, next, alone gatherings
	for b.Loop() {
		g := gatherer()
		ahead.add(b, counting, address, func() { g.Prepare(b.Context(), opening) })
		first.add(b, counting, address, func() { ev = g.Gather(b.Context(), request) })
		next.add(b, counting, address, func() { g.Gather(b.Context(), later) })
		g = gatherer()
		alone.add(b, counting, address, func() { g.Gather(b.Context(), request) })
	}
	for _, m := range ev.Missing {
		b.Logf("missing: %s (%s)", m.Signal, m.Reason)
	}
	ahead.report(b, "ahead-")
	first.report(b, "first-")
	next.report(b, "next-")
	alone.report(b, "alone-")
	half, most := percentiles(diagnose(b, request, ev))
	b.ReportMetric(float64(half.Microseconds()), "diagnosis-p50-µs")
	b.ReportMetric(float64(most.Microseconds()), "diagnosis-p95-µs")
	b.ReportMetric(float64(series), "series")
	b.ReportMetric(float64(len(ev.Samples)), "samples")
	b.ReportMetric(0, "ns/op") // meaningless: the mean of all four
}

// gatherings holds the cost of gatherings of one kind.
type gatherings struct {
	took    []time.Duration
	queries int64
	cpu     float64 // of Prometheus, in seconds
}

func (g *gatherings) add(b *testing.B, counting *counter, address string, gather func()) {
	b.Helper()
	asked, used, from := counting.n.Load(), cpu(b, address), time.Now()
	gather()
	g.took = append(g.took, time.Since(from))
	g.queries += counting.n.Load() - asked
	g.cpu += cpu(b, address) - used
}

func (g *gatherings) report(b *testing.B, kind string) {
	b.Helper()
	n := float64(len(g.took))
	half, most := percentiles(g.took)
	b.ReportMetric(float64(half.Milliseconds()), kind+"p50-ms")
	b.ReportMetric(float64(most.Milliseconds()), kind+"p95-ms")
	b.ReportMetric(g.cpu/n*1000, kind+"prometheus-cpu-ms")
	b.ReportMetric(float64(g.queries)/n, kind+"queries")
}

// diagnose returns the times of 2,000 diagnoses of the evidence with the fault's alerts.
func diagnose(b *testing.B, request enrich.Request, ev state.Evidence) []time.Duration {
	b.Helper()
	judge, problems, err := rules.Load("")
	if err != nil || len(problems) > 0 {
		b.Fatal(err, problems)
	}
	in := state.Incident{ID: "INC-1", Cluster: "default", Status: state.StatusOpen, OpenedAt: request.Onset, Scope: request.Scope}
	for _, name := range []string{"VLLMKVCacheExhaustion", "VLLMRequestQueueBackup", "LLMPreemptionStorm", "VLLMHighTTFT"} {
		s := judge.Classify(state.Alert{Labels: map[string]string{"alertname": name, "model_name": "llama-70b", "namespace": "llm"}},
			"default")
		in.Symptoms = append(in.Symptoms,
			state.SymptomCount{Symptom: s.Symptom, Severity: s.Severity, Alerts: 1, Active: 1, First: request.Onset, Last: request.Now,
				Rules: []string{name}, Entities: []state.Entity{s.Entity}, Hints: s.Hints})
	}
	var took []time.Duration
	for range 2000 {
		from := time.Now()
		d := judge.Diagnose(&in, &ev, request.Now)
		took = append(took, time.Since(from))
		if d.Cause != "kv_exhaustion" {
			b.Fatalf("the recorded fault is diagnosed as %s", d.Cause)
		}
	}
	return took
}

// cpu returns the processor time that Prometheus reports, in seconds.
func cpu(b *testing.B, address string) float64 {
	b.Helper()
	resp, err := http.Get(address + "/metrics")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "process_cpu_seconds_total "); ok {
			seconds, err := strconv.ParseFloat(text, 64)
			if err != nil {
				b.Fatal(err)
			}
			return seconds
		}
	}
	b.Fatal("Prometheus does not report its processor time")
	return 0
}

func percentiles(took []time.Duration) (half, most time.Duration) {
	slices.Sort(took)
	return took[len(took)/2], took[(len(took)-1)*95/100]
}

type counter struct {
	next http.RoundTripper
	n    atomic.Int64
}

func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	c.n.Add(1)
	return c.next.RoundTrip(r)
}

func startPrometheus(b testing.TB, dir, configured string) string {
	b.Helper()
	bin := os.Getenv("PROMETHEUS") // another version's
	if bin == "" {
		bin = filepath.Join(dir, "prometheus")
		build := exec.Command("go", "build", "-C", "../prometheus", "-tags", "remove_all_sd", "-o", bin,
			"github.com/prometheus/prometheus/cmd/prometheus")
		if out, err := build.CombinedOutput(); err != nil {
			b.Fatalf("building Prometheus: %v\n%s", err, out)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, []byte(configured), 0o600); err != nil {
		b.Fatal(err)
	}
	out, err := os.Create(filepath.Join(dir, "prometheus.log"))
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(bin, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "tsdb"), "--web.listen-address="+address)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		_ = out.Close()
	})
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	for beat := time.NewTicker(50 * time.Millisecond); ; {
		if resp, err := http.Get("http://" + address + "/-/ready"); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				beat.Stop()
				return "http://" + address
			}
		}
		select {
		case <-beat.C:
		case <-ctx.Done():
			text, _ := os.ReadFile(out.Name())
			b.Fatal(fmt.Errorf("prometheus is not ready: %s", text))
		}
	}
}
