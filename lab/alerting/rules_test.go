package alerting

import (
	"bytes"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"paramedic/lab"
)

func TestEveryRuleIsPromQL(t *testing.T) {
	p := parser.NewParser(parser.Options{})
	for _, r := range slices.Concat(Rules(lab.VLLM), Rules(lab.SGLang), Rules(lab.Dynamo), Rules(lab.TRTLLM), NervousRules(lab.VLLM),
		NervousRules(lab.SGLang), NervousRules(lab.TRTLLM)) {
		if _, err := p.ParseExpr(r.Expr); err != nil {
			t.Errorf("%s: %v", r.Name, err)
		}
	}
	body, err := PrometheusRules(lab.VLLM)
	if err != nil || !bytes.Contains(body, []byte("alert: VLLMKVCacheExhaustion")) {
		t.Errorf("the rules file is wrong: %v\n%s", err, body)
	}
}
