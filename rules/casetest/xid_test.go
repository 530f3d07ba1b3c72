package casetest

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"paramedic/rules/catalog"
	"paramedic/rules/diagnose"
	"paramedic/rules/rulestest"
	"paramedic/state"
)

// The actions of NVIDIA's Xid catalogue for each driver error, by its resolution buckets
// (Xid-Catalog.xlsx, Ampere and newer, as NVSentinel embeds it, SHA-256 7f70ce96…; engine.md §4.3).
// They are copied from there, not from the tested file. Repeats of 13 and 31 on one GPU require its
// diagnosis. 45 follows its companion if there is one. 48 requires a drain first if 63 or 64 came
// with it. 94 allows a later reset. The action in a 154 takes precedence.
var nvidia = map[int]string{
	13: "RESTART_APP", 31: "RESTART_APP", 94: "RESTART_APP, RESET_LATER",
	43: "IGNORE", 63: "IGNORE", 92: "IGNORE",
	45: "RESTART_FM",
	48: "RESET_GPU", 62: "RESET_GPU", 64: "RESET_GPU", 95: "RESET_GPU", 109: "RESET_GPU", 110: "RESET_GPU", 119: "RESET_GPU",
	120: "RESET_GPU",
	140: "RESET_GPU", 143: "RESET_GPU", 158: "RESET_GPU",
	79: "RESTART_BM",
	74: "NVLINK", 144: "NVLINK", 145: "NVLINK", 146: "NVLINK", 147: "NVLINK", 148: "NVLINK", 149: "NVLINK", 150: "NVLINK",
	154: "DRIVER",
}

// TestEveryXidHasCauseAndAction: the advice contains the catalogue's action for every Xid.
func TestEveryXidHasCauseAndAction(t *testing.T) {
	type told struct {
		title  string
		dos    []string // each in what to do
		donts  []string // each in what to avoid
		spares []string // not in what to do
	}
	hardware := func(action string) told {
		return told{"GPU fault on node-1", []string{action, "Cordon node-1 before any restart", "on another node"},
			[]string{"before its node is cordoned"}, []string{"restart the pod"}}
	}
	wants := map[string]told{
		"RESTART_APP": {"CUDA error on node-1",
			[]string{"restart the pod", "Restart vllm-llama-7d9f8b6c5-aaaaa", "Only if the error returns on the same GPU"},
			[]string{"opening a hardware case after the first error"},
			[]string{"Cordon node-1 before", "to the hardware team"}},
		"RESTART_APP, RESET_LATER": {"GPU memory error on node-1",
			[]string{"restart the pod", "Restart vllm-llama-7d9f8b6c5-aaaaa", "Reset the GPU later"},
			[]string{"Looking for the fault in the engine"},
			[]string{"Cordon node-1 before", "to the hardware team", "the application usually causes"}},
		"RESTART_FM": {"CUDA error on node-1", []string{"the Xid that came with it", "restart the fabric manager"},
			[]string{"it follows from another error"}, []string{"Cordon node-1 before", "the hardware team"}},
		"RESET_GPU":  hardware("reset the GPU"),
		"RESTART_BM": hardware("reboot the machine"),
		"NVLINK":     hardware("NVLink"),
		"DRIVER": {"GPU asks for recovery on node-1", []string{"kernel log", "nvidia-smi -q | grep -i 'recovery action'",
			"Cordon node-1 until the answer is known"}, []string{"before its node is cordoned"}, []string{"restart the pod"}},
	}
	c := rulestest.MustLoad(t)
	if len(c.XidTable()) != len(nvidia) {
		t.Errorf("the catalogue has %d Xids, the test %d", len(c.XidTable()), len(nvidia))
	}
	for code, bucket := range nvidia {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			if x := c.XidTable()[code]; x.Name == "" || x.Meaning == "" || x.Action == "" {
				t.Fatalf("%+v", x)
			}
			dead := diagnoseXid(c, gpuCase{last: code, died: true})
			if bucket == "IGNORE" {
				well := diagnoseXid(c, gpuCase{last: code})
				if well.Cause != "benign_alert" || !strings.HasPrefix(well.Title, "DCGMXidErrors fires on healthy engines") {
					t.Errorf("healthy workers: %s, %s", well.Cause, well.Title)
				}
				for _, d := range []state.Diagnosis{well, dead} {
					told := d.Story.What + "\n" + strings.Join(d.Story.Do, "\n")
					if d.Cause == "gpu_fault" || !strings.Contains(told, "Xid "+strconv.Itoa(code)) ||
						!strings.Contains(told, c.XidTable()[code].Action) ||
						strings.Contains(strings.ToLower(told), "cordon") {
						t.Errorf("%s, %s:\n%s", d.Cause, d.Title, told)
					}
				}
				return
			}
			want := wants[bucket]
			do, avoid := strings.Join(dead.Story.Do, "\n"), strings.Join(dead.Story.Avoid, "\n")
			if dead.Cause != "gpu_fault" || !strings.HasPrefix(dead.Title, want.title+": Xid "+strconv.Itoa(code)+" (") {
				t.Errorf("a dead worker: %s %+v, %s", dead.Cause, dead.Score, dead.Title)
			}
			for _, w := range want.dos {
				if !strings.Contains(do, w) {
					t.Errorf("%q is not in what to do:\n%s", w, do)
				}
			}
			for _, w := range want.donts {
				if !strings.Contains(avoid, w) {
					t.Errorf("%q is not in what to avoid:\n%s", w, avoid)
				}
			}
			for _, w := range want.spares {
				if strings.Contains(do, w) {
					t.Errorf("%q is in what to do:\n%s", w, do)
				}
			}
			for _, f := range dead.Findings { // memory that failed is not blamed on the program
				if code == 94 && strings.Contains(f.Text, "process's fault") {
					t.Error(f.Text)
				}
			}
			hard := !strings.HasPrefix(bucket, "RESTART_APP") && bucket != "RESTART_FM"
			if hard != (c.XidTable()[code].Class == "hardware") {
				t.Errorf("%s is of class %s", bucket, c.XidTable()[code].Class)
			}
			// Hardware faults are named before a worker dies of them. An application's error is not
			// named until a worker dies.
			if d := diagnoseXid(c, gpuCase{last: code}); hard && d.Cause != "gpu_fault" || !hard &&
				strings.Contains(strings.Join(d.Story.Do, "\n"), "Cordon node-1 before") {
				t.Errorf("healthy workers: %s, %v", d.Cause, d.Story.Do)
			}
		})
	}
}

