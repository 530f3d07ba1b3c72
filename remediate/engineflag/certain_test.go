package engineflag

import (
	"strings"
	"testing"

	"paramedic/remediate/cluster"
)

func TestFlagIsEditedOnlyIfCertain(t *testing.T) {
	args := func(list ...string) []cluster.Container {
		return []cluster.Container{{Name: "engine", Image: "vllm/vllm-openai", Args: list}}
	}
	script := func(text string) []cluster.Container {
		return []cluster.Container{{Name: "engine", Image: "vllm/vllm-openai", Command: []string{"bash", "-c", text}}}
	}
	run := func(image string, command, args []string) []cluster.Container {
		return []cluster.Container{{Name: "main", Image: image, Command: command, Args: args}}
	}
	two := func(a, b cluster.Container) []cluster.Container { return []cluster.Container{a, b} }
	for name, c := range map[string]struct {
		in     []cluster.Container
		value  int
		absent bool
		fails  string
	}{
		"set":                           {in: args("--max-num-seqs=64"), value: 64},
		"set to one":                    {in: args("--max-num-seqs=1"), value: 1},
		"set to nothing":                {in: args("--max-num-seqs=0"), fails: "max_num_seqs"},
		"set to less than nothing":      {in: args("--max-num-seqs=-1"), fails: "max_num_seqs"},
		"set to more than a number":     {in: args("--max-num-seqs=99999999999999999999"), fails: "max_num_seqs"},
		"not set, an option with a c":   {in: run("vllm", nil, []string{"serve", "--cache=1"}), absent: true},
		"in a script, cut off":          {in: script("a --max-num-seqs="), fails: "max_num_seqs"},
		"in a script, and mentioned":    {in: script("a --max-num-seqs=64; echo '--max-num-seqs'"), fails: "more than once"},
		"in a script with a token":      {in: script("HF_TOKEN=hf_1 vllm serve --max-num-seqs=64"), fails: "may contain a secret"},
		"in a script with a key":        {in: script("vllm serve --api-key 'sk-1' --max-num-seqs=64"), fails: "may contain a secret"},
		"in a script with a password":   {in: script("curl https://me:pw@host; vllm --max-num-seqs=64"), fails: "may contain a secret"},
		"in a script, a key elsewhere":  {in: script(`vllm serve --api-key "$KEY" --max-num-seqs=64`), value: 64},
		"in a script with a key's file": {in: script("vllm serve --ssl-keyfile=/k --token /t --max-num-batched-tokens=8 --max-num-seqs=64"), value: 64},
		"set to a word":                 {in: args("--max-num-seqs=auto"), fails: "max_num_seqs"},
		"set by two strings, cut off":   {in: args("--max-num-seqs"), fails: "no value"},
		"set in two containers":         {in: append(args("--max-num-seqs=64"), args("--max-num-seqs=64")...), fails: "both set"},
		"set in the second container":   {in: two(cluster.Container{Name: "proxy", Image: "envoy"}, args("--max-num-seqs=64")[0]), value: 64},
		"not set":                       {in: args("--model=m"), absent: true},
		"not set, an engine first":      {in: append(args("--model=m"), cluster.Container{Name: "proxy", Image: "envoy", Args: []string{"-x"}}), absent: true},
		"not set, two engines":          {in: append(args("--model=m"), args("--model=m")...), fails: "containers engine and engine may both run"},
		"not set, no engine":            {in: run("busybox", nil, []string{"sleep"}), fails: "recognises no engine"},
		"not set, no args":              {in: run("vllm", []string{"vllm", "serve"}, nil), fails: "no plain args"},
		"not set, an engine by --model": {in: run("registry/llm:1", nil, []string{"serve", "--model=m"}), absent: true},
		"not set, --model of a command": {in: run("registry/llm:1", []string{"serve", "--model=m"}, nil), fails: "recognises no engine"},
		"in a script":                   {in: script("exec vllm serve --max-num-seqs 64 --model m"), value: 64},
		"in a script, quoted":           {in: script(`exec vllm serve --max-num-seqs "64"`), value: 64},
		"in a script, quoted once":      {in: script(`exec vllm serve --max-num-seqs '64'`), value: 64},
		"in a script, nothing quoted":   {in: script(`exec vllm serve --max-num-seqs ''`), fails: "max_num_seqs"},
		"in a script, expanded":         {in: script(`exec vllm serve --max-num-seqs $N`), fails: "max_num_seqs"},
		"in a script, twice":            {in: script("a --max-num-seqs 64; b --max-num-seqs 64"), fails: "more than once"},
		"in a script, no value":         {in: script("a --max-num-seqs"), fails: "more than once, or in a form"},
		"in a script, and its args": {in: []cluster.Container{{Name: "e", Image: "vllm", Command: []string{"sh", "-c", "a --max-num-seqs=64"}, Args: []string{"--max-num-seqs=64"}}},
			fails: "more than once"},
		"in a script's comment":       {in: script("# --max-num-seqs 64\nvllm"), fails: "comment"},
		"beside a script's comment":   {in: script("vllm --max-num-seqs=64 # the limit"), value: 64},
		"in a script's heredoc":       {in: script("cat <<E\n--max-num-seqs=64\nE"), fails: "heredoc"},
		"not in a script":             {in: script("exec vllm serve m"), fails: "no plain args"},
		"ash":                         {in: run("vllm", []string{"/bin/ash", "-c"}, []string{"vllm serve --max-num-seqs 64"}), value: 64},
		"dash":                        {in: run("vllm", []string{"dash", "-ec"}, []string{"vllm serve --max-num-seqs 64"}), value: 64},
		"a shell with two options":    {in: run("vllm", []string{"bash", "-e", "-c"}, []string{"vllm serve --max-num-seqs 64"}), value: 64},
		"a shell that runs a file":    {in: run("vllm", []string{"bash", "start.sh"}, []string{"--max-num-seqs", "64"}), value: 64},
		"a shell with a plain option": {in: run("vllm", []string{"bash", "-x"}, []string{"--max-num-seqs", "64"}), value: 64},
		"a shell that runs a catalog": {in: run("vllm", []string{"bash", "catalog"}, []string{"--max-num-seqs", "64"}), value: 64},
		"a shell alone":               {in: run("vllm", []string{"sh"}, nil), fails: "no plain args"},
		"a shell with one option":     {in: run("vllm", []string{"sh", "-x"}, nil), fails: "no plain args"},
	} {
		p, err := Locate(c.in, capVLLM)
		switch {
		case c.fails != "":
			if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "max-num-seqs", "max_num_seqs"), c.fails) {
				t.Errorf("%s: %+v %v", name, p, err)
			}
		case err != nil || p.Value != c.value || p.Absent != c.absent:
			t.Errorf("%s: %+v %v", name, p, err)
		}
	}
}

func TestEngineIsKnownByItsCommand(t *testing.T) {
	for word, want := range map[string]string{"sglang": capSGLang, "trtllm-serve": capTRTLLM, "tensorrt-llm": capTRTLLM,
		"TensorRT_LLM": capTRTLLM, "vllm": capVLLM, "other": capVLLM} {
		if got := CapFlag([]cluster.Container{{Image: "x"}, {Command: []string{word}}}); got != want {
			t.Errorf("%s: %s", word, got)
		}
	}
}
