package state

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestMissingEvidenceKeepsAReasonOnce(t *testing.T) {
	const none = "the cluster default has no Prometheus, engines or Kubernetes configured"
	ev := Evidence{Incident: "INC-1", Samples: []Sample{{Signal: "up", Value: 1}}}
	for i := range 90 {
		ev.Missing = append(ev.Missing, Missing{Signal: fmt.Sprintf("signal_%d", i), Reason: none})
	}
	ev.Missing = append(ev.Missing, Missing{Signal: "baseline", Reason: "nothing is known"})
	raw, err := json.Marshal(Input{Evidence: &ev})
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(raw), none); n != 1 || len(raw) > 2048 {
		t.Errorf("%d bytes name the reason %d times, want once in 2 kB", len(raw), n)
	}
	var back Input
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(back.Evidence.Missing, ev.Missing) || len(back.Evidence.Samples) != 1 || back.Evidence.Incident != "INC-1" {
		t.Errorf("read back %+v", back.Evidence)
	}
}

func TestMissingEvidenceReadsOlderRecords(t *testing.T) {
	var ev Evidence
	if err := json.Unmarshal([]byte(`{"incident":"INC-1","missing":[{"signal":"up","reason":"late"},{"signal":"kv_usage","reason":"late"}]}`), &ev); err != nil {
		t.Fatal(err)
	}
	if want := []Missing{{"up", "late"}, {"kv_usage", "late"}}; !slices.Equal(ev.Missing, want) {
		t.Errorf("read %v, want %v", ev.Missing, want)
	}
}

func TestMissingSignalsFoldByReason(t *testing.T) {
	d := Diagnosis{Missing: []string{"gpu_temp (not exported)", "kv_usage (no Prometheus configured (default))", "up",
		"ttft_p95 (no Prometheus configured (default))"}}
	groups := d.MissingByReason()
	want := []MissingGroup{{"not exported", []string{"gpu_temp"}},
		{"no Prometheus configured (default)", []string{"kv_usage", "ttft_p95"}}, {"", []string{"up"}}}
	if !reflect.DeepEqual(groups, want) {
		t.Errorf("grouped %v, want %v", groups, want)
	}
	for name, tt := range map[string]struct {
		groups []MissingGroup
		want   string
	}{
		"no signal":     {nil, ""},
		"one signal":    {groups[:1], "1 signal missing: not exported"},
		"one reason":    {groups[1:2], "2 signals missing: no Prometheus configured (default)"},
		"three reasons": {groups, "4 signals missing: 2 no Prometheus configured (default), 1 not exported, 1 no data"},
	} {
		if got := SummarizeMissing(tt.groups); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestCauseInPlainWords(t *testing.T) {
	for cause, want := range map[Cause]string{"kv_exhaustion": "KV exhaustion", "cuda_oom": "CUDA OOM", Unknown: "unknown",
		"prefix_cache_collapse": "prefix cache collapse", "gpu_fault": "GPU fault"} {
		if got := cause.Words(); got != want {
			t.Errorf("%s is %q, want %q", cause, got, want)
		}
	}
}

// Evidence with the same missing signals shares their list, and a longer one is a copy.
func TestSameMissingSignalsShareAList(t *testing.T) {
	const stored = `{"incident":"INC-1","missing":[{"reason":"late","signals":["up","kv_usage"]}]}`
	var a, b Evidence
	for _, ev := range []*Evidence{&a, &b} {
		if err := json.Unmarshal([]byte(stored), ev); err != nil {
			t.Fatal(err)
		}
	}
	if &a.Missing[0] != &b.Missing[0] {
		t.Error("the lists are not shared")
	}
	a.Missing, b.Missing = append(a.Missing, Missing{Signal: "a"}), append(b.Missing, Missing{Signal: "b"})
	if a.Missing[2].Signal != "a" || b.Missing[2].Signal != "b" {
		t.Errorf("an addition to one list changed the other: %v, %v", a.Missing, b.Missing)
	}
}
