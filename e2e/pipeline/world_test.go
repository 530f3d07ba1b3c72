package pipeline

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"paramedic/e2e/bot"
	"paramedic/lab"
	"paramedic/lab/alerting"
	"paramedic/lab/drill"
	"paramedic/lab/engine"
	"paramedic/lab/scrape"
)

// past is the part of the fleet's life that Prometheus has at the start. The fault comes after the
// healthy time. With the rules' usual holds, its first alert would come half a minute after past.
const (
	healthy = 25 * time.Minute
	past    = healthy + 4*time.Minute
	// The fault's load ends after this, in simulated time. It is longer than tests look at the
	// fault, and short for a fleet that is hurried.
	passes = past + 5*time.Minute
)

// A world is a simulated fleet with a real Prometheus and a real Alertmanager around it.
type world struct {
	t            *testing.T
	dir          string
	fleet        *lab.Fleet
	pages        *httptest.Server
	prometheus   string // base URL
	alertmanager string // base URL
	recorder     *recorder
	rules        map[string][]byte // rules files by name

	mu    sync.Mutex
	speed float64
	base  time.Time // simulated
	since time.Time // real
}

// newWorld starts a world with the lab's rules. The webhook's URL is the bot's, which need not run
// yet.
func newWorld(t *testing.T, fault, webhook, token string) *world {
	t.Helper()
	rules, err := alerting.PrometheusRules(engine.VLLM)
	if err != nil {
		t.Fatal(err)
	}
	return newWorldWith(t, engine.VLLM, fault, webhook, token, map[string][]byte{"rules.yml": hasten(rules)})
}

// newWorldWith starts a world with engines of a kind and the given rules files.
func newWorldWith(t *testing.T, kind engine.Kind, fault, webhook, token string, rules map[string][]byte) *world {
	t.Helper()
	for _, name := range []string{"prometheus", "promtool", "prometheus-alertmanager"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Fatalf("%s is not installed: apt-get install prometheus prometheus-alertmanager", name)
		}
	}
	w := &world{t: t, dir: t.TempDir(), speed: 1, recorder: newRecorder(t), rules: rules}
	scenario, err := drill.New(fault, 7)
	if err != nil {
		t.Fatal(err)
	}
	scenario = scenario.Later(healthy - scenario.Faults[0].At)
	scenario.Faults[0].For = passes - healthy
	scenario.Config.Kind = kind
	scenario.Config.Start = time.Now().UTC().Add(-past)
	scenario.Config.ColdStart, scenario.Config.Drain = 20*time.Second, 20*time.Second
	if w.fleet, err = scenario.Build(); err != nil {
		t.Fatal(err)
	}
	w.base, w.since = scenario.Config.Start.Add(past), scenario.Config.Start.Add(past)
	w.pages = httptest.NewServer(scrape.Handler(w.fleet, scrape.Config{}))
	t.Cleanup(w.pages.Close)
	w.remember()
	w.startAlertmanager(webhook, token)
	w.startPrometheus()
	w.live()
	return w
}

// remember writes the fleet's past into Prometheus's database, a sample every
// alerting.ScrapeInterval.
func (w *world) remember() {
	w.t.Helper()
	handler := scrape.Handler(w.fleet, scrape.Config{TargetLabels: true})
	var out bytes.Buffer
	for at := time.Duration(0); at < past; at += alerting.ScrapeInterval {
		now := w.fleet.Start().Add(at)
		w.fleet.Advance(now)
		stamp := " " + strconv.FormatFloat(float64(now.UnixMilli())/1000, 'f', 3, 64) + "\n"
		for _, target := range w.fleet.Targets() {
			rec := httptest.NewRecorder()
			handler.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, target.Path, nil))
			up := "0"
			if rec.Code == http.StatusOK {
				up = "1"
			}
			var labels []string
			for k, v := range target.Labels {
				labels = append(labels, fmt.Sprintf("%s=%q", k, v))
			}
			out.WriteString("up{" + strings.Join(labels, ",") + "} " + up + stamp)
			if rec.Code != http.StatusOK {
				continue
			}
			lines := bufio.NewScanner(rec.Body)
			lines.Buffer(nil, 1<<20)
			for lines.Scan() {
				if line := lines.Text(); line != "" && line[0] != '#' {
					out.WriteString(line + stamp)
				}
			}
		}
	}
	out.WriteString("# EOF\n")
	file := w.write("past.om", out.Bytes())
	if text, err := exec.Command("promtool", "tsdb", "create-blocks-from", "openmetrics", "--quiet", file, filepath.Join(w.dir, "tsdb")).
		CombinedOutput(); err != nil {
		w.t.Fatalf("writing the past into Prometheus: %v\n%s", err, text)
	}
}

