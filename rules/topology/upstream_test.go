package topology

import "testing"

func TestUpstreamOf(t *testing.T) {
	for name, c := range map[string]struct {
		labels map[string]string
		want   Upstream
	}{
		"Envoy Gateway":       {map[string]string{"envoy_cluster_name": "httproute/llm/chat/rule/0"}, Upstream{"llm", "chat"}},
		"Istio's cluster":     {map[string]string{"envoy_cluster_name": "outbound|8000||chat.llm.svc.cluster.local"}, Upstream{"llm", "chat"}},
		"Istio, inbound":      {map[string]string{"envoy_cluster_name": "inbound|8000||"}, Upstream{}},
		"Istio, external":     {map[string]string{"envoy_cluster_name": "outbound|443||api.example.com"}, Upstream{}},
		"Contour":             {map[string]string{"envoy_cluster_name": "llm/chat/80/da39a3ee5e"}, Upstream{"llm", "chat"}},
		"kgateway":            {map[string]string{"envoy_cluster_name": "kube_llm_chat_8000"}, Upstream{"llm", "chat"}},
		"an admin cluster":    {map[string]string{"envoy_cluster_name": "xds_cluster"}, Upstream{}},
		"Istio's telemetry":   {map[string]string{"destination_service_name": "chat", "destination_service_namespace": "llm", "namespace": "istio-system"}, Upstream{"llm", "chat"}},
		"an unknown workload": {map[string]string{"destination_workload": "unknown", "namespace": "istio-system"}, Upstream{}},
		"nginx":               {map[string]string{"ingress": "web", "exported_service": "chat", "exported_namespace": "llm", "service": "metrics", "namespace": "nginx"}, Upstream{"llm", "chat"}},
		"nginx, honoured":     {map[string]string{"ingress": "web", "service": "chat", "namespace": "llm"}, Upstream{"llm", "chat"}},
		"nginx, summed":       {map[string]string{"exported_service": "chat"}, Upstream{"", "chat"}},
		"a renamed pod":       {map[string]string{"exported_pod": "chat-0", "exported_service": "chat", "exported_namespace": "llm"}, Upstream{}},
		"a worker":            {map[string]string{"pod": "chat-0", "namespace": "llm", "service": "chat"}, Upstream{}},
	} {
		if got := UpstreamOf(c.labels); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
