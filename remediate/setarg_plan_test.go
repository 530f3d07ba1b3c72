package remediate

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"paramedic/remediate/cluster"
	"paramedic/remediate/guard"
	"paramedic/remediate/policy"
	"paramedic/state"
)

// drafted plans a cap from the scene's evidence and template.
func drafted(direction string, set func(*guard.Scene)) (*guard.Scene, error) {
	s := sceneOf(setEngineArgKind)
	s.Action.Params = map[string]string{"arg": "max_num_seqs", "direction": direction}
	s.Workload.Containers[0].Args = []string{"--model=m", "--max-num-seqs=96"}
	if set != nil {
		set(s)
	}
	return s, setEngineArg{}.draft(s)
}

func TestCapIsPlannedOnlyFromWhatIsKnown(t *testing.T) {
	// 64 running requests use .85 of the cache, so 64 fit.
	use := func(running, used float64) func(*guard.Scene) {
		return func(s *guard.Scene) { each(s, "requests_running", running); each(s, "kv_usage", used) }
	}
	tokens := func(blocks, size, prompt, output float64) func(*guard.Scene) {
		return func(s *guard.Scene) {
			each(s, "kv_blocks_total", blocks)
			each(s, "kv_block_size", size)
			each(s, "prompt_length_mean", prompt)
			each(s, "output_length_mean", output)
		}
	}
	all := func(sets ...func(*guard.Scene)) func(*guard.Scene) {
		return func(s *guard.Scene) {
			for _, set := range sets {
				set(s)
			}
		}
	}
	absent := func(values ...float64) func(*guard.Scene) {
		return func(s *guard.Scene) {
			s.Workload.Containers[0].Args = []string{"--model=m"}
			for i, v := range values {
				sample(s, "max_num_seqs", s.Pods[i].Name, v, 0)
			}
		}
	}
	limits := func(floor, ceiling int) func(*guard.Scene) {
		return func(s *guard.Scene) { s.Rule.Floor, s.Rule.Ceiling = floor, ceiling }
	}
	plenty := use(500, .5)
	fits := tokens(1000, 16, 100, 100) // 1000 blocks · 16 · .85 / 200 = 68
	for name, c := range map[string]struct {
		direction string
		set       func(*guard.Scene)
		to, says  string
	}{
		"lowered by tokens":            {"lower", all(fits, plenty), "64", "85 % of 1000 KV blocks"},
		"lowered by half, unknown":     {"lower", nil, "48", "the safe value is unknown"},
		"lowered by use":               {"lower", all(fits, use(32, .85)), "32", "85 % of the KV cache holds"},
		"use says more than tokens":    {"lower", all(fits, use(64, .5)), "64", "85 % of 1000 KV blocks"},
		"nothing runs":                 {"lower", all(fits, use(0, .5)), "48", "the safe value is unknown"},
		"nothing is used":              {"lower", all(fits, use(64, 0)), "48", "the safe value is unknown"},
		"as much fits as is set":       {"lower", all(tokens(1000, 16, 70, 71.6), plenty), "48", "half of 96: the KV cache is exhausted, although"},
		"no lengths":                   {"lower", all(tokens(1000, 16, 0, 100), plenty), "48", "the safe value is unknown"},
		"no output":                    {"lower", all(tokens(1000, 16, 100, 0), plenty), "48", "the safe value is unknown"},
		"no block size":                {"lower", all(tokens(1000, 0, 100, 100), plenty), "48", "the safe value is unknown"},
		"no blocks told":               {"lower", func(s *guard.Scene) { fits(s); s.Evidence.Samples = s.Evidence.Samples[5:]; plenty(s) }, "48", "the safe value is unknown"},
		"no lengths told":              {"lower", func(s *guard.Scene) { fits(s); s.Evidence.Samples = s.Evidence.Samples[:15]; plenty(s) }, "48", "the safe value is unknown"},
		"far too much":                 {"lower", all(tokens(100, 16, 100, 100), plenty), "24", "One step from 96 does not go below 24 (max_factor 4)"},
		"not below the floor":          {"lower", all(tokens(500, 16, 100, 100), plenty, limits(40, 1024)), "40", "The limits allow 40 to 1024"},
		"at the floor":                 {"lower", all(fits, limits(96, 1024)), "", "no value below 96 (floor 96)"},
		"not above the ceiling":        {"lower", all(fits, limits(8, 32)), "32", "The limits allow 8 to 32"},
		"raised":                       {"raise", all(tokens(2000, 16, 100, 100), plenty), "136", "hold 136 requests"},
		"raised by use":                {"raise", use(128, .85), "128", "85 % of the KV cache holds"},
		"raised at most twice":         {"raise", all(tokens(9000, 16, 100, 100), plenty), "192", "One step from 96 does not go above 192"},
		"not raised for nothing":       {"raise", all(fits, plenty), "", "a value above 96 is not safe"},
		"not raised above the ceiling": {"raise", all(tokens(9000, 16, 100, 100), plenty, limits(8, 128)), "128", "The limits allow 8 to 128"},
		"not raised unknown":           {"raise", nil, "", "a higher value is not safe"},
		"not raised if nothing runs":   {"raise", use(0, .5), "", "a higher value is not safe"},
		"not raised by no number":      {"raise", func(s *guard.Scene) { use(128, .85)(s); s.Evidence.Samples[0].Value = math.NaN() }, "128", "holds"},
		"not set, all say the same":    {"lower", absent(96, 96, 96, 96, 96), "48", "the safe value is unknown"},
		"not set, they differ":         {"lower", absent(96, 64), "", "default depends on the GPU"},
		"not set, none says":           {"lower", absent(), "", "default depends on the GPU"},
		"set in a way that is unsure":  {"lower", func(s *guard.Scene) { s.Workload.Containers[0].Args = []string{"--max-num-seqs=$(N)"} }, "", "set from a variable"},
		"not a Deployment":             {"lower", func(s *guard.Scene) { s.Workload.Kind = "StatefulSet" }, "", "set max_num_seqs in it by hand"},
	} {
		s, err := drafted(c.direction, c.set)
		if c.to == "" {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %q %v", name, s.Action.Change, err)
			}
			continue
		}
		if err != nil || s.Action.Params["to"] != c.to || !strings.Contains(s.Action.Why, c.says) {
			t.Errorf("%s: to %s: %q %v", name, s.Action.Params["to"], s.Action.Why, err)
		}
	}
}