// live advances the fleet with real time until the test ends, and updates the list of targets.
func (w *world) live() {
	stop, done := make(chan struct{}), make(chan struct{})
	w.t.Cleanup(func() { close(stop); <-done })
	go func() {
		defer close(done)
		beat := time.NewTicker(100 * time.Millisecond)
		defer beat.Stop()
		for {
			select {
			case <-stop:
				return
			case <-beat.C:
				w.fleet.Advance(w.now())
				w.discover()
			}
		}
	}()
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.base.Add(time.Duration(float64(time.Since(w.since)) * w.speed))
}

// hurry changes the fleet's speed, and with it all rates in real time.
func (w *world) hurry(speed float64) {
	now := w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.base, w.since, w.speed = now, time.Now(), speed
}

// repair rolls out a lower max_num_seqs, as the playbook says. It also hurries the fleet, so that
// the fault's load ends: during the load, tokens are slightly too slow with fewer requests, too.
func (w *world) repair() {
	w.t.Helper()
	d := w.fleet.Deployment()
	if err := w.fleet.SetArg(lab.ArgChange{UID: d.UID, Name: "max_num_seqs", New: "64"}); err != nil {
		w.t.Fatal(err)
	}
	w.hurry(10)
}

// discover writes the files that stand in for the discovery by Kubernetes, if they changed. The
// lab's page of Kubernetes is the page of kube-state-metrics and that of a kubelet.
func (w *world) discover() {
	address := strings.TrimPrefix(w.pages.URL, "http://")
	found := map[string][]place{}
	for _, target := range w.fleet.Targets() {
		if target.Job == "client" {
			found["client"] = []place{{[]string{address}, target.Labels}}
			continue
		}
		p := placeOf(target, address)
		found["pod"] = append(found["pod"], p)
		if target.Job == "kube" {
			found["node"] = append(found["node"], p)
		}
	}
	for name, places := range found {
		raw, err := json.Marshal(places)
		if err != nil {
			w.t.Error(err)
			return
		}
		path := filepath.Join(w.dir, "sd", name+".json")
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, raw) {
			continue
		}
		if err := os.WriteFile(path+".next", raw, 0o600); err == nil {
			err = os.Rename(path+".next", path)
		}
		if err != nil {
			w.t.Error(err)
		}
	}
}

