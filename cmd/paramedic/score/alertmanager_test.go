package score

import (
	"slices"
	"testing"
	"time"

	"paramedic/cmd/paramedic/config"
	"paramedic/cmd/paramedic/service"
	"paramedic/lab/alerting"
	"paramedic/lab/engine"
	"paramedic/rules/classify"
	"paramedic/state"
)

// The compared Alertmanager has the guides' inhibition for each engine's alert names: a full KV
// cache pages and mutes its queue alert, but not that of another model.
func TestBaselineInhibitsOnEveryEngine(t *testing.T) {
	catalog, _, err := service.LoadKnowledge(config.Default())
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range append(engine.Kinds(), "") {
		rules := alerting.Rules(kind)
		means := func(name, severity string, symptom state.Symptom) {
			t.Helper()
			i := slices.IndexFunc(rules, func(r alerting.Rule) bool { return r.Name == name })
			if i < 0 {
				t.Errorf("%s: there is no rule %s, so nothing is ever inhibited by it", kind, name)
				return
			}
			sign := classify.Classify(catalog,
				state.Alert{Labels: map[string]string{"alertname": name}, GeneratorURL: "http://p/graph?g0.expr=" +
					rules[i].Expr}, "c")
			if sign.Symptom != symptom || rules[i].Severity != severity {
				t.Errorf("%s: %s is %s of severity %s, want %s of severity %s", kind, name, sign.Symptom, rules[i].Severity, symptom,
					severity)
			}
		}
		for _, i := range inhibitions(kind) {
			means(i.Source, "critical", "kv_pressure")
			means(i.Target, "warning", "queue_buildup")
			full := alerting.Alert{Labels: map[string]string{"alertname": i.Source, "severity": "critical", "namespace": "llm",
				"model_name": "llama-70b", "pod": "a"}}
			queue := alerting.Alert{Labels: map[string]string{"alertname": i.Target, "severity": "warning", "namespace": "llm",
				"model_name": "llama-70b", "pod": "a"}}
			elsewhere := alerting.Alert{Labels: map[string]string{"alertname": i.Target, "severity": "warning", "namespace": "other",
				"model_name": "qwen", "pod": "b"}}
			for _, c := range []struct {
				alerts []alerting.Alert
				want   alertmanagerCount
			}{
				{[]alerting.Alert{full, queue}, alertmanagerCount{1, 1}},
				{[]alerting.Alert{queue}, alertmanagerCount{1, 0}},
				{[]alerting.Alert{full, elsewhere}, alertmanagerCount{2, 1}},
			} {
				alone, now := newPlainAlertmanager(kind), time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
				alone.receive(now, c.alerts)
				alone.receive(now.Add(time.Minute), c.alerts)
				if alone.count != c.want {
					t.Errorf("%s, %s and %d alerts: %+v, want %+v", kind, i.Source, len(c.alerts), alone.count, c.want)
				}
			}
		}
	}
}