// A worker's number counts only if both of its signals are known.
func TestUseCountsWholeWorkersOnly(t *testing.T) {
	s := sceneOf(setEngineArgKind)
	sample(s, "kv_usage", "vllm-0", .85, 0)
	sample(s, "requests_running", "vllm-0", 64, 0)
	sample(s, "kv_usage", "vllm-1", .85, 0)
	sample(s, "requests_running", "vllm-2", 64, 0)
	if n, how := safeByUse(s, 1, false); n != 64 {
		t.Errorf("%d: %s", n, how)
	}
}

// A missing flag is appended to the list, and the inverse removes it.
func TestAbsentFlagIsAppendedAndTakenAway(t *testing.T) {
	s, err := drafted("lower", func(s *guard.Scene) {
		s.Workload.Containers[0].Args, s.Workload.Generation = []string{"--model=m"}, 7
		each(s, "max_num_seqs", 96)
	})
	if err != nil {
		t.Fatal(err)
	}
	w, err := setEngineArg{}.Write(s, "op")
	path := `"path":"/spec/template/spec/containers/0/args/1"`
	if err != nil || w.Old != "" || w.New != "--max-num-seqs=48" || !strings.Contains(w.Patch, `{"op":"add",`+path+`,"value":"--max-num-seqs=48"}`) || strings.Contains(w.Patch, `"op":"test",`+path) ||
		!strings.Contains(w.Inverse, `{"op":"remove",`+path) {
		t.Errorf("%+v %v", w, err)
	}
	// A test beyond the end of the list fails, so the command tests the generation.
	if before := `{"op":"test","path":"/metadata/generation","value":7}`; !strings.Contains(s.Action.Command, before) ||
		strings.Contains(s.Action.Command, `"op":"test",`+path) || !strings.Contains(s.Action.Command, `{"op":"add",`+path) {
		t.Error(s.Action.Command)
	}
	set, err := drafted("lower", nil)
	if err != nil || !strings.Contains(set.Action.Command, `{"op":"test","path":"/spec/template/spec/containers/0/args/1","value":"--max-num-seqs=96"}`) || !strings.Contains(set.Action.Command, `"op":"replace"`) {
		t.Errorf("%s %v", set.Action.Command, err)
	}
}

