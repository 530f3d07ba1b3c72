package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"paramedic/cmd/paramedic/tune"
)

// A tuning holds the flags of tune.
type tuning struct {
	*cli
	tune.Options

	engines    []string
	prometheus string
	model      string
	watch      time.Duration
}

func (c *cli) tuneCommand() *cobra.Command {
	t := &tuning{cli: c}
	cmd := &cobra.Command{
		Use:   "tune (--model-config PATH --gpu NAME | --engine URL… | --prometheus URL)",
		Short: "Compute safe engine settings for a model and its GPUs, or for live engines",
		Long: "Compute a safe number of sequences at a time and a safe prefill chunk, each with its formula. The command changes\n" +
			"nothing.\n\n" +
			"Without a running engine: use the model's config.json and the GPUs. The advice is for vLLM.\n" +
			"With live engines: use --engine or --prometheus. The advice uses the flags of vLLM, SGLang or TensorRT-LLM.\n\n" +
			"Exit code 0: there is advice; 2: the model does not fit, a live setting is unsafe, or a target that you set is\n" +
			"missed; 1: an input is missing or wrong.",
		Example: "  paramedic tune --model-config ./Llama-3.3-70B/ --gpu h100 --tensor-parallel 4 --avg-tokens 2000 --use-case chat\n" +
			"  paramedic tune --model-config ./Qwen3-8B/ --gpu l40s --prompt-tokens 900 --answer-tokens 300 --ttft 400ms --itl 40ms " +
			"--throughput 600\n" +
			"  paramedic tune --layers 32 --kv-heads 8 --head-dim 128 --params 8 --gpu-memory 80GiB --avg-tokens 1500\n" +
			"  paramedic tune --prometheus http://prometheus:9090 --model llama-70b --use-case rag",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := t.numbers(cmd.Flags()); err != nil {
				return err
			}
			return t.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&t.Config, "model-config", "", "`path` of the model's config.json, or of its directory")
	f.IntVar(&t.Layers, "layers", 0, "`number` of layers of the model")
	f.IntVar(&t.KvHeads, "kv-heads", 0, "`number` of key/value heads of the model (not attention heads)")
	f.IntVar(&t.HeadDim, "head-dim", 0, "`size` of a head")
	f.StringVar(&t.Weights, "weights", "", "`size` of the model's weights, such as 141GB")
	f.Float64Var(&t.Params, "params", 0, "`billions` of parameters, instead of --weights")
	f.Float64Var(&t.ActiveParams, "active-params", 0, "`billions` of active parameters of a mixture of experts")
	f.StringVar(&t.WeightDtype, "weight-dtype", "", "number `type` of the weights: bf16, fp16, fp8, int8, int4 or fp32; "+
		"default: the model's")
	f.StringVar(&t.KvDtype, "kv-dtype", "auto", "number `type` of the KV cache, as in --kv-cache-dtype; auto: the model's")
	f.StringVar(&t.Gpu, "gpu", "", "`name` of the GPU: "+tune.GPUs())
	f.StringVar(&t.GpuMemory, "gpu-memory", "", "memory `size` of one GPU, such as 80GiB; a number without a unit is in GiB")
	f.Float64Var(&t.Utilization, "gpu-memory-utilization", 0.9, "`ratio`, as in vLLM's --gpu-memory-utilization")
	f.StringVar(&t.Overhead, "overhead", "4GiB",
		"memory `size` of activations, CUDA graphs and communication on one GPU; the engine's log prints the real size")
	f.IntVar(&t.TensorParallel, "tensor-parallel", 1, "`number` of GPUs of one worker")
	f.IntVar(&t.BlockSize, "block-size", 16, "`tokens` in a KV block")
	f.IntVar(&t.MaxLen, "max-model-len", 0, "longest request in `tokens`, as in vLLM's --max-model-len")
	f.Float64Var(&t.Average, "avg-tokens", 0, "average `length` of a request: prompt and answer together")
	f.Float64Var(&t.Prompt, "prompt-tokens", 0, "average `length` of a prompt; needs --answer-tokens, replaces --avg-tokens")
	f.Float64Var(&t.Answer, "answer-tokens", 0, "average `length` of an answer; needs --prompt-tokens")
	f.StringVar(&t.Use, "use-case", "chat", "`name` of the use case, which sets the targets: chat, code, batch, rag or agents")
	f.DurationVar(&t.Ttft, "ttft", 0, "your target `time` to first token. Live engines: for the p95; else: for prefill on an idle "+
		"worker")
	f.DurationVar(&t.Itl, "itl", 0, "your target `time` between tokens (TBT, TPOT). Live engines: for the p95; else: for the computed "+
		"mean")
	f.DurationVar(&t.E2e, "e2e", 0, "your target `time` for the whole answer. Live engines: for the p95; else: for the computed mean")
	f.Float64Var(&t.Throughput, "throughput", 0, "your target `tokens` per second of one worker")
	f.StringArrayVar(&t.engines, "engine", nil, "`URL` of a live engine's /metrics page (one flag for each page)")
	f.StringVar(&t.prometheus, "prometheus", "", "base `URL` of a Prometheus that scrapes live engines")
	f.StringVar(&t.model, "model", "", "only live pools that serve this `model`")
	f.DurationVar(&t.watch, "watch", 20*time.Second, "`time` to scrape the pages of --engine, at least 1s")
	cmd.MarkFlagsMutuallyExclusive("prometheus", "engine")
	cmd.MarkFlagsMutuallyExclusive("weights", "params")
	cmd.MarkFlagsMutuallyExclusive("avg-tokens", "prompt-tokens")
	cmd.MarkFlagsMutuallyExclusive("avg-tokens", "answer-tokens")
	cmd.MarkFlagsRequiredTogether("prompt-tokens", "answer-tokens")
	return cmd
}

