package alerting

import (
	"bytes"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"paramedic/lab/engine"
)

func TestEveryRuleIsPromQL(t *testing.T) {
	p := parser.NewParser(parser.Options{})
	for _, r := range slices.Concat(Rules(engine.VLLM), Rules(engine.SGLang), Rules(engine.Dynamo), Rules(engine.TRTLLM), NervousRules(engine.VLLM),
		NervousRules(engine.SGLang), NervousRules(engine.TRTLLM)) {
		if _, err := p.ParseExpr(r.Expr); err != nil {
			t.Errorf("%s: %v", r.Name, err)
		}
	}
	body, err := PrometheusRules(engine.VLLM)
	if err != nil || !bytes.Contains(body, []byte("alert: VLLMKVCacheExhaustion")) {
		t.Errorf("the rules file is wrong: %v\n%s", err, body)
	}
}
