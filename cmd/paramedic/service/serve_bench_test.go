package service

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"paramedic/cmd/paramedic/config"
	"paramedic/lab/alerting"
	"paramedic/state"
	"paramedic/state/jetstream"
)

// BenchmarkServe measures how many new alerts the whole bot accepts over HTTP in a second. Each is
// on disk before its answer, while the bot triages. triaged/s counts until the last alert is part
// of a committed incident. look-up-max-ms is of the look-ups of an incident meanwhile.
func BenchmarkServe(b *testing.B) {
	for _, perPayload := range []int{1, 50, 500} {
		for _, senders := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("alerts=%d/connections=%d", perPayload, senders), func(b *testing.B) { benchServe(b, perPayload, senders) })
		}
	}
}

func benchServe(b *testing.B, perPayload, senders int) {
	url, service := startBot(b)
	bodies := make([][]byte, b.N)
	start := time.Now()
	for n := range bodies {
		bodies[n] = stormBody(b, n, perPayload, start)
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: senders}}
	defer client.CloseIdleConnections()
	var next atomic.Int64
	var group sync.WaitGroup
	took := make([]time.Duration, b.N)
	lookUps := lookUp(service)
	b.ResetTimer()
	for range senders {
		group.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if n >= len(bodies) {
					return
				}
				t0 := time.Now()
				resp, err := client.Post(url+"/webhook/alertmanager", "application/json", bytes.NewReader(bodies[n]))
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body) // so that the connection is used again
				resp.Body.Close()
				took[n] = time.Since(t0)
				if resp.StatusCode != http.StatusOK {
					b.Errorf("payload %d: %s", n, resp.Status)
					return
				}
			}
		})
	}
	group.Wait()
	b.StopTimer()
	accepted := b.Elapsed()
	t0 := time.Now()
	awaitAlerts(b, service, b.N*perPayload)
	looked := lookUps()
	slices.Sort(took)
	alerts := float64(b.N * perPayload)
	b.ReportMetric(alerts/accepted.Seconds(), "alerts/s")
	b.ReportMetric(alerts/(accepted+time.Since(t0)).Seconds(), "triaged/s")
	b.ReportMetric(took[len(took)/2].Seconds()*1000, "p50-ms")
	b.ReportMetric(looked[len(looked)-1].Seconds()*1000, "look-up-max-ms")
	b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "p99-ms")
}

// ask sends a request with a JSON body, and returns the answer's status and body.
func ask(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

// startBot starts the whole bot on a new directory, behind a real listener.
func startBot(tb testing.TB, change ...func(*config.Config)) (string, *Service) {
	return startBotOn(tb, jetstream.Config{Dir: tb.TempDir()}, slog.New(slog.DiscardHandler), change...)
}

// lookUp looks an incident up every 5 ms. The function that it returns stops that, and returns the
// times that the look-ups took, in ascending order.
func lookUp(s *Service) (stop func() []time.Duration) {
	done, took := make(chan struct{}), make(chan []time.Duration)
	go func() {
		var all []time.Duration
		for tick := time.NewTicker(5 * time.Millisecond); ; {
			began := time.Now()
			s.Keeper.Incident("none")
			all = append(all, time.Since(began))
			select {
			case <-tick.C:
			case <-done:
				tick.Stop()
				slices.Sort(all)
				took <- all
				return
			}
		}
	}()
	return func() []time.Duration { close(done); return <-took }
}

// startBotOn starts a bot with a store and a log.
func startBotOn(tb testing.TB, where jetstream.Config, log *slog.Logger, change ...func(*config.Config)) (string, *Service) {
	where.Retain, where.Logger = time.Hour, log
	cfg := config.Default()
	for _, c := range change {
		c(&cfg)
	}
	ctx, stop := context.WithCancel(context.Background())
	store, err := jetstream.Open(ctx, where)
	if err != nil {
		tb.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s, err := New(cfg, Deps{Store: store, Clock: state.SystemClock{}, Logger: log, Out: io.Discard})
	if err != nil {
		tb.Fatal(err)
	}
	server := &http.Server{Handler: s.Handler, ReadHeaderTimeout: 5 * time.Second}
	var group sync.WaitGroup
	group.Go(func() { _ = server.Serve(listener) }) // ends with ErrServerClosed
	group.Go(func() {
		if err := s.Run(ctx); err != nil {
			tb.Error(err)
		}
	})
	tb.Cleanup(func() {
		s.CloseStreams()
		_ = server.Close() // its requests are through
		stop()
		group.Wait()
		if err := store.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	for s.Keeper.Ready(ctx) != nil {
		<-time.After(5 * time.Millisecond)
	}
	return "http://" + listener.Addr().String(), s
}

// awaitAlerts waits until incidents have want alerts.
func awaitAlerts(tb testing.TB, s *Service, want int) {
	deadline := time.After(2 * time.Minute)
	for {
		got := 0
		for _, in := range s.Keeper.Incidents() {
			got += in.AlertCount
		}
		if got >= want {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			tb.Fatalf("%d of %d alerts are part of an incident", got, want)
		}
	}
}

// stormBody returns the nth payload: new alerts about 64 pods of each of 16 pools.
func stormBody(tb testing.TB, n, alerts int, at time.Time) []byte {
	hook := alerting.Webhook{Version: "4", GroupKey: fmt.Sprintf("{}:{payload=\"%d\"}", n),
		WebhookData: alerting.WebhookData{Receiver: "bench", Status: "firing", ExternalURL: "http://alertmanager:9093"}}
	for i := n * alerts; i < (n+1)*alerts; i++ {
		pool := fmt.Sprintf("vllm-p%d", i/64%16)
		hook.Alerts = append(hook.Alerts, alerting.WebhookAlert{Status: "firing", StartsAt: at.UTC(), Fingerprint: fmt.Sprintf("%016x", i),
			GeneratorURL: "http://prometheus:9090/graph?g0.expr=vllm%3Akv_cache_usage_perc+%3E+0.95",
			Labels: map[string]string{"alertname": "VLLMKVCacheExhaustion", "severity": "critical", "namespace": "llm", "model_name": pool,
				"pod": fmt.Sprintf("%s-6d5f8c7b9-%05d", pool, i%64), "episode": fmt.Sprint(i)},
			Annotations: map[string]string{"summary": "KV cache is almost full"}})
	}
	body, err := json.Marshal(hook)
	if err != nil {
		tb.Fatal(err)
	}
	return body
}
