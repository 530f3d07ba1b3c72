package scrape

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/lab"
	"paramedic/lab/engine"
	"paramedic/lab/metrics/metricstest"
	"paramedic/lab/traffic"
)

func newFleet(t *testing.T, c lab.Config) *lab.Fleet {
	t.Helper()
	f, err := lab.NewFleet(c)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestEveryPageParses(t *testing.T) {
	f := newFleet(t, lab.Config{Seed: 1})
	f.Advance(f.Start().Add(2 * time.Minute))
	for _, relabelled := range []bool{false, true} {
		h := Handler(f, Config{TargetLabels: relabelled})
		for _, target := range f.Targets() {
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, httptest.NewRequest("GET", target.Path, nil))
			if rec.Code != 200 {
				t.Fatalf("%s answers %d", target.Path, rec.Code)
			}
			families := metricstest.Parse(t, rec.Body.Bytes())
			if target.Job == "dcgm" && relabelled {
				if page := rec.Body.String(); !strings.Contains(page, `exported_pod="vllm-llama-`) &&
					target.Labels["node"] == "gpu-node-1" {
					t.Error("the GPU's workload is not in exported_pod")
				}
			}
			if len(families) == 0 {
				t.Errorf("%s is empty", target.Path)
			}
		}
	}
}

// The recorded pages of real engines are not part of the repository. If they are present, the lab's
// pages must have the same families, types, labels and buckets.
func TestPagesMatchRecordedOnes(t *testing.T) {
	for _, c := range []struct {
		kind     engine.Kind
		job      string // "": a worker
		recorded string
		prefixes []string
		more     []string // names that a page has only after their first count
	}{
		// vLLM 0.23
		{kind: engine.VLLM, recorded: "dynamo-vllm.prom.txt", prefixes: []string{"vllm:"}, more: []string{"vllm:num_requests_waiting_by_reason"}},
		{kind: engine.SGLang, recorded: "dynamo-sglang.prom.txt", prefixes: []string{"sglang:"},
			more: []string{"sglang:num_aborted_requests_total"}},
		{kind: engine.Dynamo, recorded: "dynamo-vllm.prom.txt", prefixes: []string{"vllm:", "dynamo_component_"},
			more: []string{"dynamo_component_errors_total"}},
		{kind: engine.Dynamo, job: "frontend", recorded: "dynamo-frontend.prom.txt", prefixes: []string{"dynamo_frontend_"}},
	} {
		t.Run(string(c.kind)+" "+c.job, func(t *testing.T) {
			recorded, err := os.ReadFile(filepath.Join(data(t), "metrics", c.recorded))
			if err != nil {
				t.Fatal(err)
			}
			f := newFleet(t, lab.Config{Seed: 1, Kind: c.kind, Workload: traffic.Workload{CancelShare: .2}})
			f.Advance(f.Start().Add(3 * time.Minute))
			path := "/worker/" + f.Pods()[0].Name + "/metrics"
			if c.job != "" {
				path = "/gateway/metrics"
			}
			rec := httptest.NewRecorder()
			Handler(f, Config{}).ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
			ours, theirs := metricstest.Parse(t, rec.Body.Bytes()), metricstest.Parse(t, recorded)
			wanted := func(name string) bool {
				return slices.ContainsFunc(c.prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
			}
			for name := range ours {
				if other := !wanted(name) && c.kind != engine.VLLM; other ||
					wanted(name) && theirs[name] == nil && !slices.Contains(c.more, name) {
					t.Errorf("%s is not on the recorded page", name)
				}
			}
			for name, want := range theirs {
				if wanted(name) {
					metricstest.Compare(t, name, ours[name], want)
				}
			}
		})
	}
}

// data returns the folder of recorded pages, beside the repository or one of its parents.
func data(t *testing.T) string {
	t.Helper()
	for dir := ".."; len(dir) < 24; dir = filepath.Join("..", dir) {
		if at := filepath.Join(dir, "shared", "data"); isDir(at) {
			return at
		}
	}
	t.Skip("SKIPPED: no ../shared/data/metrics beside the checkout; recorded pages were not compared")
	return ""
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
