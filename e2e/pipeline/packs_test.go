package pipeline

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/e2e/bot"
	"paramedic/lab"
	"paramedic/lab/engine"
)

// packs returns the rule files that users load into their Prometheus.
func packs(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../deploy/prometheus/*.yml")
	if err != nil || len(files) < 8 {
		t.Fatalf("the rule packs are %v (%v)", files, err)
	}
	return files
}

func TestPromtoolPassesEveryPack(t *testing.T) {
	t.Parallel()
	files := packs(t)
	if out, err := exec.Command("promtool", append([]string{"check", "rules", "--lint=all", "--lint-fatal"}, files...)...).
		CombinedOutput(); err != nil {
		t.Fatalf("promtool check rules: %v\n%s", err, out)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, err := exec.Command("promtool", "test", "rules", filepath.Join("../../deploy/prometheus/tests", name+"_test.yml")).
				CombinedOutput(); err != nil {
				t.Errorf("promtool test rules: %v\n%s", err, out)
			}
		})
	}
}

// The alerts about the bot itself.
func TestPromtoolPassesOwnAlerts(t *testing.T) {
	t.Parallel()
	const dir = "../../deploy/prometheus/self/"
	if out, err := exec.Command("promtool", "check", "rules", "--lint=all", "--lint-fatal", dir+"paramedic.yml").
		CombinedOutput(); err != nil {
		t.Fatalf("promtool check rules: %v\n%s", err, out)
	}
	if out, err := exec.Command("promtool", "test", "rules", dir+"paramedic_test.yml").CombinedOutput(); err != nil {
		t.Errorf("promtool test rules: %v\n%s", err, out)
	}
}

// In the Alertmanager example the bot gets every alert, and the pager only critical ones. Alerts
// about the bot itself do not go through it.
func TestAlertmanagerExampleRoutesAllToTheBot(t *testing.T) {
	t.Parallel()
	const example = "../../deploy/alertmanager/alertmanager.yml"
	if out, err := exec.Command("amtool", "check-config", example).CombinedOutput(); err != nil {
		t.Fatalf("amtool check-config: %v\n%s", err, out)
	}
	for labels, want := range map[string]string{
		"severity=critical": "paramedic,pager", "severity=warning": "paramedic", "severity=info": "paramedic",
		"severity=critical notify=direct": "pager", "severity=warning notify=direct": "chat",
		"severity=none notify=watchdog": "dead-man",
	} {
		args := append([]string{"config", "routes", "test", "--config.file=" + example, "alertname=VLLMTTFTHigh"},
			strings.Fields(labels)...)
		out, err := exec.Command("amtool", args...).Output()
		if err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("%s goes to %q, want %q (%v)", labels, strings.TrimSpace(string(out)), want, err)
		}
	}
}

// holds finds the `for` of a rule, which is too long for a test. The ranges of the expressions
// stay, because Prometheus has the fleet's past.
var holds = regexp.MustCompile(`(?m)^( *for:) \d+[mh]`)

// hurried returns all packs with a `for` of 2 s.
func hurried(t *testing.T) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for _, file := range packs(t) {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(file)] = holds.ReplaceAll(raw, []byte("$1 2s"))
	}
	return out
}

// TestPacksFireForTheBrokenPart loads every pack into a real Prometheus beside a fleet with a
// fault. Every rule must evaluate, the expected ones fire, misleading ones must not, and the bot
// must find the cause from the packs' alerts alone.
func TestPacksFireForTheBrokenPart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind  engine.Kind
		fault string
		fires []string
		quiet []string
	}{
		{engine.VLLM, lab.KVExhaustion,
			[]string{"VLLMKVCachePressure", "VLLMTTFTHigh", "VLLMPreemptionStorm", "LLMErrorBudgetFastBurnCritical", "SGLangMetricsAbsent"},
			[]string{"VLLMEngineStalled", "VLLMKVHeldWhileIdle", "VLLMConcurrencyCapped", "VLLMMetricsAbsent", "GPUXidFatal",
				"GPUMemoryGrows", "DCGMMetricsAbsent", "InferencePoolDown", "InferenceNodeNotReady"}},
		{engine.VLLM, lab.GPUFault, []string{"GPUXidFatal"},
			[]string{"GPUXidError", "GPURowRemapFailure", "VLLMKVCachePressure", "DCGMMetricsAbsent", "InferenceNodeNotReady"}},
		{engine.VLLM, lab.GatewayFailure, []string{"EPPNoReadyEndpoints", "EPPErrorRateCritical"},
			[]string{"EPPMetricsAbsent", "VLLMEngineStalled", "VLLMKVCachePressure", "InferencePoolDown"}},
		{engine.VLLM, lab.NodeFailure, []string{"InferenceNodeNotReady"}, []string{"InferencePoolDown", "GPUXidFatal", "VLLMKVCachePressure"}},
		{engine.VLLM, lab.OOMKilled, []string{"InferenceContainerOOMKilled"},
			[]string{"InferencePoolDown", "InferenceNodeNotReady", "GPUXidFatal", "VLLMKVCachePressure"}},
		{engine.SGLang, lab.KVExhaustion, []string{"SGLangTTFTHigh", "SGLangTokenUsageHigh", "VLLMMetricsAbsent"},
			[]string{"SGLangMetricsAbsent", "SGLangEngineStalled", "SGLangKVHeldWhileIdle", "GPUXidFatal", "InferencePoolDown"}},
		{engine.Dynamo, lab.KVExhaustion, []string{"DynamoTTFTHigh", "DynamoKVCachePressure", "VLLMKVCachePressure"},
			[]string{"DynamoMetricsAbsent", "DynamoStalled", "GPUXidFatal", "InferencePoolDown"}},
		{engine.TRTLLM, lab.KVExhaustion, []string{"TRTLLMKVCachePressure", "TRTLLMPausedRequests", "VLLMMetricsAbsent"},
			[]string{"TRTLLMMetricsAbsent", "TRTLLMEngineStalled", "TRTLLMErrorRateCritical", "GPUXidFatal", "InferencePoolDown"}},
	} {
		t.Run(string(c.kind)+"_"+c.fault, func(t *testing.T) {
			t.Parallel()
			chats, b := newChats(t), bot.New(t)
			w := newWorldWith(t, c.kind, c.fault, b.URL()+"/webhook/alertmanager", intakeToken, hurried(t))
			configure(b, chats, map[string]any{
				"clusters": []any{map[string]any{"name": "default", "prometheus": map[string]any{"url": w.prometheus},
					"alertmanager": map[string]any{"url": w.alertmanager}}},
			})
			b.Start()
			bot.Eventually(t, 60*time.Second, "the expected rules fire", func() error {
				firing, err := firing(w.prometheus)
				for _, name := range c.fires {
					if err == nil && !slices.Contains(firing, name) {
						err = fmt.Errorf("%s does not fire; there are %v", name, firing)
					}
				}
				return err
			})
			bot.Eventually(t, 60*time.Second, "an incident names the cause", func() error {
				list, err := b.Incidents()
				var causes []string
				for _, in := range own(list) {
					if string(in.Cause) == c.fault {
						return err
					}
					causes = append(causes, string(in.Cause)+": "+in.Title)
				}
				return fmt.Errorf("%v: %s", err, strings.Join(causes, "; "))
			})
			firing, err := firing(w.prometheus)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range c.quiet {
				if slices.Contains(firing, name) {
					t.Errorf("%s fires", name)
				}
			}
		})
	}
}

// firing returns the names of the rules that fire. A rule that cannot be evaluated is an error.
func firing(prometheus string) ([]string, error) {
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Type, State, Health, LastError string }
			}
		}
	}
	if err := getJSON(prometheus+"/api/v1/rules", &answer); err != nil {
		return nil, err
	}
	var out []string
	for _, g := range answer.Data.Groups {
		for _, r := range g.Rules {
			if r.Health == "err" {
				return nil, bot.Final(fmt.Errorf("%s cannot be evaluated: %s", r.Name, r.LastError))
			}
			if r.Health != "ok" {
				return nil, fmt.Errorf("%s was not evaluated yet", r.Name)
			}
			if r.Type == "alerting" && r.State == "firing" {
				out = append(out, r.Name)
			}
		}
	}
	return out, nil
}