// startPrometheus runs Prometheus with the jobs of deploy/prometheus/scrape, every second.
func (w *world) startPrometheus() {
	w.t.Helper()
	for _, dir := range []string{"sd", "rules"} {
		if err := os.Mkdir(filepath.Join(w.dir, dir), 0o700); err != nil {
			w.t.Fatal(err)
		}
	}
	for name, rules := range w.rules {
		w.write(filepath.Join("rules", name), rules)
	}
	w.discover()
	config, err := yaml.Marshal(map[string]any{
		"global": map[string]any{"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s",
			"external_labels": map[string]any{"cluster": "default"}},
		"rule_files": []string{"rules/*.yml"},
		"alerting": map[string]any{"alertmanagers": []any{map[string]any{"static_configs": []place{{Targets: []string{
			strings.TrimPrefix(w.alertmanager, "http://")}}}}}},
		"scrape_configs": append(scrapeConfigs(w.t, w.dir), map[string]any{"job_name": "client", "metrics_path": "/client/metrics",
			"file_sd_configs": []any{map[string]any{"files": []string{"sd/client.json"}, "refresh_interval": "1s"}}}),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	address := bot.FreeAddress(w.t)
	w.prometheus = "http://" + address
	w.child("prometheus", "--config.file="+w.write("prometheus.yml", config), "--storage.tsdb.path="+filepath.Join(w.dir, "tsdb"),
		"--web.listen-address="+address, "--log.level=warn",
		// An alert that fires before Alertmanager is discovered is lost, and by default resent
		// after a minute.
		"--rules.alert.resend-delay=2s")
	bot.Eventually(w.t, 20*time.Second, "Prometheus is ready", answers(w.prometheus+"/-/ready"))
}

var (
	minutes = regexp.MustCompile(`(\[|offset )(\d+)m`)
	waits   = regexp.MustCompile(`(?m)for: (\d+)s$`)
)

// hasten divides every range, offset and `for` of a rules file by 20: a minute becomes three
// seconds. It keeps the rule that predicts the next hour, because half a minute in which a worker
// loads its model is too short for that.
func hasten(rules []byte) []byte {
	parts := strings.SplitAfter(strings.Replace(string(rules), "interval: 5s", "interval: 1s", 1), "- alert:")
	for i, rule := range parts {
		if strings.Contains(rule, "predict_linear") {
			continue
		}
		rule = minutes.ReplaceAllStringFunc(rule, func(m string) string {
			sub := minutes.FindStringSubmatch(m)
			n, _ := strconv.Atoi(sub[2])
			return fmt.Sprintf("%s%ds", sub[1], 3*n)
		})
		parts[i] = waits.ReplaceAllStringFunc(rule, func(m string) string {
			n, _ := strconv.Atoi(waits.FindStringSubmatch(m)[1])
			return fmt.Sprintf("for: %ds", max(1, n/20))
		})
	}
	return []byte(strings.Join(parts, ""))
}

func (w *world) startAlertmanager(webhook, token string) {
	w.t.Helper()
	config := fmt.Sprintf(`
route: {receiver: bot, group_by: [alertname, cluster, namespace], group_wait: 1s, group_interval: 2s, repeat_interval: 1h}
receivers:
- name: bot
  webhook_configs:
  - {url: %q, send_resolved: true, http_config: {authorization: {credentials: %q}}}
  - {url: %q, send_resolved: true}
`, webhook, token, w.recorder.server.URL)
	address := bot.FreeAddress(w.t)
	w.alertmanager = "http://" + address
	w.child("prometheus-alertmanager", "--config.file="+w.write("alertmanager.yml", []byte(config)),
		"--storage.path="+filepath.Join(w.dir, "am"),
		"--web.listen-address="+address, "--cluster.listen-address=", "--log.level=warn")
	bot.Eventually(w.t, 20*time.Second, "Alertmanager is ready", answers(w.alertmanager+"/-/ready"))
}

func (w *world) write(name string, content []byte) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

func (w *world) child(name string, args ...string) {
	w.t.Helper()
	child(w.t, w.dir, name, args...)
}

// child runs a server in a folder until the test ends.
func child(t *testing.T, dir, path string, args ...string) {
	t.Helper()
	name := filepath.Base(path)
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		log.Close()
		if raw, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("%s printed:\n%s", name, raw)
		}
	})
}

func answers(url string) func() error {
	return func() error {
		resp, err := http.Get(url)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		io.Copy(io.Discard, resp.Body)
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, resp.Status)
		}
		return nil
	}
}

// getJSON decodes the answer of a server.
func getJSON(url string, into any) error {
	resp, err := http.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	return nil
}

// A recorder is a second receiver that keeps Alertmanager's payloads.
type recorder struct {
	server *httptest.Server
	mu     sync.Mutex
	bodies [][]byte
}

func newRecorder(t *testing.T) *recorder {
	r := &recorder{}
	r.server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err == nil {
			r.mu.Lock()
			r.bodies = append(r.bodies, bytes.TrimSpace(body))
			r.mu.Unlock()
		}
	}))
	t.Cleanup(r.server.Close)
	return r
}

// payloads returns the bodies so far, one per line.
func (r *recorder) payloads() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(bytes.Join(r.bodies, []byte("\n")), '\n')
}
