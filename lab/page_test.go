package lab

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/lab/machine"
	"paramedic/lab/metrics"
	"paramedic/lab/metrics/metricstest"
)

func TestSameSeedMakesSamePages(t *testing.T) {
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
			body, err := metrics.Encode(f.page(target, true))
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

// Newer exporters put the code into the gauge's labels, and most have DCGM_EXP_* off. A later
// report of the driver replaces an error on the gauge; the count has both for five minutes.
func TestDCGMPageInEachOfItsForms(t *testing.T) {
	for _, form := range []machine.DCGM{{}, {Labels: true}, {Uncounted: true}, {Labels: true, Uncounted: true}} {
		f := newFleet(t, Config{Seed: 1, DCGM: form})
		if err := f.Inject(Fault{Name: GPUFault, At: time.Minute, Worker: 1, Code: 48, Then: 45}); err != nil {
			t.Fatal(err)
		}
		shown := func() (gauge float64, text string, counted []string) {
			for _, family := range pages(f, "dcgm") {
				for _, m := range family.Metric {
					of := metricstest.Labels(m)
					switch name := family.GetName(); {
					case name == "DCGM_FI_DEV_XID_ERRORS" && m.Gauge.GetValue() > 0:
						gauge, text = m.Gauge.GetValue(), of["err_code"]+" "+of["err_msg"]
					case strings.HasPrefix(name, "DCGM_EXP_XID"):
						counted = append(counted, of["xid"])
					}
				}
			}
			slices.Sort(counted)
			return gauge, strings.TrimSpace(text), counted
		}
		for _, at := range []struct {
			after   time.Duration
			gauge   float64
			text    string
			counted []string
		}{
			{30 * time.Second, 0, "", nil},
			{80 * time.Second, 48, "48 Double Bit ECC Error", []string{"48"}},
			{2 * time.Minute, 45, "45 Preemptive cleanup, due to previous errors -- Most likely to see when running multiple cuda",
				[]string{"45", "48"}},
			{7 * time.Minute, 45, "45 Preemptive cleanup, due to previous errors -- Most likely to see when running multiple cuda", nil},
		} {
			f.Advance(f.Start().Add(at.after))
			if !form.Labels {
				at.text = ""
			}
			if form.Uncounted {
				at.counted = nil
			}
			if gauge, text, counted := shown(); gauge != at.gauge || text != at.text || !slices.Equal(counted, at.counted) {
				t.Errorf("%+v after %s: %v %q, counted %v", form, at.after, gauge, text, counted)
			}
		}
	}
}

// Missing scrapes have the configured share, and all readers miss the same ones.
func TestNoiseLosesScrapes(t *testing.T) {
	f := newFleet(t, Config{Seed: 1, Noise: metrics.Noise{Missing: 0.2, Gauges: 0.05}})
	lost, all := 0, 0
	for s := 1; s <= 100; s++ {
		f.Advance(f.Start().Add(time.Duration(s) * time.Second))
		for _, target := range f.targets() {
			gone := f.page(target, true) == nil
			if again := f.page(target, true) == nil; again != gone {
				t.Fatal("two readers of one moment see different scrapes")
			}
			all++
			lost += boolInt(gone)
		}
	}
	if share := float64(lost) / float64(all); math.Abs(share-0.2) > 0.05 {
		t.Errorf("%.2f of the scrapes are lost, want 0.2", share)
	}
}

// An excluded metric is on no page; the rest of each page is unchanged.
func TestExcludedMetricIsOnNoPage(t *testing.T) {
	count := func(without ...string) (xids, running int) {
		f := newFleet(t, Config{Seed: 1, Without: without})
		f.Advance(f.Start().Add(time.Second))
		for _, target := range f.targets() {
			for _, family := range f.page(target, true) {
				xids += boolInt(strings.HasPrefix(family.GetName(), "DCGM_FI_DEV_XID"))
				running += boolInt(family.GetName() == "vllm:num_requests_running")
			}
		}
		return xids, running
	}
	xids, running := count()
	if xids == 0 || running == 0 {
		t.Fatalf("a whole fleet has %d gauges of Xids and %d of running requests", xids, running)
	}
	if got, rest := count("DCGM_*XID*"); got != 0 || rest != running {
		t.Errorf("without Xids %d gauges of them are left, and %d of %d of running requests", got, rest, running)
	}
	if err := (Config{Without: []string{"DCGM_["}}).Validate(); err == nil || !strings.Contains(err.Error(), "is no metric") {
		t.Errorf("a pattern that cannot be: %v", err)
	}
}
