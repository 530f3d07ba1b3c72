package main

import (
	dto "github.com/prometheus/client_model/go"

	"paramedic/lab"
	"paramedic/lab/engine"
)

// The counters of llm-d's endpoint picker that a proxy's page is made of.
const (
	pickerRequests = "llm_d_epp_request_total"
	pickerErrors   = "llm_d_epp_request_error_total"
)

// proxies returns the pages of the proxy in front of a fleet, which counts what llm-d's endpoint
// picker counts in the lab.
func (w *world) proxies(f *lab.Fleet, pages []lab.Page) []lab.Page {
	kind := w.convention["gateway"]
	if kind == "picker" || kind == "none" || f.Config().Kind == engine.Dynamo {
		return nil
	}
	good, failed := counted(pages)
	pool, ns := f.Config().Pool, f.Config().Namespace
	target := lab.Target{Job: kind}
	var name string
	var labels func(code string) map[string]string
	switch kind {
	case "envoy":
		name = "envoy_cluster_upstream_rq"
		target.Labels = map[string]string{"job": "envoy-stats", "instance": "10.42.9.3:19001", "namespace": "envoy-gateway-system",
			"pod": "envoy-llm-gateway-7c9d8f6b5-x2x4z"}
		labels = func(code string) map[string]string {
			return map[string]string{"envoy_cluster_name": "httproute/" + ns + "/" + pool + "/rule/0", "envoy_response_code": code}
		}
	case "nginx":
		name = "nginx_ingress_controller_requests"
		target.Labels = map[string]string{"job": "ingress-nginx", "instance": "10.42.9.4:10254", "namespace": "ingress-nginx",
			"pod": "ingress-nginx-controller-5d8f7b9c4-kk2m9"}
		labels = func(code string) map[string]string {
			return map[string]string{"ingress": pool, "exported_namespace": ns, "exported_service": pool, "status": code,
				"host": "llm.example.com", "method": "POST", "path": "/v1"}
		}
	case "istio":
		name = "istio_requests_total"
		target.Labels = map[string]string{"job": "istio-proxies", "instance": "10.42.9.5:15020", "namespace": "istio-system",
			"pod": "istio-ingressgateway-6b7c8d9f5-pp4q2"}
		labels = func(code string) map[string]string {
			return map[string]string{"reporter": "source", "destination_service_name": pool, "destination_service_namespace": ns,
				"destination_workload": pool, "destination_service": pool + "." + ns + ".svc.cluster.local", "response_code": code}
		}
	}
	family := &dto.MetricFamily{Name: new(name), Type: new(dto.MetricType_COUNTER)}
	for _, c := range []struct {
		code  string
		count float64
	}{{"200", good}, {"503", failed}} {
		m := &dto.Metric{Counter: &dto.Counter{Value: new(c.count)}}
		for _, set := range []map[string]string{target.Labels, labels(c.code)} {
			for k, v := range set {
				m.Label = append(m.Label, &dto.LabelPair{Name: new(k), Value: new(v)})
			}
		}
		family.Metric = append(family.Metric, m)
	}
	return []lab.Page{{Target: target, Families: []*dto.MetricFamily{family}}}
}

// counted returns the requests that the picker sent to a worker and that were answered, and those
// that failed there or found no worker.
func counted(pages []lab.Page) (good, failed float64) {
	for _, p := range pages {
		for _, f := range p.Families {
			for _, m := range f.Metric {
				switch f.GetName() {
				case pickerRequests:
					good += m.GetCounter().GetValue()
				case pickerErrors:
					failed += m.GetCounter().GetValue()
					for _, l := range m.Label {
						if l.GetName() == "error_code" && l.GetValue() == "ModelServerError" {
							good -= m.GetCounter().GetValue()
						}
					}
				}
			}
		}
	}
	return good, failed
}
