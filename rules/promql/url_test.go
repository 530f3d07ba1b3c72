package promql

import "testing"

func TestExpressionIsReadFromLinks(t *testing.T) {
	const expr = "vllm%3Akv_cache_usage_perc+%3E+0.9"
	for name, c := range map[string]struct{ link, want string }{
		"Prometheus":              {"http://p:9090/graph?g0.expr=" + expr + "&g0.tab=1", "vllm:kv_cache_usage_perc > 0.9"},
		"VictoriaMetrics":         {"http://vm:8428/vmui/#/?g0.expr=" + expr + "&g0.tab=1", "vllm:kv_cache_usage_perc > 0.9"},
		"vmalert by its number":   {"http://vmalert:8080/vmalert/alert?group_id=1&alert_id=2", ""},
		"a fragment of a page":    {"https://docs/page#section", ""},
		"no link":                 {"not a url\x7f", ""},
		"a fragment with no form": {"http://vm/vmui/#/?%zz", ""},
	} {
		if got := ExpressionOf(c.link); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