// A run may be held for hours, in which the limits, the requests and the engine change.
func TestOutdatedValueIsNotWritten(t *testing.T) {
	serve := func(running float64) func(*guard.Scene) { // running requests use .85 of the cache
		return func(s *guard.Scene) {
			s.Evidence.Samples = nil
			each(s, "requests_running", running)
			each(s, "kv_usage", .85)
		}
	}
	limit := func(change func(*policy.Rule)) func(*guard.Scene) { return func(s *guard.Scene) { change(&s.Rule) } }
	unset := func(s *guard.Scene) {
		s.Workload.Containers[0].Args = []string{"--model=m"}
		each(s, "max_num_seqs", 96)
	}
	for name, c := range map[string]struct {
		direction    string
		before, then func(*guard.Scene)
		says         string // empty: it is written
	}{
		"raised as planned":                 {"raise", serve(128), nil, ""},
		"raised, a little less is safe now": {"raise", serve(128), serve(104), ""},
		"raised, less is safe now":          {"raise", serve(160), serve(112), "160 was planned, and 112 is safe now"},
		"raised, no more is safe now":       {"raise", serve(128), serve(64), "a value above 96 is not safe"},
		"raised, it is unknown now":         {"raise", serve(128), func(s *guard.Scene) { s.Evidence.Samples = nil }, "a higher value is not safe"},
		"raised above the ceiling":          {"raise", serve(128), limit(func(r *policy.Rule) { r.Ceiling = 120 }), "128 was planned, and the limits allow 24 to 120 now"},
		"raised by too much":                {"raise", serve(128), limit(func(r *policy.Rule) { r.MaxFactor = 1.25 }), "the limits allow 72 to 120 now"},
		"lowered, much more is safe now":    {"lower", serve(32), serve(90), ""},
		"lowered, less is safe now":         {"lower", serve(64), serve(32), ""},
		"lowered below the floor":           {"lower", serve(32), limit(func(r *policy.Rule) { r.Floor = 56 }), "48 was planned, and the limits allow 56 to 192 now"},
		"lowered to the floor":              {"lower", serve(32), limit(func(r *policy.Rule) { r.Floor = 48 }), ""},
		"lowered by too much":               {"lower", serve(32), limit(func(r *policy.Rule) { r.MaxFactor = 1.5 }), "the limits allow 64 to 144 now"},
		"lowered by the ceiling":            {"lower", limit(func(r *policy.Rule) { r.Ceiling = 16 }), nil, ""},
		"not set":                           {"lower", unset, nil, ""},
		"not set, the default changed": {"lower", unset, func(s *guard.Scene) { s.Evidence.Samples = nil; each(s, "max_num_seqs", 64) },
			"was 96 when this was planned, and is 64 now"},
		"not set, the default is unknown": {"lower", unset, func(s *guard.Scene) { s.Evidence.Samples = nil }, "default depends on the GPU"},
	} {
		s, err := drafted(c.direction, c.before)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if c.then != nil {
			c.then(s)
		}
		if _, err = (setEngineArg{}).Write(s, "op"); (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, planned to %s: %v", name, s.Action.Params["to"], err)
		}
	}
}

// People read a plan in chat, and a key of the engine may be among its arguments.
func TestPlanShowsNoOtherArgument(t *testing.T) {
	s, err := drafted("lower", func(s *guard.Scene) {
		s.Workload.Containers[0].Args = []string{"--model=m", "--api-key", "sk-1"}
		each(s, "max_num_seqs", 96)
	})
	if err != nil {
		t.Fatal(err)
	}
	w, err := setEngineArg{}.Write(s, "op")
	if plan := fmt.Sprint(s.Action, w); err != nil || strings.Contains(plan, "sk-1") {
		t.Error(plan, err)
	}
	b := newRun(setEngineArgKind, state.Intent)
	b.p.w.Containers[0].Args = []string{"--api-key=sk-1", "--max-num-seqs=100"} // an argument was inserted
	if got := (setEngineArg{}).apply(t.Context(), b.stage); got.to != state.Superseded || strings.Contains(got.text, "sk-1") {
		t.Errorf("%+v", got)
	}
}

func TestRestartIsDryRunInBothSteps(t *testing.T) {
	b, s := newRun(restartWorkerKind, state.Admitted), sceneOf(restartWorkerKind)
	s.Cluster = b.p
	if err := (restartWorker{}).DryRun(t.Context(), s, state.Write{}); err != nil || len(b.p.wrote) != 0 {
		t.Errorf("%v %v", err, b.p.wrote)
	}
	for _, c := range []struct{ patch, evict error }{{cluster.ErrForbidden, nil}, {nil, cluster.ErrBlocked}} {
		s.Cluster = &dryRuns{b.p, c.patch, c.evict}
		if err := (restartWorker{}).DryRun(t.Context(), s, state.Write{}); err == nil {
			t.Errorf("%+v passes", c)
		}
	}
}
