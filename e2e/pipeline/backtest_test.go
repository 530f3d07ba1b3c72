package pipeline

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"paramedic/e2e/bot"
	"paramedic/lab"
	"paramedic/lab/alerting"
	"paramedic/lab/drill"
	"paramedic/lab/engine"
	"paramedic/lab/scrape"
)

// A real Prometheus holds a week in which the lab's pool had a fault each day: the pages of its
// engines, and the ALERTS series of the lab's rules, which TestRulesEvaluateAsInPrometheus compares
// with Prometheus. The backtest must find these faults at their times, and nothing else. All days
// have the same usual traffic, because each is the baseline of the next one.
func TestBacktestAgreesWithTheLab(t *testing.T) {
	t.Parallel()
	w := &world{t: t, dir: t.TempDir()}
	now := time.Now().UTC().Truncate(time.Second)
	type fault struct {
		name  string
		start time.Time // of the fleet; the fault comes healthyBefore later
	}
	var truth []fault
	for i, name := range []string{lab.EngineHang, lab.GatewayFailure, lab.BadRollout, lab.KVExhaustion, lab.GPUFault, lab.TrafficSurge, lab.OOMKilled} {
		truth = append(truth, fault{name, now.AddDate(0, 0, i-7).Add(6 * time.Hour)})
	}
	var out bytes.Buffer
	for at := now.AddDate(0, 0, -7); at.Before(now); at = at.Add(2 * time.Minute) {
		fmt.Fprintf(&out, "up{job=\"prometheus\",instance=\"127.0.0.1:9090\"} 1 %d\n", at.Unix())
	}
	w.past("prometheus.om", out.Bytes())
	for _, f := range truth {
		w.past(f.name+".om", theDay(t, f.name, f.start))
	}
	rules, err := alerting.PrometheusRules(engine.VLLM)
	if err != nil {
		t.Fatal(err)
	}
	w.write("rules.yml", rules)
	address := bot.FreeAddress(t)
	w.child("prometheus", "--config.file="+w.write("prometheus.yml", []byte("global: {evaluation_interval: 5s}\nrule_files: [rules.yml]\n")),
		"--storage.tsdb.path="+filepath.Join(w.dir, "tsdb"), "--web.listen-address="+address, "--log.level=warn")
	bot.Eventually(t, 20*time.Second, "Prometheus is ready", answers("http://"+address+"/-/ready"))

	text, errs, code := bot.Run(t, w.dir, "backtest", "--prometheus", "http://"+address, "--since", "7d", "--rate", "1000",
		"--state", filepath.Join(w.dir, "state.json"), "-o", "json")
	var found struct {
		Before, After struct{ Notifications, Pages int }
		Incidents     []struct {
			Cause, Title string
			Pool         string
			StartedAt    time.Time `json:"started_at"`
			ToCause      *float64  `json:"to_cause_s"`
		}
		NeverMattered []string `json:"never_mattered"`
	}
	if err := json.Unmarshal([]byte(text), &found); code != 0 || err != nil {
		t.Fatalf("exit %d, %v\n%s%s", code, err, text, errs)
	}
	if len(found.Incidents) != len(truth) {
		t.Errorf("%d incidents, want %d:\n%s", len(found.Incidents), len(truth), text)
	}
	for i, f := range truth[:min(len(truth), len(found.Incidents))] {
		in := found.Incidents[i]
		began := f.start.Add(healthyBefore)
		if in.Cause != f.name || in.StartedAt.Before(began) || in.StartedAt.After(began.Add(lasts)) {
			t.Errorf("incident %d is %s from %s, want %s from %s", i+1, in.Cause, in.StartedAt, f.name, began)
		}
		if in.ToCause == nil {
			t.Errorf("%s was never named", in.Title)
		} else if *in.ToCause > 180 {
			t.Errorf("%s was named after %g seconds", in.Title, *in.ToCause)
		}
	}
	if found.After.Pages > found.Before.Pages || found.After.Notifications >= found.Before.Notifications {
		t.Errorf("Alertmanager alone sent %+v, the bot %+v", found.Before, found.After)
	}
}

// past writes samples into the data of a Prometheus that has not started. promtool reads a file
// once for each two hours from its first sample to its last, so a file holds one fault only.
func (w *world) past(name string, samples []byte) {
	w.t.Helper()
	file := w.write(name, append(samples, "# EOF\n"...))
	if text, err := exec.Command("promtool", "tsdb", "create-blocks-from", "openmetrics", "--quiet", file, filepath.Join(w.dir, "tsdb")).
		CombinedOutput(); err != nil {
		w.t.Fatalf("writing the past into Prometheus: %v\n%s", err, text)
	}
}

// The fault begins after a healthy time, and lasts.
const (
	healthyBefore = 25 * time.Minute
	lasts         = 10 * time.Minute
)

// theDay returns the samples of a fleet with a fault: its pages every 15 seconds, and its alerts at
// each evaluation of the rules, every five.
func theDay(t *testing.T, fault string, start time.Time) []byte {
	t.Helper()
	s, err := drill.New(fault, 7)
	if err != nil {
		t.Fatal(err)
	}
	s = s.Later(healthyBefore - s.Faults[0].At)
	s.Config.Start, s.Faults[0].For = start, lasts
	fleet, err := s.Build()
	if err != nil {
		t.Fatal(err)
	}
	ruler, handler := alerting.NewRuler(fleet, ""), scrape.Handler(fleet, scrape.Config{TargetLabels: true})
	var out bytes.Buffer
	for at := time.Duration(0); at <= healthyBefore+lasts+15*time.Minute; at += alerting.ScrapeInterval {
		now := start.Add(at)
		fleet.Advance(now)
		stamp := " " + strconv.FormatInt(now.Unix(), 10) + "\n"
		for _, a := range ruler.Evaluate() {
			if a.EndsAt.IsZero() {
				out.WriteString("ALERTS{alertstate=\"firing\"," + pairs(a.Labels) + "} 1" + stamp)
			}
		}
		if at%(15*time.Second) != 0 {
			continue
		}
		for _, target := range fleet.Targets() {
			rec := httptest.NewRecorder()
			handler.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, target.Path, nil))
			up := "0"
			if rec.Code == http.StatusOK {
				up = "1"
			}
			out.WriteString("up{" + pairs(target.Labels) + "} " + up + stamp)
			lines := bufio.NewScanner(rec.Body)
			lines.Buffer(nil, 1<<20)
			for up == "1" && lines.Scan() {
				if line := lines.Text(); line != "" && line[0] != '#' {
					out.WriteString(line + stamp)
				}
			}
		}
	}
	return out.Bytes()
}

// pairs writes labels as a page does.
func pairs(labels map[string]string) string {
	var out []byte
	for i, name := range slices.Sorted(maps.Keys(labels)) {
		if i > 0 {
			out = append(out, ',')
		}
		out = fmt.Appendf(out, "%s=%q", name, labels[name])
	}
	return string(out)
}