func (t *tuning) run(ctx context.Context) error {
	use, err := t.UseCase()
	if err != nil {
		return err
	}
	live := len(t.engines) > 0 || t.prometheus != ""
	if t.model != "" && !live {
		return errors.New("--model selects a live model: add --prometheus URL or --engine URL. For a model's configuration, use " +
			"--model-config PATH")
	}
	known, err := t.Sheet()
	if err != nil {
		return err
	}
	var all []tune.Advice
	if live {
		pools, err := t.look(ctx)
		if err != nil {
			return err
		}
		for _, p := range pools {
			all = append(all, p.Advise(known, use))
		}
	} else {
		advice, err := known.Advise(use)
		if err != nil {
			return err
		}
		all = append(all, advice)
	}
	if err := t.print(all); err != nil {
		return err
	}
	for _, a := range all {
		if a.Finding {
			return errFinding
		}
	}
	return nil
}

// numbers returns an error for flags that are out of range. A flag that was not given is 0, which
// means unknown.
func (t *tuning) numbers(f *pflag.FlagSet) error {
	for _, n := range []struct {
		flag        string
		value, most float64
	}{
		{"layers", float64(t.Layers), 1e4}, {"kv-heads", float64(t.KvHeads), 1e4}, {"head-dim", float64(t.HeadDim), 1e5},
		{"params", t.Params, 1e5}, {"active-params", t.ActiveParams, 1e5}, {"gpu-memory-utilization", t.Utilization, 1},
		{"tensor-parallel", float64(t.TensorParallel), 1024}, {"block-size", float64(t.BlockSize), 1e5}, {"max-model-len",
			float64(t.MaxLen), 1e8},
		{"avg-tokens", t.Average, 1e8}, {"prompt-tokens", t.Prompt, 1e8}, {"answer-tokens", t.Answer, 1e8}, {"throughput", t.Throughput,
			1e7},
	} {
		if f.Changed(n.flag) && !(n.value > 0 && n.value <= n.most) { // NaN is neither
			return fmt.Errorf("--%s is %g: use a number above 0 and up to %.0f", n.flag, n.value, n.most)
		}
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{{"ttft", t.Ttft}, {"itl", t.Itl}, {"e2e", t.E2e}} {
		if f.Changed(d.flag) && (d.value <= 0 || d.value > time.Hour) {
			return fmt.Errorf("--%s is %s: use a time above 0s and up to 1h, such as 500ms", d.flag, d.value)
		}
	}
	if t.Params > 0 && t.ActiveParams > t.Params {
		return fmt.Errorf("--active-params %g is more than --params %g", t.ActiveParams, t.Params)
	}
	return nil
}

func (t *tuning) print(all []tune.Advice) error {
	if t.output == "json" {
		return t.json(all)
	}
	for i, a := range all {
		if i > 0 {
			fmt.Fprintln(t.out)
		}
		a.Print(t.out)
	}
	return nil
}
