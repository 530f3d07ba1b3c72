package kubernetes

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"paramedic/lab/scrape"
)

// Prometheus gets healthy minutes of a pool from before a test, and then a gap. The gap is longer
// than the windows of rates and than the lookback, so that present values come from the fault
// alone.
const (
	remembered = 15 * time.Minute
	missed     = 11 * time.Minute
)

// pastPath serves a worker's past as one page of samples with timestamps.
const pastPath = "/past"

// healthy returns each worker's samples of that time, with timestamps, from the same engines
// without a fault.
func (f *flock) healthy(seqs int) [][]byte {
	fleet := f.build(seqs, true)
	begin, from := fleet.Start().Add(2*time.Minute), time.Now().Add(-missed-remembered)
	out := make([][]byte, workers)
	for at := time.Duration(0); at <= remembered; at += 30 * time.Second {
		fleet.Advance(begin.Add(pace * at))
		stamp := " " + strconv.FormatInt(from.Add(at).UnixMilli(), 10) + "\n"
		for i, p := range fleet.Pods() {
			page := httptest.NewRecorder()
			scrape.Worker(fleet, p.Name).ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			for line := range bytes.Lines(page.Body.Bytes()) {
				if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
					out[i] = append(append(out[i], line...), stamp...)
				}
			}
		}
	}
	return out
}

// recall answers with a pod's past.
func (f *flock) recall(w http.ResponseWriter, pod string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	w.Write(f.before[pod])
}

// remembers reports whether a pod has a past that Prometheus lacks.
func (f *flock) remembers(pod string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.before[pod]) > 0
}

// forget drops the past, after Prometheus has read it.
func (f *flock) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.before)
}

// remembers returns nil if Prometheus has the past of every worker of a namespace.
func (p *prometheus) remembers(namespace string) error {
	got, err := p.ask(fmt.Sprintf(`count(count_over_time(vllm:kv_cache_usage_perc{namespace=%q}[10m] offset 15m) > 10)`, namespace))
	if err == nil && got != fmt.Sprint(workers) {
		err = fmt.Errorf("%s of %d workers have a past", got, workers)
	}
	return err
}
