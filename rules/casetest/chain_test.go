package casetest

import (
	"slices"
	"strings"
	"testing"

	"paramedic/rules/rulestest"
	"paramedic/state"
)

// Each cause shows a chain in some case. A chain begins with the cause. An unknown verdict has
// none.
func TestUnknownVerdictHasNoChain(t *testing.T) {
	results, err := RunCases(rulestest.MustLoad(t), "testdata/cases")
	if err != nil {
		t.Fatal(err)
	}
	named, shown := 0, map[state.Cause]bool{}
	for _, r := range results {
		for _, in := range r.Incidents {
			chain := in.Diagnosis.Chain
			if in.Cause() == state.Unknown {
				if len(chain) > 0 {
					t.Errorf("%s: unknown has the chain %+v", r.Name, chain)
				}
				continue
			}
			named++
			shown[in.Cause()] = shown[in.Cause()] || len(chain) > 0
			if len(chain) > 0 && chain[0].Role != state.LinkCause ||
				!slices.IsSortedFunc(chain, func(a, b state.Link) int { return a.Role.Rank() - b.Role.Rank() }) {
				t.Errorf("%s: the chain is not from the cause to the symptoms: %+v", r.Name, chain)
			}
		}
	}
	if named < 200 || len(shown) != 27 {
		t.Errorf("%d incidents of %d causes are named", named, len(shown))
	}
	for cause, any := range shown {
		if !any {
			t.Errorf("no case of %s shows a chain", cause)
		}
	}
}

const chainCase = `-- alerts.json --
[{"labels": {"alertname": "VLLMRequestQueueBackup", "severity": "warning", "model_name": "llama-70b", "namespace": "llm"}}]
-- workers --
a llm vllm-llama-7d9f8b6c5-aaaaa vllm-llama llama-70b node-1 0,1
b llm vllm-llama-7d9f8b6c5-bbbbb vllm-llama llama-70b node-2 0,1
-- evidence --
requests_running * 64 was=60
max_num_seqs * 64
requests_waiting * 38 was=0
generation_tokens_rate * 2400 was=2350
arrival_rate * 3.6 was=3.0
kv_usage * 0.66 was=0.60
ttft_p95 pool 3.9 was=0.4
-- want --
cause concurrency_cap
`

func TestCaseExpectsTheWholeChain(t *testing.T) {
	for line, want := range map[string]string{
		"chain max_num_seqs requests_waiting ttft_p95": "",
		"chain max_num_seqs ttft_p95":                  "chain [max_num_seqs requests_waiting ttft_p95], want [max_num_seqs ttft_p95]",
		"chain":                                        "chain [max_num_seqs requests_waiting ttft_p95], want []",
		"chain max_nun_seqs":                           `want:2: no signal "max_nun_seqs"; did you mean max_num_seqs?`,
	} {
		dir := t.TempDir()
		rulestest.Write(t, dir, "a.txtar", chainCase+line+"\n")
		results, err := RunCases(rulestest.MustLoad(t), dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(results[0].Failures, "\n"); got != want {
			t.Errorf("%s:\n got %s\nwant %s", line, got, want)
		}
	}
}
