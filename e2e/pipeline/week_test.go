package pipeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"paramedic/e2e/bot"
	"paramedic/state"
)

// A real Prometheus holds a week of a pool whose KV cache has been full for twelve minutes.
// Diagnose reads now, an hour, a day and a week ago, and reports the cache's anomaly and its
// correlation with the queue.
func TestDiagnoseComparesHourDayAndWeek(t *testing.T) {
	t.Parallel()
	w := &world{t: t, dir: t.TempDir()}
	at := time.Now().UTC().Add(-2 * time.Minute).Truncate(time.Second)
	file := w.write("week.om", aWeek(at))
	if text, err := exec.Command("promtool", "tsdb", "create-blocks-from", "openmetrics", "--quiet", file, filepath.Join(w.dir, "tsdb")).
		CombinedOutput(); err != nil {
		t.Fatalf("writing the past into Prometheus: %v\n%s", err, text)
	}
	address := bot.FreeAddress(t)
	w.child("prometheus", "--config.file="+w.write("prometheus.yml", []byte("global: {}\n")),
		"--storage.tsdb.path="+filepath.Join(w.dir, "tsdb"),
		"--web.listen-address="+address, "--log.level=warn")
	bot.Eventually(t, 20*time.Second, "Prometheus is ready", answers("http://"+address+"/-/ready"))

	out, errs, code := bot.Run(t, w.dir, "diagnose", "--prometheus", "http://"+address, "--at", at.Format(time.RFC3339), "-o", "json")
	var found struct {
		Verdicts []struct{ Diagnosis state.Diagnosis }
		Missing  []state.Missing
	}
	if err := json.Unmarshal([]byte(out), &found); code != 2 || err != nil || len(found.Verdicts) != 1 {
		t.Fatalf("exit %d, %v\n%s%s", code, err, out, errs)
	}
	for _, m := range found.Missing {
		if m.Signal == "baseline" || m.Signal == "day_ago" || m.Signal == "week_ago" || m.Signal == "series" {
			t.Errorf("%s: %s", m.Signal, m.Reason)
		}
	}
	anomalies := map[string]state.Anomaly{}
	for _, a := range found.Verdicts[0].Diagnosis.Anomalies {
		anomalies[a.Signal] = a
	}
	for signal, want := range map[string]string{"kv_usage": "0.99 0.50 0.40 0.30", "requests_waiting": "40.00 0.00 0.00 8.00"} {
		a := anomalies[signal]
		if a.Baseline == nil || a.DayAgo == nil || a.WeekAgo == nil || a.Z == nil || *a.Z < 1 {
			t.Errorf("%s: %+v", signal, a)
			continue
		}
		if got := fmt.Sprintf("%.2f %.2f %.2f %.2f", a.Value, *a.Baseline, *a.DayAgo, *a.WeekAgo); got != want {
			t.Errorf("%s now and an hour, a day and a week ago: %s, want %s", signal, got, want)
		}
	}
	for _, c := range found.Verdicts[0].Diagnosis.Correlations {
		if c.Signal == "kv_usage" && c.With == "requests_waiting" && c.R > 0.9 && c.Points >= 20 {
			return
		}
	}
	t.Errorf("the correlations are %+v", found.Verdicts[0].Diagnosis.Correlations)
}

// aWeek returns the samples of two workers before a moment, an hour, a day and a week before it,
// every 15 seconds.
func aWeek(now time.Time) []byte {
	var out bytes.Buffer
	for _, span := range []struct {
		from, to    time.Duration // before now
		kv, waiting float64
	}{
		{7*24*time.Hour + 8*time.Minute, 7*24*time.Hour - time.Minute, 0.3, 8},
		{24*time.Hour + 8*time.Minute, 24*time.Hour - time.Minute, 0.4, 0},
		{68 * time.Minute, 12 * time.Minute, 0.5, 0}, {12*time.Minute - 15*time.Second, 0, 0.99, 40},
	} {
		for ago := span.from; ago >= span.to; ago -= 15 * time.Second {
			stamp := now.Add(-ago).Unix()
			for i := range 2 {
				labels := fmt.Sprintf(`{engine="0",model_name="llama-70b",namespace="llm",pod="vllm-llama-7d9f8b6c5-aaaa%d",instance="10.0.0.%d:8000",job="vllm"}`, i, i)
				fmt.Fprintf(&out, "vllm:kv_cache_usage_perc%s %g %d\n", labels, span.kv, stamp)
				fmt.Fprintf(&out, "vllm:num_requests_waiting%s %g %d\n", labels, span.waiting, stamp)
				fmt.Fprintf(&out, "vllm:num_requests_running%s %g %d\n", labels, 60*span.kv, stamp)
			}
		}
	}
	out.WriteString("# EOF\n")
	return out.Bytes()
}
