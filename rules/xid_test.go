package rules

import (
	"strconv"
	"strings"
	"testing"

	"paramedic/state"
)

// What NVIDIA's catalogue asks for after each driver error of Ampere and newer, and whether the GPU is the root of the trouble that comes
// with it.
func TestEveryXidHasItsCauseAndAction(t *testing.T) {
	const restart, reset, cordon, reboot, nothing, link = "restart the pod", "reset the GPU", "cordon the node", "reboot the machine", "no action now", "NVLink"
	type row struct {
		class  string
		wants  []string // in what to do
		spares []string // what must not be told
	}
	application := row{"application", []string{restart}, []string{"By NVIDIA's table: cordon", reset + "."}}
	needsReset := row{"hardware", []string{cordon, reset}, []string{restart}}
	blackwell := row{"hardware", []string{cordon, "NVLink5"}, []string{restart}}
	table := map[int]row{
		13: application, 31: application,
		45: {"application", []string{"the Xid that came with it", "restart the fabric manager"}, nil},
		94: {"application", []string{restart, "reset the GPU when convenient"}, nil},
		48: needsReset, 62: needsReset, 64: needsReset, 95: needsReset, 109: needsReset, 110: needsReset, 119: needsReset, 120: needsReset,
		140: needsReset, 143: needsReset, 158: needsReset,
		74: {"hardware", []string{cordon, link}, []string{restart}},
		79: {"hardware", []string{cordon, reboot}, []string{restart}},
		43: {"notice", []string{"nothing for the GPU"}, nil}, 63: {"notice", []string{"nothing, unless it comes with Xid 48 or 64"}, nil},
		92: {"notice", []string{nothing}, nil}, 154: {"notice", []string{"kernel log"}, nil},
	}
	for code := 144; code <= 150; code++ {
		table[code] = blackwell
	}
	c := mustLoad(t)
	if len(c.xids) != len(table) {
		t.Errorf("the catalogue has %d Xids, the test %d", len(c.xids), len(table))
	}
	for code, want := range table {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			x := c.xids[code]
			if x.Class != want.class || x.Name == "" || x.Meaning == "" {
				t.Fatalf("%+v, want class %s", x, want.class)
			}
			d := xidStory(c, code, want.class != "notice")
			told := strings.Join(d.Story.Do, "\n")
			if want.class == "notice" {
				if d.Cause == "gpu_fault" {
					t.Errorf("healthy workers and Xid %d: %s", code, d.Title)
				}
				told = x.Action
			} else if d.Cause != "gpu_fault" || !strings.Contains(d.Title, "Xid "+strconv.Itoa(code)) {
				t.Errorf("a dead worker and Xid %d: %s %+v, %s", code, d.Cause, d.Score, d.Title)
			}
			for _, w := range want.wants {
				if !strings.Contains(told, w) {
					t.Errorf("%q is not in what to do:\n%s", w, told)
				}
			}
			for _, w := range want.spares {
				if strings.Contains(told, w) {
					t.Errorf("%q is in what to do:\n%s", w, told)
				}
			}
		})
	}
}

// xidStory is the verdict on a pool of two, of which one GPU has just reported an Xid, and whose worker died or did not.
func xidStory(c *Catalog, code int, died bool) state.Diagnosis {
	workers := []state.Worker{
		{Namespace: "llm", Pod: "vllm-llama-7d9f8b6c5-aaaaa", Pool: "vllm-llama", Model: "llama-70b", Node: "node-1", GPUs: []string{"0"}},
		{Namespace: "llm", Pod: "vllm-llama-7d9f8b6c5-bbbbb", Pool: "vllm-llama", Model: "llama-70b", Node: "node-2", GPUs: []string{"0"}},
	}
	in := c.incidents([]alertJSON{{Labels: map[string]string{"alertname": "DCGMXidErrors", "severity": "critical", "err_code": strconv.Itoa(code),
		"gpu": "0", "Hostname": "node-1", "exported_pod": workers[0].Pod, "exported_namespace": "llm"}}}, workers)[0]
	ev := state.Evidence{At: caseTime, Workers: workers}
	add := func(signal string, w state.Worker, gpu string, v float64, text string) {
		ev.Samples = append(ev.Samples, state.Sample{Signal: signal, Value: v, Text: text, At: caseTime,
			Entity: state.Entity{Namespace: w.Namespace, Pool: w.Pool, Model: w.Model, Pod: w.Pod, Node: w.Node, GPU: gpu}})
	}
	for i, w := range workers {
		first := float64(1 - i)
		add("gpu_xid", w, "0", first*float64(code), "")
		add("gpu_xid_changes", w, "0", first, "")
		add("requests_waiting", w, "", 0, "")
		if i > 0 || !died {
			add("pod_ready", w, "", 1, "")
			continue
		}
		add("pod_ready", w, "", 0, "")
		add("pod_last_terminated", w, "", 1, "Error")
	}
	return c.Diagnose(in, &ev, caseTime)
}
