package query

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"paramedic/rules/signals"
	"paramedic/state"
)

func builtIn(t *testing.T) []signals.Signal {
	t.Helper()
	builtin, err := signals.LoadSignals()
	if err != nil {
		t.Fatal(err)
	}
	return builtin
}

func TestEverySignalCompilesToValidPromQL(t *testing.T) {
	for name, scope := range map[string]state.Scope{
		"whole cluster": {}, "namespace": {Namespace: "llm", Model: "llama-70b", Pool: "vllm-llama"},
		"hostile": {Namespace: "a\"} or vector(1)\n#{\\"},
	} {
		ids := map[string]bool{}
		for _, s := range builtIn(t) {
			ms := Compile(s, Filter{of: scope})
			for _, m := range ms {
				if ids[m.ID] {
					t.Errorf("%s: two members are %s", name, m.ID)
				}
				ids[m.ID] = true
			}
			for _, p := range parts(ms) {
				for _, labelled := range p.labelled(false) {
					expr, err := parser.NewParser(parser.Options{}).ParseExpr(labelled)
					if err != nil {
						t.Errorf("%s: %s: %v\n%s", name, s.ID, err, labelled)
						continue
					}
					if call, ok := expr.(*parser.Call); !ok || call.Func.Name != "label_replace" {
						t.Errorf("%s: %s broke out of its part: %s", name, s.ID, labelled)
					}
				}
			}
		}
	}
}

func TestCompiledForms(t *testing.T) {
	xids := "max by (" + strings.Join(gpuLabels, ", ") + `) (DCGM_FI_DEV_XID_ERRORS{exported_namespace=~"llm|"})`
	by := map[string]string{}
	for _, s := range builtIn(t) {
		if ms := Compile(s, Filter{of: state.Scope{Namespace: "llm"}}); len(ms) > 0 {
			by[s.ID] = ms[0].Reads()
		}
	}
	labels := strings.Join(workerLabels, ", ")
	for id, want := range map[string]string{
		"requests_waiting":   `sum by (` + labels + `) (vllm:num_requests_waiting{server="",namespace=~"llm|"})`,
		"ttft_p95":           `histogram_quantile(0.95, sum by (le, ` + labels + `) (rate(vllm:time_to_first_token_seconds_bucket{namespace=~"llm|"}[5m])))`,
		"prompt_length_mean": `sum by (` + labels + `) (rate(vllm:request_prompt_tokens_sum{namespace=~"llm|"}[5m]))` + "\n" + `sum by (` + labels + `) (rate(vllm:request_prompt_tokens_count{namespace=~"llm|"}[5m]))`,
		"gpu_xid_changes":    "(changes((" + xids + ")[15m:15s]) and " + xids[:len(xids)-1] + " offset 15m) or " + xids + " > bool min_over_time((" + xids + ")[15m:15s]))",
	} {
		if by[id] != want {
			t.Errorf("%s\n got %s\nwant %s", id, by[id], want)
		}
	}
}

// The query for a week ago is the query for a day ago, with an offset of six days on every
// selector. The test adds the offsets with the parser, independent of the compiler.
func TestWeekAgoIsDayAgoWithSixDaysOffset(t *testing.T) {
	p := parser.NewParser(parser.Options{})
	parse := func(expr string) parser.Expr {
		t.Helper()
		e, err := p.ParseExpr(expr)
		if err != nil {
			t.Fatalf("%v\n%s", err, expr)
		}
		return e
	}
	moved, clocks := 0, 0
	for _, scope := range []state.Scope{{}, {Namespace: "llm", Model: "llama-70b", Pool: "vllm-llama"}} {
		for _, s := range builtIn(t) {
			for _, m := range Compile(s, Filter{of: scope}) {
				week := *m
				week.Week = true
				late := week.exprs()
				for i, expr := range m.exprs() {
					want := parse(expr)
					parser.Inspect(want, func(n parser.Node, _ []parser.Node) error {
						if v, ok := n.(*parser.VectorSelector); ok {
							v.OriginalOffset += 6 * 24 * time.Hour
							moved++
						}
						return nil
					})
					// An age counts from the evaluated time, which an offset does not change.
					text := want.String()
					clocks += strings.Count(text, "time() - ")
					text = parse(strings.ReplaceAll(text, "time() - ", "(time() - 518400) - ")).String()
					if got := parse(late[i]).String(); got != text {
						t.Errorf("%s\n got %s\nwant %s", m.ID, got, text)
					}
				}
			}
		}
	}
	if moved < 200 || clocks == 0 {
		t.Errorf("%d selectors, %d clocks: hardly anything was compared", moved, clocks)
	}
}

func TestTimestampsAreReadOfSelectors(t *testing.T) {
	for _, s := range builtIn(t) {
		for _, m := range Compile(s, Filter{of: state.Scope{Namespace: "llm"}}) {
			expr, err := parser.NewParser(parser.Options{}).ParseExpr(m.scraped())
			if err != nil {
				t.Errorf("%s: %v\n%s", s.ID, err, m.scraped())
				continue
			}
			parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
				if call, ok := n.(*parser.Call); ok {
					if _, plain := call.Args[0].(*parser.VectorSelector); call.Func.Name != "timestamp" || !plain {
						t.Errorf("%s: not the time of a scrape: %s", s.ID, m.scraped())
					}
				}
				return nil
			})
		}
	}
}

func TestCheckFindsInvalidPromQL(t *testing.T) {
	builtin, err := signals.LoadSignals()
	if err != nil {
		t.Fatal(err)
	}
	if errs := Check(builtin); len(errs) != 0 {
		t.Errorf("the built-in signals: %v", errs)
	}
	bad := signals.Signal{ID: "broken", Per: signals.PerPod, Combine: signals.CombineSum,
		Sources: []signals.Source{{Engine: "vllm", Metric: "not a metric", Fn: signals.FnLast, Scale: 1}}}
	if errs := Check([]signals.Signal{bad}); len(errs) == 0 || !strings.Contains(errs[0].Error(), "signal broken, metric not a metric") {
		t.Errorf("a broken signal: %v", errs)
	}
}