// Errors follow each other: a cleaned-up process, a conclusion of the driver. The gauge shows only
// the last one.
func TestWorstRecentXidDecides(t *testing.T) {
	c := rulestest.MustLoad(t)
	before := []state.Point{{At: rulestest.Now.Add(-40 * time.Minute), Value: 0}, {At: rulestest.Now.Add(-20 * time.Minute), Value: 0}}
	course := func(codes ...float64) []state.Point {
		out := slices.Clone(before)
		for i, code := range codes {
			out = append(out, state.Point{At: rulestest.Now.Add(time.Duration(i-len(codes)) * 3 * time.Minute), Value: code})
		}
		return out
	}
	for name, x := range map[string]struct {
		gpuCase
		title  string // of the verdict gpu_fault; "": another verdict
		finds  string
		spares string
	}{
		"the exporter counts both": {gpuCase{last: 45, counts: map[int]float64{48: 1, 45: 8}, died: true},
			"GPU fault on node-1: Xid 48", "within 15 minutes, with Xid 45", ""},
		"the rarer one is the worse": {gpuCase{last: 63, counts: map[int]float64{95: 1, 63: 4}, died: true},
			"GPU fault on node-1: Xid 95", ", with Xid 63", ""},
		"a double-bit error and its row, set aside": {gpuCase{last: 63, counts: map[int]float64{48: 1, 63: 1}, died: true},
			"GPU fault on node-1: Xid 48", ", with Xid 63", "nothing, unless"},
		"and its row, which could not be": {gpuCase{last: 64, counts: map[int]float64{48: 1, 64: 1}, died: true},
			"GPU fault on node-1: Xid 48", ", with Xid 64", ""},
		"the gauge showed it minutes ago": {gpuCase{last: 45, course: course(79, 45), died: true}, "GPU fault on node-1: Xid 79",
			"", ""},
		"the driver's conclusion hides nothing": {gpuCase{last: 154, course: course(64, 154), died: true},
			"GPU fault on node-1: Xid 64", ", with Xid 154", ""},
		"only the alert saw it": {gpuCase{last: 45, alerted: []int{45, 79, 63}, died: true},
			"GPU fault on node-1: Xid 79", "", ""},
		"the alert was first": {gpuCase{last: 45, alerted: []int{79, 45}, died: true}, "GPU fault on node-1: Xid 79",
			"", ""},
		"reboot before reset": {gpuCase{last: 119, counts: map[int]float64{119: 3, 79: 1}, died: true},
			"GPU fault on node-1: Xid 79", "", ""},
		"the application's companion": {gpuCase{last: 45, counts: map[int]float64{31: 1, 45: 1}, died: true},
			"CUDA error on node-1: Xid 31", ", with Xid 45", "Cordon node-1 before"},
		"no gauge, only the count": {gpuCase{last: -1, counts: map[int]float64{74: 1, 45: 2}, died: true},
			"GPU fault on node-1: Xid 74", "", ""},
		"the same code again, which no gauge shows": {gpuCase{last: 79, old: true, counts: map[int]float64{79: 1}, died: true},
			"GPU fault on node-1: Xid 79", "", ""},
		"neither gauge nor count, only an alert": {gpuCase{last: -1, alerted: []int{79}, died: true}, "GPU fault on node-1: Xid 79",
			"An alert reports Xid 79", ""},
		"last week's, and a process's own now": {
			gpuCase{last: 79, old: true, alerted: []int{45}, counts: map[int]float64{45: 1}, died: true}, "CUDA error on node-1: Xid 45",
			"", "reboot"},
		"last week's on the course, and a notice": {
			gpuCase{
				last: 63, course: []state.Point{{At: rulestest.Now.Add(-time.Hour), Value: 79}, {At: rulestest.Now.Add(-20 * time.Minute), Value: 79},
					{At: rulestest.Now.Add(-time.Minute), Value: 63}}}, "", "", "reboot"},
		"an old one under another GPU": {gpuCase{last: 94, elsewhere: 79, died: true}, "GPU memory error on node-1: Xid 94",
			"", "reboot"},
	} {
		t.Run(name, func(t *testing.T) {
			d := diagnoseXid(c, x.gpuCase)
			all := strings.Join(d.Story.Do, "\n")
			var texts []string
			for _, f := range d.Findings {
				texts = append(texts, f.Text)
			}
			if named := d.Cause == "gpu_fault"; named != (x.title != "") || !strings.HasPrefix(d.Title, x.title) {
				t.Errorf("%s (%g dB): %s\n%s", d.Cause, d.Score, d.Title, strings.Join(texts, "\n"))
			}
			if found := strings.Join(texts, "\n"); !strings.Contains(found, x.finds) {
				t.Errorf("%q is not among\n%s", x.finds, found)
			}
			if strings.HasPrefix(x.title, "GPU fault on node-1: Xid 48") &&
				!strings.Contains(all, "cordon the node, drain it, reset the GPU") {
				t.Errorf("what to do is\n%s", all)
			}
			if x.spares != "" && strings.Contains(all, x.spares) {
				t.Errorf("%q in what to do:\n%s", x.spares, all)
			}
		})
	}
}

