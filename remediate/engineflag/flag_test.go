package engineflag

import (
	"strconv"
	"strings"
	"testing"

	"paramedic/remediate/cluster"
)

func TestFlagIsFoundInEveryForm(t *testing.T) {
	vllm := func(args ...string) cluster.Container {
		return cluster.Container{Name: "vllm", Image: "vllm/vllm-openai", Args: args}
	}
	script := func(s string) cluster.Container {
		return cluster.Container{Name: "vllm", Command: []string{"/bin/sh", "-c"}, Args: []string{s}}
	}
	under := func(image, command string, args ...string) cluster.Container {
		return cluster.Container{Name: "e", Image: image, Command: strings.Fields(command), Args: args}
	}
	for _, c := range []struct {
		name string
		in   cluster.Container
		want string // the string after the change to 128; or the error
	}{
		{"equals", vllm("--model=m", "--max-num-seqs=256"), "--max-num-seqs=128"},
		{"two strings", vllm("--max-num-seqs", "256", "--model=m"), "128"},
		{"underscores", vllm("--max_num_seqs=256"), "--max_num_seqs=128"},
		{"last wins", vllm("--max-num-seqs=64", "--max-num-seqs", "256"), "128"},
		{"in command", cluster.Container{Name: "vllm", Command: []string{"vllm", "serve", "m", "--max-num-seqs=256"}}, "--max-num-seqs=128"},
		{"in a script", script("exec vllm serve m --max-num-seqs 256 --port 8000"), "exec vllm serve m --max-num-seqs 128 --port 8000"},
		{"in a script, quoted", script(`vllm serve m --max_num_seqs="256"`), `vllm serve m --max_num_seqs="128"`},
		{"in a script, continued", script("vllm serve m \\\n  --max-num-seqs=256 \\\n  --port 1"), "vllm serve m \\\n  --max-num-seqs=128 \\\n  --port 1"},
		{"bash -lc", cluster.Container{Name: "vllm", Command: []string{"bash", "-lc", "vllm serve m --max-num-seqs=256"}}, "vllm serve m --max-num-seqs=128"},
		{"absent", vllm("--model=m"), "--max-num-seqs=128"},
		{"a longer flag is another flag", vllm("--model=m", "--max-num-seqs-per-x=3"), "--max-num-seqs=128"},
		{"variable", script("vllm serve m --max-num-seqs $SEQS"), "from a variable"},
		{"Kubernetes variable", vllm("--max-num-seqs=$(SEQS)"), "from a variable"},
		{"heredoc", script("cat <<EOF > run\nvllm --max-num-seqs 256\nEOF\nsh run"), "heredoc"},
		{"comment", script("# --max-num-seqs 256\nvllm serve m"), "comment"},
		{"twice in a script", script("vllm --max-num-seqs 2 & vllm --max-num-seqs 3"), "more than once"},
		{"no value", vllm("--max-num-seqs"), "no value"},
		{"not a number", vllm("--max-num-seqs=many"), "must be a positive number"},
		{"absent in a script", script("vllm serve m"), "no plain args"},
		{"SGLang", cluster.Container{Name: "worker", Image: "lmsysorg/sglang:v0.5.7", Args: []string{"--model-path=m", "--max-running-requests", "256"}}, "128"},
		{"SGLang, absent", cluster.Container{Name: "worker", Image: "registry/llm", Command: []string{"python3", "-m", "sglang.launch_server"}, Args: []string{"--model-path=m"}},
			"--max-running-requests=128"},
		{"vLLM's flag on SGLang is another flag", cluster.Container{Name: "sglang", Args: []string{"--max-num-seqs=256"}}, "takes --max-running-requests, but sets --max-num-seqs"},
		{"vLLM with a backend of TensorRT-LLM", vllm("--model=m", "--moe-backend=flashinfer_trtllm", "--max-num-seqs=256"), "--max-num-seqs=128"},
		{"vLLM with such a backend, two strings", vllm("--moe-backend", "flashinfer_trtllm", "--max-num-seqs=256"), "--max-num-seqs=128"},
		{"vLLM that serves a draft model of SGLang", vllm("lmsys/sglang-EAGLE3-LLaMA3.3", "--max-num-seqs=256"), "--max-num-seqs=128"},
		{"bash with an option that takes a value", under("vllm", "/bin/bash -euo pipefail -c", "exec vllm serve m --max-num-seqs 256"),
			"exec vllm serve m --max-num-seqs 128"},
		{"a shell behind env", under("vllm", "/usr/bin/env bash -c", "vllm serve m --max-num-seqs 256"), "vllm serve m --max-num-seqs 128"},
		{"a shell behind tini", under("vllm", "tini -- bash -c", "vllm serve m --max-num-seqs 256"), "vllm serve m --max-num-seqs 128"},
		{"a shell behind an entrypoint", under("nvcr.io/nvidia/tensorrt-llm/release", "/opt/nvidia/nvidia_entrypoint.sh", "bash", "-c",
			"trtllm-serve m --max_batch_size 256"), "trtllm-serve m --max_batch_size 128"},
		{"zsh", under("vllm", "zsh -c", "vllm serve m --max-num-seqs 256"), "vllm serve m --max-num-seqs 128"},
		{"a script of another interpreter", under("vllm", "python3 -c", "import vllm; vllm.run(['--max-num-seqs', '256'])"), "no plain args"},
		{"a script file", under("vllm", "/app/start.sh", "--port=8000"), "no plain args"},
		{"JSON among the args", vllm("--model=m", "--kv-transfer-config", `{"kv_role": "kv_both"}`), "--max-num-seqs=128"},
		{"vLLM as a module", under("registry/llm", "python3 -m vllm.entrypoints.openai.api_server", "--max-num-seqs=256"), "--max-num-seqs=128"},
		{"TensorRT-LLM", cluster.Container{Name: "trtllm", Image: "nvcr.io/nvidia/tensorrt-llm/release:1.3.0", Args: []string{"serve", "m", "--max_batch_size=256"}}, "--max_batch_size=128"},
		{"TensorRT-LLM takes underscores", cluster.Container{Name: "worker", Image: "registry/llm", Command: []string{"trtllm-serve", "m"}, Args: []string{"--port=8000"}}, "--max_batch_size=128"},
		{"no engine", cluster.Container{Name: "proxy", Image: "envoy", Args: []string{"-c"}}, "recognises no engine"},
	} {
		t.Run(c.name, func(t *testing.T) {
			containers := []cluster.Container{{Name: "sidecar", Image: "envoy"}, c.in}
			flag := CapFlag(containers)
			p, err := Locate(containers, flag)
			if err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Fatal(err)
				}
				return
			}
			if got := p.With(flag, 128); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if !p.Absent && p.Value != 256 {
				t.Errorf("value is %d", p.Value)
			}
			if p.Container != 1 {
				t.Errorf("container is %d", p.Container)
			}
		})
	}
}

