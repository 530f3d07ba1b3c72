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
		Short: "Compute safe engine settings from a model and its GPUs, or from a live engine, and say why",
		Long: "Compute how many sequences at a time and which prefill chunks are safe: for vLLM from the model's config.json and the " +
			"GPUs before\n" +
			"anything runs, or for vLLM, SGLang and TensorRT-LLM, by their own flags, from the KV blocks and the request lengths of a " +
			"live fleet.\n" +
			"Every value comes with its formula, every target with whether it is met. Nothing is changed.\n" +
			"Exit code 0: advice was given; 2: the model does not fit, a live setting is beyond what is safe, or a target that you " +
			"gave is\n" +
			"missed; 1: something is missing.",
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
	f.StringVar(&t.Config, "model-config", "", "the model's config.json, or its directory")
	f.IntVar(&t.Layers, "layers", 0, "layers of the model")
	f.IntVar(&t.KvHeads, "kv-heads", 0, "key/value heads of the model (not attention heads)")
	f.IntVar(&t.HeadDim, "head-dim", 0, "size of a head")
	f.StringVar(&t.Weights, "weights", "", "size of the model's weights, such as 141GB")
	f.Float64Var(&t.Params, "params", 0, "or its parameters, in billions")
	f.Float64Var(&t.ActiveParams, "active-params", 0, "parameters that a token passes in a mixture of experts, in billions")
	f.StringVar(&t.WeightDtype, "weight-dtype", "", "number type of the weights (bf16, fp8, int4 …); default: the model's")
	f.StringVar(&t.KvDtype, "kv-dtype", "auto", "--kv-cache-dtype; auto: the model's")
	f.StringVar(&t.Gpu, "gpu", "", "kind of GPU: "+tune.GPUs())
	f.StringVar(&t.GpuMemory, "gpu-memory", "", "memory of one GPU, such as 80GiB; a bare number is in GiB")
	f.Float64Var(&t.Utilization, "gpu-memory-utilization", 0.9, "the engine's flag of this name")
	f.StringVar(&t.Overhead, "overhead", "4GiB",
		"what activations, CUDA graphs and communication take on one GPU; an assumption, the engine's log has the truth")
	f.IntVar(&t.TensorParallel, "tensor-parallel", 1, "GPUs of one worker")
	f.IntVar(&t.BlockSize, "block-size", 16, "tokens of a KV block")
	f.IntVar(&t.MaxLen, "max-model-len", 0, "the engine's flag of this name")
	f.Float64Var(&t.Average, "avg-tokens", 0, "average length of a request, prompt and answer together")
	f.Float64Var(&t.Prompt, "prompt-tokens", 0, "or the prompt's alone")
	f.Float64Var(&t.Answer, "answer-tokens", 0, "and the answer's")
	f.StringVar(&t.Use, "use-case", "chat", "whose targets count: chat, code, batch, rag or agents")
	f.DurationVar(&t.Ttft, "ttft", 0, "your target for the first token, in place of the use case's: the p95 of live engines is held "+
		"against it, else what prefill takes on an idle one")
	f.DurationVar(&t.Itl, "itl", 0, "your target for the time between tokens (also called TBT, TPOT), in place of the use case's: the "+
		"p95 of live engines is held against it, else the computed mean")
	f.DurationVar(&t.E2e, "e2e", 0, "your target for the whole answer, in place of the use case's: the p95 of live engines is held "+
		"against it, else the computed mean")
	f.Float64Var(&t.Throughput, "throughput", 0, "your target for the tokens that one worker generates a second")
	f.StringArrayVar(&t.engines, "engine", nil, "URL of a live engine's /metrics page (repeat it)")
	f.StringVar(&t.prometheus, "prometheus", "", "base URL of a Prometheus that watches live engines")
	f.StringVar(&t.model, "model", "", "look at this live model only")
	f.DurationVar(&t.watch, "watch", 20*time.Second, "how long engines are watched with --engine")
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
		return errors.New("--model is one of live engines: say where they are with --prometheus URL or --engine URL; a model's " +
			"configuration is --model-config PATH")
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
			return fmt.Errorf("--%s is %g: give a number above 0 and up to %.0f", n.flag, n.value, n.most)
		}
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{{"ttft", t.Ttft}, {"itl", t.Itl}, {"e2e", t.E2e}} {
		if f.Changed(d.flag) && (d.value <= 0 || d.value > time.Hour) {
			return fmt.Errorf("--%s is %s: give a time above 0s and up to 1h, such as 500ms", d.flag, d.value)
		}
	}
	if t.Params > 0 && t.ActiveParams > t.Params {
		return fmt.Errorf("--active-params is %g of --params %g: a token cannot pass more than there are", t.ActiveParams, t.Params)
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