// The driver's own request takes precedence over the table: DCGM's field, or the kernel log's line
// in an alert. The exporter's text for 154 is always the same and has no request.
func TestDriverRecoveryTakesPrecedence(t *testing.T) {
	c := rulestest.MustLoad(t)
	line := func(to string) string {
		return "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (" + to + ")"
	}
	number := func(v float64) *float64 { return &v }
	for name, x := range map[string]struct {
		gpuCase
		does  string
		cause state.Cause
	}{
		"DCGM says reboot": {gpuCase{last: 154, asks: number(2)},
			`The driver asks for "Node Reboot Required": cordon the node, drain it, reboot the machine.`, "gpu_fault"},
		"DCGM says reset, the table says reboot": {gpuCase{last: 79, asks: number(1), died: true},
			`The driver asks for "GPU Reset Required": cordon the node, drain it, reset the GPU.`, "gpu_fault"},
		"DCGM says drain": {gpuCase{last: 154, asks: number(4)}, `The driver asks for "Drain and Reset"`,
			"gpu_fault"},
		"the Xid was long ago": {gpuCase{last: 154, old: true, asks: number(3)}, `The driver asks for "Drain P2P"`,
			"gpu_fault"},
		"DCGM says nothing is left to do": {gpuCase{last: 154, asks: number(0)}, "", "unknown"},
		"a number that no table has": {gpuCase{last: 154, asks: number(9)},
			"By NVIDIA's table: do what the Xid's own text in the kernel log says", "gpu_fault"},
		"the kernel log in an alert": {gpuCase{last: 154, words: line("Node Reboot Required")},
			`The driver asks for "Node Reboot Required"`, "gpu_fault"},
		"the kernel log, and no exporter": {gpuCase{last: -1, alerted: []int{154}, words: line("GPU Reset Required")},
			`The driver asks for "GPU Reset Required"`, "gpu_fault"},
		"words that nobody knows are no guess": {gpuCase{last: 154, words: line("PF FLR")},
			"By NVIDIA's table: do what the Xid's own text", "gpu_fault"},
		"the exporter's text for every 154": {
			gpuCase{last: 154, words: "GPU Recovery Action Changed", message: "GPU Recovery Action Changed"},
			"By NVIDIA's table: do what the Xid's own text", "gpu_fault"},
		"an exporter that has the driver's text": {
			gpuCase{last: 154, message: "GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)"},
			`The driver asks for "Drain and Reset"`, "gpu_fault"},
	} {
		t.Run(name, func(t *testing.T) {
			d := diagnoseXid(c, x.gpuCase)
			if do := strings.Join(d.Story.Do, "\n"); d.Cause != x.cause || !strings.Contains(do, x.does) {
				t.Errorf("%s (%g dB): %s; to do:\n%s", d.Cause, d.Score, d.Title, do)
			}
		})
	}
	// A code that is not in the table gets the exporter's name.
	d := diagnoseXid(c, gpuCase{last: 136, message: "ALI Training Fail"})
	if d.Cause != "unknown" || !strings.Contains(d.Story.What, "Xid 136 (ALI Training Fail)") ||
		!strings.Contains(d.Story.What, "see NVIDIA's Xid catalogue") {
		t.Errorf("%s:\n%s", d.Cause, d.Story.What)
	}
}