// FuzzLocate checks that an edit changes the one value and nothing else.
func FuzzLocate(f *testing.F) {
	f.Add("vllm serve m --max-num-seqs 256", true)
	f.Add("--max_num_seqs=256", false)
	f.Add("--max-num-seqs='256' # x", true)
	f.Fuzz(func(t *testing.T, text string, inShell bool) {
		c := cluster.Container{Name: "vllm", Image: "vllm", Args: strings.Fields(text)}
		if inShell {
			c = cluster.Container{Name: "vllm", Command: []string{"sh", "-c"}, Args: []string{text}}
		}
		p, err := Locate([]cluster.Container{c}, "max_num_seqs")
		if err != nil || p.Absent {
			return
		}
		list := c.Args
		if p.List == "command" {
			list = c.Command
		}
		if list[p.Index] != p.Token || p.Value <= 0 {
			t.Fatalf("%+v of %q", p, list)
		}
		next := p.With("max_num_seqs", p.Value)
		if n, err := strconv.Atoi(p.Token[p.from:p.to]); err != nil || n != p.Value || len(next) > len(p.Token) {
			t.Fatalf("%q became %q", p.Token, next)
		}
	})
}

func TestRanksAreReadFromTheTemplate(t *testing.T) {
	for _, c := range []struct {
		args     []string
		ranks    int
		together bool
		fails    bool
	}{
		{args: []string{"--model=m"}, ranks: 1},
		{args: []string{"--data-parallel-size=8"}, ranks: 8},
		{args: []string{"--data-parallel-size", "8", "--data-parallel-size-local", "2"}, ranks: 2},
		{args: []string{"--data-parallel-size=8", "--data-parallel-rank", "3"}, ranks: 1},
		{args: []string{"-dp", "4"}, ranks: 4},
		{args: []string{"-dp=4"}, ranks: 4},
		{args: []string{"--data_parallel_size=8", "--data-parallel-rank=3"}, ranks: 1},
		{args: []string{"--data-parallel-size=8", "-dpr", "3"}, ranks: 1},
		{args: []string{"--data-parallel-size=8", "-dpl=2"}, ranks: 2},
		{args: []string{"--dp-size=8", "--enable-dp-attention"}, ranks: 8, together: true},
		{args: []string{"--dp", "8"}, ranks: 8},
		{args: []string{"--data-parallel-size=$(DP)"}, fails: true},
		{args: []string{"--dp", "$(DP)"}, fails: true},
	} {
		ranks, together, err := Ranks(cluster.Container{Name: "e", Image: "vllm", Args: c.args})
		if ranks != c.ranks || together != c.together || (err != nil) != c.fails {
			t.Errorf("%q: %d ranks, together %t, %v", c.args, ranks, together, err)
		}
	}
}
