package pipeline

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"paramedic/e2e/bot"
	"paramedic/lab"
	"paramedic/lab/drill"
	"paramedic/lab/scrape"
)

var relabeling = regexp.MustCompile("(?s)```yaml\n(metric_relabel_configs:\n.+?)```")

// The README's relabeling for vLLM on Ray gives gauges, counters and histograms the names of rules
// and signals.
func TestRelabelingGivesRaySeriesVLLMNames(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../deploy/prometheus/README.md")
	if err != nil {
		t.Fatal(err)
	}
	configs := relabeling.FindSubmatch(readme)
	if configs == nil {
		t.Fatal("deploy/prometheus/README.md has no metric_relabel_configs")
	}
	scenario, err := drill.New(lab.KVExhaustion, 1)
	if err != nil {
		t.Fatal(err)
	}
	fleet, err := scenario.Build()
	if err != nil {
		t.Fatal(err)
	}
	fleet.Advance(fleet.Start().Add(2 * time.Minute))
	page := httptest.NewRecorder()
	scrape.Worker(fleet, fleet.Pods()[0].Name).ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	ray := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		prefix := map[string]string{"/now": "ray_vllm_", "/then": "ray_vllm:"}[r.URL.Path]
		fmt.Fprint(w, strings.ReplaceAll(page.Body.String(), "vllm:", prefix))
	}))
	t.Cleanup(ray.Close)

	w := &world{t: t, dir: t.TempDir()}
	config := "global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n"
	for _, job := range []string{"now", "then"} {
		config += fmt.Sprintf("- job_name: %s\n  metrics_path: /%s\n  static_configs: [{targets: [%q]}]\n  %s", job, job,
			strings.TrimPrefix(ray.URL, "http://"),
			strings.ReplaceAll(string(configs[1]), "\n", "\n  ")+"\n")
	}
	address := bot.FreeAddress(t)
	w.child("prometheus", "--config.file="+w.write("prometheus.yml", []byte(config)), "--storage.tsdb.path="+filepath.Join(w.dir, "tsdb"),
		"--web.listen-address="+address, "--log.level=warn")
	for _, job := range []string{"now", "then"} {
		for _, name := range []string{"vllm:kv_cache_usage_perc", "vllm:num_preemptions_total", "vllm:time_to_first_token_seconds_bucket"} {
			query := url.QueryEscape(fmt.Sprintf("count(%s{job=%q}) > 0", name, job))
			bot.Eventually(t, 20*time.Second, name+" of "+job+" is there", func() error {
				resp, err := http.Get("http://" + address + "/api/v1/query?query=" + query)
				if err != nil {
					return err
				}
				defer resp.Body.Close()
				var answer struct{ Data struct{ Result []any } }
				if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
					return err
				}
				if len(answer.Data.Result) == 0 {
					return fmt.Errorf("there is none")
				}
				return nil
			})
		}
	}
}
