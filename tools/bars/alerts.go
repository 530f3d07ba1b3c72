package main

import (
	"encoding/json"
	"fmt"
	"time"
)

// A shape returns the pool and the pod of the nth alert. The bot makes an incident of each pool.
type shape func(n int) (pool, pod int)

var (
	onePool      shape = func(n int) (pool, pod int) { return 0, n }
	poolPerBatch shape = func(n int) (pool, pod int) { return 1 + n/batch, n % batch }
	poolPerAlert shape = func(n int) (pool, pod int) { return 1 + n, 0 }
	manyPools    shape = func(n int) (pool, pod int) { return 1 + n/4, n % 4 } // 100,000 alerts: 25,000 pools
)

// podsPerPool bounds the pods of a pool. More alerts are about more engines of each pod.
const podsPerPool = 2000

// An alert is one of a rule about vLLM, as Prometheus sends it. In a payload it also has a status
// and a fingerprint.
type alert struct {
	Status       string            `json:"status,omitempty"`
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL"`
	Fingerprint  string            `json:"fingerprint,omitempty"`
}

// alert returns the nth alert of a shape, with eight labels and three annotations.
func (s shape) alert(n int, at time.Time) alert {
	p, i := s(n)
	pod := fmt.Sprintf("vllm-p%d-6d5f8c7b9-%05d", p, i%podsPerPool)
	return alert{StartsAt: at,
		GeneratorURL: "http://prometheus.monitoring:9090/graph?g0.expr=vllm%3Akv_cache_usage_perc+%3E+0.95&g0.tab=1",
		Labels: map[string]string{"alertname": "VLLMKVCacheExhaustion", "severity": "warning", "namespace": "llm",
			"model_name": fmt.Sprintf("model-%d", p), "pod": pod, "engine": fmt.Sprint(i / podsPerPool), "job": "vllm",
			"instance": fmt.Sprintf("10.%d.%d.%d:8000", n>>16, n>>8&255, n&255)},
		Annotations: map[string]string{"summary": "The KV cache is almost full",
			"description": fmt.Sprintf("The KV cache of %s has been over 95%% full for five minutes. The engine preempts requests.", pod),
			"runbook_url": "https://runbooks.example.com/vllm/kv-cache"}}
}

// payloads returns count alerts from the first one on, in payloads of Alertmanager's webhook.
func (s shape) payloads(first, count, each int) [][]byte {
	return s.bodies(first, count, each, func(alerts []alert) any {
		for i := range alerts {
			alerts[i].Status, alerts[i].Fingerprint = "firing", fmt.Sprintf("%016x", first+i)
		}
		first += len(alerts)
		l := alerts[0].Labels
		group := map[string]string{"alertname": l["alertname"], "model_name": l["model_name"]}
		return map[string]any{"version": "4", "receiver": "paramedic", "status": "firing", "alerts": alerts,
			"groupKey":    fmt.Sprintf("{}:{alertname=%q, model_name=%q}", l["alertname"], l["model_name"]),
			"groupLabels": group, "truncatedAlerts": 0, "externalURL": "http://alertmanager.monitoring:9093",
			"commonLabels": map[string]string{"alertname": l["alertname"], "model_name": l["model_name"],
				"severity": l["severity"], "namespace": l["namespace"], "job": l["job"]},
			"commonAnnotations": map[string]string{"summary": alerts[0].Annotations["summary"]}}
	})
}

// posts returns the same alerts in batches of Alertmanager's API. They do not end while they are
// measured.
func (s shape) posts(count int) [][]byte {
	return s.bodies(0, count, batch, func(alerts []alert) any {
		for i := range alerts {
			alerts[i].EndsAt = alerts[i].StartsAt.Add(time.Hour)
		}
		return alerts
	})
}

func (s shape) bodies(first, count, each int, body func([]alert) any) [][]byte {
	var out [][]byte
	at := time.Now().UTC()
	for from := first; from < first+count; from += each {
		var alerts []alert
		for n := from; n < min(from+each, first+count); n++ {
			alerts = append(alerts, s.alert(n, at))
		}
		out = append(out, must(json.Marshal(body(alerts))))
	}
	return out
}