func TestOldXidIsNotedIfItsWorkerIsDown(t *testing.T) {
	c := rulestest.MustLoad(t)
	d := diagnoseXid(c, gpuCase{last: 79, old: true, alerted: []int{0}, died: true})
	if d.Cause != "unknown" || !strings.Contains(d.Story.What, "shows Xid 79 (GPU has fallen off the bus)") ||
		!strings.Contains(d.Story.What, "kernel log") {
		t.Errorf("%s:\n%s", d.Cause, d.Story.What)
	}
	d = diagnoseXid(c, gpuCase{last: 79, old: true, alerted: []int{0}})
	if strings.Contains(d.Story.What, "kernel log") {
		t.Errorf("of a GPU whose worker is ready: %s:\n%s", d.Cause, d.Story.What)
	}
}

// A gpuCase is what exporters and alerts report about GPU 0 of node-1.
type gpuCase struct {
	last      int // on the gauge; -1: there is none
	old       bool
	course    []state.Point
	counts    map[int]float64
	alerted   []int // by the alerts, in their order; the last one on the gauge if there are none
	words     string
	message   string
	asks      *float64
	elsewhere int // an old one on the gauge of the other node's GPU 0
	died      bool
}

// diagnoseXid returns the verdict on a pool of two workers. One GPU has just reported an Xid, and
// its worker died or did not.
func diagnoseXid(c *catalog.Catalog, x gpuCase) state.Diagnosis {
	workers := []state.Worker{
		{Namespace: "llm", Pod: "vllm-llama-7d9f8b6c5-aaaaa", Pool: "vllm-llama", Model: "llama-70b", Node: "node-1", GPUs: []string{"0"}},
		{Namespace: "llm", Pod: "vllm-llama-7d9f8b6c5-bbbbb", Pool: "vllm-llama", Model: "llama-70b", Node: "node-2", GPUs: []string{"0"}},
	}
	codes := x.alerted
	if codes == nil && x.last >= 0 {
		codes = []int{x.last}
	}
	if codes == nil {
		codes = []int{0} // no code
	}
	var alerts []alertJSON
	for _, code := range codes {
		alerts = append(alerts, alertJSON{
			Labels: map[string]string{"alertname": "DCGMXidErrors", "severity": "critical", "err_code": strconv.Itoa(code),
				"gpu": "0", "Hostname": "node-1", "exported_pod": workers[0].Pod, "exported_namespace": "llm"},
			Annotations: map[string]string{"description": x.words}})
	}
	in := incidentsOf(c, alerts, workers)[0].in
	ev := state.Evidence{At: rulestest.Now, Workers: workers}
	add := func(signal string, w state.Worker, gpu string, v float64, summary string) *state.Sample {
		ev.Samples = append(ev.Samples, state.Sample{Signal: signal, Value: v, Text: summary, At: rulestest.Now,
			Entity: state.Entity{Namespace: w.Namespace, Pool: w.Pool, Model: w.Model, Pod: w.Pod, Node: w.Node, GPU: gpu}})
		return &ev.Samples[len(ev.Samples)-1]
	}
	for code, n := range x.counts {
		add("gpu_xid_count", workers[0], "0", n, strconv.Itoa(code))
	}
	if x.message != "" {
		add("gpu_xid_message", workers[0], "0", float64(x.last), x.message)
	}
	if x.asks != nil {
		add("gpu_recovery_action", workers[0], "0", *x.asks, "")
	}
	for i, w := range workers {
		last, changes := float64(max(x.last, 0)), 1.0
		if i > 0 {
			last = float64(x.elsewhere)
		}
		if i > 0 || x.old || x.last == 0 {
			changes = 0
		}
		if x.last >= 0 {
			if s := add("gpu_xid", w, "0", last, ""); i == 0 {
				s.Series = x.course
			}
			add("gpu_xid_changes", w, "0", changes, "")
		}
		add("requests_waiting", w, "", 0, "")
		s := add("ttft_p95", w, "", 0.4, "")
		s.Baseline = &s.Value
		if i > 0 || !x.died {
			add("pod_ready", w, "", 1, "")
			continue
		}
		add("pod_ready", w, "", 0, "")
		add("pod_last_terminated", w, "", 1, "Error")
	}
	return diagnose.Diagnose(c, in, &ev, rulestest.Now)
}
