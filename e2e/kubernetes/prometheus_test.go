package kubernetes

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"paramedic/e2e/freeport"
)

// A prometheus is a real Prometheus that scrapes every pod once a second.
type prometheus struct {
	url  string
	cmd  *exec.Cmd
	done chan struct{}
	log  *os.File
	sd   *httptest.Server
}

// Samples of the past get the job label vllm, as those of the present.
const prometheusConfig = `global: {scrape_interval: 1s, scrape_timeout: 1s}
storage: {tsdb: {out_of_order_time_window: 1h}}
scrape_configs:
  - job_name: vllm
    http_sd_configs: [{url: "%[1]s/pods", refresh_interval: 1s}]
  - job_name: past
    metrics_path: ` + pastPath + `
    scrape_interval: 5s
    scrape_timeout: 5s
    http_sd_configs: [{url: "%[1]s` + pastPath + `", refresh_interval: 1s}]
    metric_relabel_configs: [{target_label: job, replacement: vllm}]
`

// discovery lists running pods, as Prometheus's own discovery does, which Debian's build lacks.
// Under /past it lists pods with a past that Prometheus lacks.
func discovery(w http.ResponseWriter, r *http.Request) {
	list, err := admin.CoreV1().Pods("").List(r.Context(), metav1.ListOptions{FieldSelector: "status.phase=Running"})
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	type group struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	groups := []group{}
	for _, p := range list.Items {
		if f, ok := flocks.Load(p.Namespace); r.URL.Path == pastPath && (!ok || !f.(*flock).remembers(p.Name)) {
			continue
		}
		if p.Annotations["prometheus.io/scrape"] == "true" && p.DeletionTimestamp == nil && p.Status.PodIP != "" {
			groups = append(groups, group{[]string{net.JoinHostPort(p.Status.PodIP, enginePort)}, map[string]string{
				"namespace": p.Namespace, "pod": p.Name, "node": p.Spec.NodeName, "container": p.Spec.Containers[0].Name}})
		}
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(groups)
}

func startPrometheus(dir string) (*prometheus, error) {
	bin := os.Getenv("PROMETHEUS_BIN")
	if bin == "" {
		var err error
		if bin, err = exec.LookPath("prometheus"); err != nil {
			return nil, errors.New("no prometheus on the PATH: apt-get install prometheus, or set PROMETHEUS_BIN")
		}
	}
	sd := httptest.NewServer(http.HandlerFunc(discovery))
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, fmt.Appendf(nil, prometheusConfig, sd.URL), 0o600); err != nil {
		return nil, err
	}
	address, err := freeport.Address()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "prometheus.log"))
	if err != nil {
		return nil, err
	}
	p := &prometheus{sd: sd, url: "http://" + address, log: log, done: make(chan struct{})}
	p.cmd = exec.Command(bin, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "tsdb"), "--web.listen-address="+address)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting Prometheus: %w", err)
	}
	go func() {
		p.cmd.Wait()
		close(p.done)
	}()
	return p, p.await(30 * time.Second)
}

func (p *prometheus) await(limit time.Duration) error {
	deadline := time.After(limit)
	beat := time.NewTicker(50 * time.Millisecond)
	defer beat.Stop()
	for {
		resp, err := http.Get(p.url + "/-/ready")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-beat.C:
		case <-p.done:
			return fmt.Errorf("prometheus ended: see %s", p.log.Name())
		case <-deadline:
			p.stop()
			return fmt.Errorf("prometheus is not ready after %s: see %s", limit, p.log.Name())
		}
	}
}

// ask evaluates an expression that has one value or none.
func (p *prometheus) ask(expr string) (value string, err error) {
	resp, err := http.Get(p.url + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var answer struct {
		Data struct {
			Result []struct {
				Value [2]any `json:"value"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return "", err
	}
	if len(answer.Data.Result) != 1 {
		return "", fmt.Errorf("%s has %d values", expr, len(answer.Data.Result))
	}
	return fmt.Sprint(answer.Data.Result[0].Value[1]), nil
}

// knows returns nil if every worker of a namespace has enough samples for rates.
func (p *prometheus) knows(namespace string) error {
	got, err := p.ask(fmt.Sprintf(`count(count_over_time(vllm:kv_cache_usage_perc{namespace=%q}[1m]) >= 8)`, namespace))
	if err == nil && got != fmt.Sprint(workers) {
		err = fmt.Errorf("%s of %d workers have samples", got, workers)
	}
	return err
}

// rested returns nil if a worker finished requests in the last minute, and was idle at one of its
// readings every 15 s.
func (p *prometheus) rested(pod string) error {
	_, err := p.ask(fmt.Sprintf(`sum(increase(vllm:request_success_total{pod=%[1]q}[1m])) > 2 and
		count_over_time((sum(vllm:num_requests_running{pod=%[1]q} + vllm:num_requests_waiting{pod=%[1]q}) == 0)[1m:15s]) > 0`, pod))
	return err
}

func (p *prometheus) stop() {
	p.cmd.Process.Kill()
	<-p.done
	p.log.Close()
	p.sd.Close()
}
