package policy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/playbooks"
	"paramedic/state"
)

// The strictest mode of all matching policies holds, in any order. A policy for another place is
// ignored.
func TestStrictestMatchingModeHolds(t *testing.T) {
	target := state.Target{Cluster: "prod", Namespace: "llm", Pool: "vllm"}
	for name, c := range map[string]struct {
		policies []Policy
		want     Mode
	}{
		"none":              {nil, Auto},
		"looser after":      {[]Policy{{Mode: Approve}, {Mode: Auto}}, Approve},
		"stricter after":    {[]Policy{{Mode: Approve}, {Mode: Observe}}, Observe},
		"another cause":     {[]Policy{{Causes: []string{"kv_leak"}, Mode: Observe}}, Auto},
		"another action":    {[]Policy{{Actions: []string{"restart_worker"}, Mode: Observe}}, Auto},
		"another cluster":   {[]Policy{{Clusters: []string{"dev"}, Mode: Observe}}, Auto},
		"another namespace": {[]Policy{{Namespaces: []string{"web"}, Mode: Observe}}, Auto},
		"another pool":      {[]Policy{{Pools: []string{"sglang"}, Mode: Observe}}, Auto},
		"this very place": {[]Policy{{Causes: []string{"kv_exhaustion"}, Actions: []string{"set_engine_arg"}, Clusters: []string{"prod"}, Namespaces: []string{"llm"},
			Pools: []string{"vllm"}, Mode: Suggest}}, Suggest},
	} {
		cfg := &Rules{Mode: Auto, Policies: c.policies}
		if got := cfg.For("kv_exhaustion", "set_engine_arg", target).Mode; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if got := (&Rules{}).For("kv_exhaustion", "set_engine_arg", target).Mode; got != Suggest {
		t.Errorf("without a mode it is %s", got)
	}
}

// The stricter of each limit holds, in any order of the policies.
func TestStrictestOfEachLimitHolds(t *testing.T) {
	for _, l := range AllLimits {
		var loose, strict Limits
		l.set(&loose, l.Least)
		l.set(&strict, l.Most)
		if !l.more {
			loose, strict = strict, loose
		}
		for _, policies := range [][]Policy{{{Limits: loose}, {Limits: strict}}, {{Limits: strict}, {}, {Limits: loose}}} {
			cfg := &Rules{Limits: loose, Policies: policies}
			if got := l.Get(cfg.For("", "", state.Target{}).Limits); got != l.Get(strict) {
				t.Errorf("%s is %s, want %s", l.Key, l.Text(got), l.Text(l.Get(strict)))
			}
		}
	}
}

func TestEmptyConfigIsValid(t *testing.T) {
	if err := (&Rules{}).Validate(); err != nil {
		t.Error(err)
	}
	if err := (&Rules{Policies: []Policy{{Mode: "yolo"}}}).Validate(); err == nil {
		t.Error("an unknown mode of a policy was taken")
	}
	if err := (&Rules{Policies: []Policy{{Actions: []string{playbooks.ActionSetEngineArg,
		playbooks.ActionRestartWorker}}}}).Validate(); err != nil {
		t.Error(err)
	}
	window := Timing{Window: 10 * time.Minute, Interval: time.Minute}
	for samples, fits := range map[int]bool{10: true, 11: true, 12: false} {
		if window.Samples = samples; (window.Verifiable() == nil) != fits {
			t.Errorf("%d samples in 10 min: %v", samples, window.Verifiable())
		}
	}
}

func TestHardBoundsMayBeUsed(t *testing.T) {
	for _, d := range AllLimits {
		for _, c := range []struct {
			v  float64
			in bool
		}{{d.Least, true}, {d.Most, true}, {d.Least * .99, false}, {d.Most * 1.01, false}} {
			if got := d.OutOfBounds(c.v); (got == "") != c.in {
				t.Errorf("%s of %s: %q", d.Key, d.Text(c.v), got)
			}
		}
	}
}

// Each problem is listed once, at its key.
func TestLimitProblemsAreListedOnce(t *testing.T) {
	list := func(all []LimitProblem) string {
		var out []string
		for _, p := range all {
			out = append(out, p.Key+": "+p.Text)
		}
		return strings.Join(out, "; ")
	}
	for name, c := range map[string]struct {
		l    Limits
		want []string // what each problem says, in order
	}{
		"nothing set":                          {},
		"the floor is the ceiling":             {Limits{Floor: 64, Ceiling: 64}, nil},
		"the floor is above the ceiling":       {Limits{Floor: 65, Ceiling: 64}, []string{"floor: 65 is above"}},
		"the floor is out of bounds":           {Limits{Floor: 2000}, []string{"floor: must be from 8 to 1024"}},
		"the ceiling is out of bounds as well": {Limits{Floor: 2000, Ceiling: 4}, []string{"floor: must be", "ceiling: must be"}},
	} {
		if got := c.l.Wrong(); !lists(list(got), len(got), c.want) {
			t.Errorf("%s: %s", name, list(got))
		}
	}
	defaults := Limits{}.OrDefaults()
	narrow, wrong := defaults, defaults
	narrow.Floor, narrow.Ceiling = 64, 64
	wrong.Floor, wrong.Ceiling = 512, 64
	for name, c := range map[string]struct {
		general, l Limits
		want       []string
	}{
		"nothing set":                  {defaults, Limits{}, nil},
		"the general ones again":       {defaults, defaults, nil},
		"stricter":                     {defaults, Limits{Floor: 64, Cooldown: time.Hour}, nil},
		"looser":                       {defaults, Limits{Ceiling: 2048}, []string{"ceiling: 2048 has no effect"}},
		"looser, where more is strict": {defaults, Limits{Cooldown: 29 * time.Minute}, []string{"cooldown: 29m has no effect"}},
		"out of bounds":                {defaults, Limits{Floor: 2000}, []string{"floor: must be from 8 to 1024"}},
		"no value is left":             {defaults, Limits{Floor: 512, Ceiling: 256}, []string{"floor: with this policy the floor of 512"}},
		"one value is left":            {defaults, Limits{Floor: 256, Ceiling: 256}, nil},
		"none is left of one":          {narrow, Limits{Floor: 72}, []string{"floor: with this policy the floor of 72"}},
		"none was left before":         {wrong, Limits{Cooldown: time.Hour}, nil},
		"no value, and out of bounds":  {defaults, Limits{Floor: 512, Ceiling: 256, MaxLoad: .99}, []string{"max_load: must be"}},
	} {
		if got := c.l.WrongIn(c.general); !lists(list(got), len(got), c.want) {
			t.Errorf("%s: %s", name, list(got))
		}
	}
}

func TestPolicyWithoutApproversAllowsThemAll(t *testing.T) {
	named, silent := Policy{Approvers: []string{"asha"}}, Policy{Mode: Approve}
	for _, list := range [][]Policy{{named, silent}, {silent, named}} {
		rules := &Rules{Mode: Auto, Policies: list}
		if r := rules.For("kv_leak", "set_engine_arg", state.Target{}); !slices.Equal(r.Approvers, named.Approvers) || r.NoApprover() {
			t.Errorf("%v", r.Approvers)
		}
	}
	rules := &Rules{Mode: Auto, Policies: []Policy{silent}}
	if r := rules.For("kv_leak", "set_engine_arg", state.Target{}); r.Approvers != nil {
		t.Errorf("%v", r.Approvers)
	}
}

// lists reports whether there are exactly the wanted problems.
func lists(got string, n int, want []string) bool {
	return n == len(want) && !slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(got, w) })
}
