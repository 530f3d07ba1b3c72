package score

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"paramedic/cmd/paramedic/config"
	"paramedic/lab/alerting"
)

// A Storm is a burst of alerts at one webhook.
type Storm struct {
	URL, Token                        string
	Alerts, PerPayload, Senders, Pods int
}

// A StormResult holds the answers to a storm.
type StormResult struct {
	Alerts   int            `json:"alerts"`
	Taken    int            `json:"taken"` // alerts that were answered with 2xx; the rate is theirs
	Payloads int            `json:"payloads"`
	Codes    map[string]int `json:"codes"`
	Seconds  float64        `json:"seconds"`
	PerSec   float64        `json:"alerts_per_second"`
	P50MS    float64        `json:"p50_ms"`
	P99MS    float64        `json:"p99_ms"`
}

// Run sends the alerts, and counts the answers.
func (s Storm) Run(ctx context.Context) (StormResult, error) {
	if s.Alerts < 1 || s.PerPayload < 1 || s.Senders < 1 || s.Pods < 1 {
		return StormResult{}, errors.New("--alerts, --per-payload, --senders and --pods must be at least 1")
	}
	if u, err := url.Parse(s.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" ||
		!config.Loopback(u.Hostname()) {
		return StormResult{}, errors.New("--url must be an http:// or https:// URL of this machine, such as " +
			"http://127.0.0.1:8080/webhook/alertmanager: a storm at a bot of others pages people")
	}
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: s.Senders},
		// a redirect may lead to another host
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	payloads := (s.Alerts + s.PerPayload - 1) / s.PerPayload
	out := StormResult{Alerts: s.Alerts, Payloads: payloads, Codes: map[string]int{}}
	var next atomic.Int64
	var mu sync.Mutex
	var took []time.Duration
	var group sync.WaitGroup
	start := time.Now()
	for range s.Senders {
		group.Go(func() {
			for ctx.Err() == nil {
				n := int(next.Add(1)) - 1
				if n >= payloads {
					return
				}
				t0 := time.Now()
				code, taken := s.send(ctx, client, n, start)
				mu.Lock()
				out.Codes[code]++
				out.Taken += taken
				took = append(took, time.Since(t0))
				mu.Unlock()
			}
		})
	}
	group.Wait()
	out.Seconds = time.Since(start).Seconds()
	out.PerSec = float64(out.Taken) / out.Seconds
	slices.Sort(took)
	if len(took) > 0 {
		out.P50MS = 1000 * took[len(took)/2].Seconds()
		out.P99MS = 1000 * took[len(took)*99/100].Seconds()
	}
	return out, nil
}

// Answers returns the answers in words, each with its count.
func (s StormResult) Answers() string {
	var out []string
	for _, code := range slices.Sorted(maps.Keys(s.Codes)) {
		if code == noAnswer {
			out = append(out, fmt.Sprintf("no answer %d×", s.Codes[code]))
			continue
		}
		out = append(out, fmt.Sprintf("answered %s %d×", code, s.Codes[code]))
	}
	return strings.Join(out, ", ")
}

// noAnswer is the code of a request without an answer.
const noAnswer = "no answer"

// send sends the storm's nth payload. It returns the status of the answer, and the number of
// accepted alerts.
func (s Storm) send(ctx context.Context, client *http.Client, n int, at time.Time) (code string, taken int) {
	hook := alerting.Webhook{Version: "4", GroupKey: fmt.Sprintf("{}:{payload=\"%d\"}", n),
		WebhookData: alerting.WebhookData{Receiver: "storm", Status: "firing", ExternalURL: "http://alertmanager:9093"}}
	for i := n * s.PerPayload; i < min((n+1)*s.PerPayload, s.Alerts); i++ {
		hook.Alerts = append(hook.Alerts,
			alerting.WebhookAlert{Status: "firing", StartsAt: at.UTC(), Fingerprint: fmt.Sprintf("%016x", i),
				GeneratorURL: "http://prometheus:9090/graph?g0.expr=vllm%3Akv_cache_usage_perc+%3E+0.95",
				Labels: map[string]string{"alertname": "VLLMKVCacheExhaustion", "severity": "critical",
					"namespace": "llm", "model_name": "storm",
					"pod": fmt.Sprintf("vllm-storm-6d5f8c7b9-%05d", i%s.Pods), "episode": fmt.Sprint(i)},
				Annotations: map[string]string{"summary": "KV cache is almost full"}})
	}
	body, err := json.Marshal(hook)
	if err != nil {
		return err.Error(), 0
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, bytes.NewReader(body))
	if err != nil {
		return err.Error(), 0
	}
	req.Header.Set("Content-Type", "application/json")
	if s.Token != "" {
		req.Header.Set("Authorization", "Bearer "+s.Token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return noAnswer, 0
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 == 2 {
		taken = len(hook.Alerts)
	}
	return resp.Status, taken
}
