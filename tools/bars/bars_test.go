package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	playRole()
	os.Exit(m.Run())
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 9}, 3}} {
		if got := median(c.values); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.values, got, c.want)
		}
	}
}

func TestTableBeginsWithTheWorstRow(t *testing.T) {
	rows := table{
		{id: "good", what: "good", limit: 25, most: true, unit: "ms"},
		{id: "near", what: "near", limit: 1.3, sides: "%.0f ÷ %.0f alerts/s"},
		{id: "bad", what: "bad", limit: 1.0 / 3, most: true},
		{id: "none", what: "none", limit: 1, note: "no Alertmanager"},
	}
	rows.add("good", 12, delivery{})
	rows.divide("near", 1000, 1000, delivery{})
	rows.divide("near", 3000, 2500, delivery{})
	rows.divide("near", 1000, 2000, delivery{refused: 7})
	rows.add("bad", 2, delivery{})
	var out strings.Builder
	rows.write(&out)
	const want = `| measured | median | bar | met | rounds | lowest to highest; both sides |
| --- | ---: | ---: | --- | ---: | --- |
| none | – | ≥ 1.00 | not measured | 0 | no Alertmanager |
| bad | 2.00 | ≤ 1/3 | **no** | 1 |  |
| near | 1.00 | ≥ 1.30 | **no** | 3 | 0.50 to 1.20; 1000 ÷ 2000 alerts/s; 7 payloads refused |
| good | 12 ms | ≤ 25 ms | yes | 1 |  |
`
	if out.String() != want {
		t.Errorf("the table is\n%s\nwant\n%s", out.String(), want)
	}
}

func TestParseBench(t *testing.T) {
	got := parseBench("goos: linux\nBenchmarkApply/storm-2 \t 100\t 102242 ns/alert-100k\t 1.222 ratio-100k\nPASS\n")
	if len(got) != 1 || got[0].name != "BenchmarkApply/storm-2" || got[0].metrics["ratio-100k"] != 1.222 {
		t.Errorf("%+v", got)
	}
}

func TestValuesOfAMetric(t *testing.T) {
	const page = "# HELP waiting Inputs.\nwaiting{partition=\"0\"} 1e3\nwaiting{partition=\"1\"} 2\nwaiting_age 9\n"
	if got, err := valuesOf([]byte(page), "waiting"); err != nil || !slices.Equal(got, []float64{1000, 2}) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := valuesOf([]byte("VmHWM:\t  99 kB\nVmRSS:\t  42 kB\n"), "VmRSS:"); err != nil || !slices.Equal(got, []float64{42}) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := valuesOf([]byte(page), "missing"); err == nil {
		t.Error("a missing metric is no error")
	}
}

func TestShapesMakeDifferentAlerts(t *testing.T) {
	for pools, s := range map[int]shape{1: onePool, 40: poolPerBatch, 2000: poolPerAlert, 500: manyPools} {
		seen, alerts := map[string]bool{}, map[string]bool{}
		for _, p := range append(s.payloads(0, 1500, batch), s.payloads(1500, 500, batch)...) {
			var hook struct{ Alerts []alert }
			if err := json.Unmarshal(p, &hook); err != nil {
				t.Fatal(err)
			}
			for _, a := range hook.Alerts {
				seen[a.Labels["model_name"]] = true
				alerts[a.Fingerprint+a.Labels["pod"]+a.Labels["engine"]] = true
			}
		}
		if len(seen) != pools || len(alerts) != 2000 {
			t.Errorf("%d pools and %d alerts, want %d and 2000", len(seen), len(alerts), pools)
		}
	}
}

// The real bot and, if it is installed, a real Alertmanager give every row a value.
func TestQuickRunFillsTheTable(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs the bot")
	}
	m := measurement{runner: runner{ctx: t.Context()}, table: bars(), rounds: 1, quick: true,
		sizes: sizes{active: 400, single: 200, large: 400, paced: 200 * time.Millisecond, minute: 200 * time.Millisecond}}
	if m.findAlertmanager() != nil {
		m.skipAlertmanager()
	}
	var out strings.Builder
	if err := m.run(&out); err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	for _, b := range m.table {
		if len(b.rounds) == 0 && b.note == "" {
			t.Errorf("%s has neither a value nor a reason", b.what)
		}
	}
}
