package lab

import (
	"bytes"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

func parse(t *testing.T, body []byte) map[string]*dto.MetricFamily {
	t.Helper()
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

func TestEveryPageParses(t *testing.T) {
	f := newFleet(t, Config{Seed: 1})
	f.Advance(f.Start().Add(2 * time.Minute))
	for _, relabelled := range []bool{false, true} {
		h := f.Handler(HandlerConfig{TargetLabels: relabelled})
		for _, target := range f.Targets() {
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, httptest.NewRequest("GET", target.Path, nil))
			if rec.Code != 200 {
				t.Fatalf("%s answers %d", target.Path, rec.Code)
			}
			families := parse(t, rec.Body.Bytes())
			if target.Job == "dcgm" && relabelled {
				if page := rec.Body.String(); !strings.Contains(page, `exported_pod="vllm-llama-`) && target.Labels["node"] == "gpu-node-1" {
					t.Error("the GPU's workload is not in exported_pod")
				}
			}
			if len(families) == 0 {
				t.Errorf("%s is empty", target.Path)
			}
		}
	}
}

// The recorded page of a real engine is not part of the repository; where it is at hand, ours must have its vllm: families.
func TestEnginePageMatchesARecordedOne(t *testing.T) {
	recorded, err := os.ReadFile(filepath.Join("..", "..", "shared", "data", "metrics", "dynamo-vllm.prom.txt"))
	if err != nil {
		t.Skip("the recorded page is not here:", err)
	}
	f := newFleet(t, Config{Seed: 1})
	f.Advance(f.Start().Add(time.Minute))
	rec := httptest.NewRecorder()
	f.WorkerHandler(f.Pods()[0].Name).ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	ours := parse(t, rec.Body.Bytes())
	for name, want := range parse(t, recorded) {
		if !strings.HasPrefix(name, "vllm:") {
			continue
		}
		got := ours[name]
		if got == nil {
			t.Errorf("%s is missing", name)
			continue
		}
		if got.GetType() != want.GetType() {
			t.Errorf("%s is a %v, want %v", name, got.GetType(), want.GetType())
		}
		if g, w := labelNames(got.Metric[0]), labelNames(want.Metric[0]); g != w {
			t.Errorf("%s has labels %s, want %s", name, g, w)
		}
		for i, b := range want.Metric[0].GetHistogram().GetBucket() {
			if e := got.Metric[0].Histogram.Bucket[i].GetUpperBound(); e != b.GetUpperBound() {
				t.Errorf("%s has bucket edge %g, want %g", name, e, b.GetUpperBound())
			}
		}
	}
}

func labelNames(m *dto.Metric) string {
	names := map[string]bool{}
	for _, l := range m.Label {
		names[l.GetName()] = true
	}
	return strings.Join(sortedKeys(names), ",")
}

func TestTheSameSeedMakesTheSamePages(t *testing.T) {
	dump := func(seed uint64, step time.Duration) string {
		f := newFleet(t, Config{Seed: seed})
		if err := f.Inject(Fault{Name: KVExhaustion, At: time.Minute}); err != nil {
			t.Fatal(err)
		}
		for at := step; at <= 6*time.Minute; at += step {
			f.Advance(f.Start().Add(at))
		}
		var all strings.Builder
		for _, target := range f.Targets() {
			body, err := encode(f.page(target, true))
			if err != nil {
				t.Fatal(err)
			}
			all.Write(body)
		}
		return all.String()
	}
	if dump(1, time.Minute) != dump(1, 3*time.Second) {
		t.Error("the pages depend on how the caller steps")
	}
	if dump(1, time.Minute) == dump(2, time.Minute) {
		t.Error("another seed makes the same pages")
	}
}

func TestEveryRuleIsPromQL(t *testing.T) {
	p := parser.NewParser(parser.Options{})
	for _, r := range Rules() {
		if _, err := p.ParseExpr(r.Expr); err != nil {
			t.Errorf("%s: %v", r.Name, err)
		}
	}
	body, err := PrometheusRules()
	if err != nil || !bytes.Contains(body, []byte("alert: VLLMKVCacheExhaustion")) {
		t.Errorf("the rules file is wrong: %v\n%s", err, body)
	}
}
