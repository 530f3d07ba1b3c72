package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"paramedic/state"
)

// A tuning is what is asked of tune.
type tuning struct {
	*cli
	config                            string
	layers, kvHeads, headDim          int
	weights, weightDtype, kvDtype     string
	params, activeParams              float64
	gpu, gpuMemory, overhead          string
	utilization                       float64
	tensorParallel, blockSize, maxLen int
	average, prompt, answer           float64
	use                               string
	ttft, itl, e2e                    time.Duration
	throughput                        float64

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
		Long: "Compute how many sequences at a time and which prefill chunks are safe: for vLLM from the model's config.json and the GPUs before\n" +
			"anything runs, or for vLLM, SGLang and TensorRT-LLM, by their own flags, from the KV blocks and the request lengths of a live fleet.\n" +
			"Every value comes with its formula, every target with whether it is met. Nothing is changed.\n" +
			"Exit code 0: advice was given; 2: the model does not fit, a live setting is beyond what is safe, or a target that you gave is\n" +
			"missed; 1: something is missing.",
		Example: "  paramedic tune --model-config ./Llama-3.3-70B/ --gpu h100 --tensor-parallel 4 --avg-tokens 2000 --use-case chat\n" +
			"  paramedic tune --model-config ./Qwen3-8B/ --gpu l40s --prompt-tokens 900 --answer-tokens 300 --ttft 400ms --itl 40ms --throughput 600\n" +
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
	f.StringVar(&t.config, "model-config", "", "the model's config.json, or its directory")
	f.IntVar(&t.layers, "layers", 0, "layers of the model")
	f.IntVar(&t.kvHeads, "kv-heads", 0, "key/value heads of the model (not attention heads)")
	f.IntVar(&t.headDim, "head-dim", 0, "size of a head")
	f.StringVar(&t.weights, "weights", "", "size of the model's weights, such as 141GB")
	f.Float64Var(&t.params, "params", 0, "or its parameters, in billions")
	f.Float64Var(&t.activeParams, "active-params", 0, "parameters that a token passes in a mixture of experts, in billions")
	f.StringVar(&t.weightDtype, "weight-dtype", "", "number type of the weights (bf16, fp8, int4 …); default: the model's")
	f.StringVar(&t.kvDtype, "kv-dtype", "auto", "--kv-cache-dtype; auto: the model's")
	f.StringVar(&t.gpu, "gpu", "", "kind of GPU: "+gpuNames())
	f.StringVar(&t.gpuMemory, "gpu-memory", "", "memory of one GPU, such as 80GiB; a bare number is in GiB")
	f.Float64Var(&t.utilization, "gpu-memory-utilization", 0.9, "the engine's flag of this name")
	f.StringVar(&t.overhead, "overhead", "4GiB", "what activations, CUDA graphs and communication take on one GPU; an assumption, the engine's log has the truth")
	f.IntVar(&t.tensorParallel, "tensor-parallel", 1, "GPUs of one worker")
	f.IntVar(&t.blockSize, "block-size", 16, "tokens of a KV block")
	f.IntVar(&t.maxLen, "max-model-len", 0, "the engine's flag of this name")
	f.Float64Var(&t.average, "avg-tokens", 0, "average length of a request, prompt and answer together")
	f.Float64Var(&t.prompt, "prompt-tokens", 0, "or the prompt's alone")
	f.Float64Var(&t.answer, "answer-tokens", 0, "and the answer's")
	f.StringVar(&t.use, "use-case", "chat", "whose targets count: chat, code, batch, rag or agents")
	f.DurationVar(&t.ttft, "ttft", 0, "your target for the first token, in place of the use case's: the p95 of live engines is held against it, else what prefill takes on an idle one")
	f.DurationVar(&t.itl, "itl", 0, "your target for the time between tokens (also called TBT, TPOT), in place of the use case's: the p95 of live engines is held against it, else the computed mean")
	f.DurationVar(&t.e2e, "e2e", 0, "your target for the whole answer, in place of the use case's: the p95 of live engines is held against it, else the computed mean")
	f.Float64Var(&t.throughput, "throughput", 0, "your target for the tokens that one worker generates a second")
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

// tuneAdvice is what tune says of one worker of a pool.
type tuneAdvice struct {
	Pool     string        `json:"pool,omitempty"`
	Engine   string        `json:"engine"` // whose flags the settings are
	UseCase  useCase       `json:"use_case"`
	Model    *tuneModel    `json:"model,omitempty"`    // null: only what the live engine tells is known
	Hardware *tuneHardware `json:"hardware,omitempty"` // null: the same
	Settings []tuneSetting `json:"settings"`
	Targets  []tuneTarget  `json:"targets"`
	Facts    []tuneFact    `json:"facts"`
	Notes    []string      `json:"notes"`
	Finding  bool          `json:"finding"` // it does not fit, is beyond what is safe, or misses a target that the user gave
}

// A tuneSetting is one flag with its advice. Now is what a live engine has, 0 where that is not
// known.
type tuneSetting struct {
	Flag  string `json:"flag"`
	Value int    `json:"value"`
	Now   int    `json:"now,omitempty"`
	Why   string `json:"why"`
}

// A tuneFact is a computed or measured value with where it comes from.
type tuneFact struct {
	Name string `json:"name"`
	Text string `json:"text"`
	From string `json:"from"`
}

func (t *tuning) run(ctx context.Context) error {
	use, err := useCaseOf(t.use)
	if err != nil {
		return err
	}
	use = use.targeted(t.ttft.Seconds(), t.itl.Seconds(), t.throughput).whole(t.e2e.Seconds())
	live := len(t.engines) > 0 || t.prometheus != ""
	if t.model != "" && !live {
		return errors.New("--model is one of live engines: say where they are with --prometheus URL or --engine URL; a model's configuration is --model-config PATH")
	}
	known, err := t.paper()
	if err != nil {
		return err
	}
	var all []tuneAdvice
	if live {
		pools, err := t.look(ctx)
		if err != nil {
			return err
		}
		for _, p := range pools {
			all = append(all, p.advise(known, use))
		}
	} else {
		advice, err := known.advise(use)
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

// numbers refuses what no flag can mean. Flags that were not given are 0, and mean that nothing is
// known.
func (t *tuning) numbers(f *pflag.FlagSet) error {
	for _, n := range []struct {
		flag        string
		value, most float64
	}{
		{"layers", float64(t.layers), 1e4}, {"kv-heads", float64(t.kvHeads), 1e4}, {"head-dim", float64(t.headDim), 1e5},
		{"params", t.params, 1e5}, {"active-params", t.activeParams, 1e5}, {"gpu-memory-utilization", t.utilization, 1},
		{"tensor-parallel", float64(t.tensorParallel), 1024}, {"block-size", float64(t.blockSize), 1e5}, {"max-model-len", float64(t.maxLen), 1e8},
		{"avg-tokens", t.average, 1e8}, {"prompt-tokens", t.prompt, 1e8}, {"answer-tokens", t.answer, 1e8}, {"throughput", t.throughput, 1e7},
	} {
		if f.Changed(n.flag) && !(n.value > 0 && n.value <= n.most) { // NaN is neither
			return fmt.Errorf("--%s is %g: give a number above 0 and up to %.0f", n.flag, n.value, n.most)
		}
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{{"ttft", t.ttft}, {"itl", t.itl}, {"e2e", t.e2e}} {
		if f.Changed(d.flag) && (d.value <= 0 || d.value > time.Hour) {
			return fmt.Errorf("--%s is %s: give a time above 0s and up to 1h, such as 500ms", d.flag, d.value)
		}
	}
	if t.params > 0 && t.activeParams > t.params {
		return fmt.Errorf("--active-params is %g of --params %g: a token cannot pass more than there are", t.activeParams, t.params)
	}
	return nil
}

// paper is what is known without a live engine.
func (t *tuning) paper() (tuneSheet, error) {
	s := tuneSheet{blockSize: t.blockSize, maxLen: t.maxLen, tuneLoad: tuneLoad{average: t.average, prompt: t.prompt, answer: t.answer}}
	if t.prompt > 0 {
		s.average = t.prompt + t.answer
	}
	if err := t.readModel(&s); err != nil {
		return s, err
	}
	if s.maxLen > 0 && s.average > float64(s.maxLen) {
		return s, fmt.Errorf("requests of %g tokens are longer than the %d that max_model_len allows: give --max-model-len, or their real length", s.average, s.maxLen)
	}
	if s.model != nil {
		if err := s.model.grouped(); err != nil {
			return s, err
		}
		if err := s.model.parallel(t.tensorParallel); err != nil {
			return s, err
		}
	}
	return s, t.readHardware(&s)
}

// readModel takes the model from its configuration and from flags, which win.
func (t *tuning) readModel(s *tuneSheet) error {
	var m tuneModel
	var c *modelConfig
	dtype, weight, params := "bf16", 2.0, t.params*1e9
	byFlags := t.layers > 0 || t.kvHeads > 0 || t.headDim > 0
	switch {
	case t.config != "":
		var err error
		if c, err = readModelConfig(t.config); err != nil {
			return err
		}
		if err = c.noKVCache(); err != nil {
			return fmt.Errorf("%s: %w", t.config, err)
		}
		if m, err = c.shape(); byFlags {
			m = c.shaped(t.layers, t.kvHeads, t.headDim)
		} else if err != nil {
			return fmt.Errorf("%s: %w", t.config, err)
		}
		dtype = c.dtype()
		s.maxLen = cmp.Or(s.maxLen, c.Positions)
		m.WeightBytes = c.weightsFromIndex
		weight, _ = c.weightBytes()
		if params == 0 {
			params = c.params(m)
		}
	case byFlags:
		m = tuneModel{Layers: t.layers, KVHeads: t.kvHeads, HeadDim: t.headDim}
	default:
		return nil
	}
	if m.Latent == 0 && (m.KVHeads < 1 || m.HeadDim < 1) || m.Layers+m.WindowLayers < 1 {
		return errors.New("a model takes --layers, --kv-heads and --head-dim, or --model-config")
	}
	if err := t.readWeights(&m, weight, params); err != nil {
		return err
	}
	if t.kvDtype != "auto" && t.kvDtype != "" {
		dtype = t.kvDtype
	}
	var err error
	if s.kvBytes, err = dtypeBytes(dtype); err != nil {
		return err
	}
	if s.kvBytes < 1 {
		return fmt.Errorf("--kv-dtype %s: a KV cache of less than a byte a number has scales besides, which are not computed here; use fp8, bf16 or auto", dtype)
	}
	if c != nil {
		m.LatentBytes = c.latentBytes(m, t.kvDtype, s.kvBytes)
	}
	s.model = &m
	return nil
}

// readWeights takes the size of the weights from flags, or from the number of parameters and the
// size of one. 0: not known.
func (t *tuning) readWeights(m *tuneModel, weight, params float64) error {
	var err error
	if t.weightDtype != "" {
		if weight, err = dtypeBytes(t.weightDtype); err != nil {
			return fmt.Errorf("--weight-dtype: %w", err)
		}
	}
	switch {
	case t.weights != "":
		if m.WeightBytes, err = sizeAboveZero("weights", t.weights); err != nil {
			return err
		}
	case params > 0 && weight > 0 && (m.WeightBytes == 0 || t.params > 0 || t.weightDtype != ""):
		m.WeightBytes = params * weight
	}
	if m.ActiveParams = t.activeParams * 1e9; m.ActiveParams == 0 {
		if m.ActiveParams = params; m.ActiveParams == 0 && weight > 0 {
			m.ActiveParams = m.WeightBytes / weight // of a mixture of experts too many: prefill looks slower than it is
		}
	}
	return nil
}

// readHardware takes the GPUs from their name and from flags, which win.
func (t *tuning) readHardware(s *tuneSheet) error {
	var h tuneHardware
	if t.gpu != "" {
		var ok bool
		if h, ok = tuneGPUs[t.gpu]; !ok {
			return fmt.Errorf("--gpu %q is unknown: use one of %s, or --gpu-memory", t.gpu, gpuNames())
		}
	}
	var err error
	if t.gpuMemory != "" {
		if h.MemoryBytes, err = sizeAboveZero("gpu-memory", t.gpuMemory); err != nil {
			return err
		}
	}
	if h.MemoryBytes == 0 {
		return nil
	}
	h.GPU, h.Utilization, h.TensorParallel = t.gpu, t.utilization, t.tensorParallel
	if h.OverheadBytes, err = parseSize("overhead", t.overhead); err != nil {
		return err
	}
	s.hardware = &h
	return nil
}

func (t *tuning) print(all []tuneAdvice) error {
	if t.output == "json" {
		return t.json(all)
	}
	for i, a := range all {
		if i > 0 {
			fmt.Fprintln(t.out)
		}
		a.print(t.out)
	}
	return nil
}

func (a tuneAdvice) print(out io.Writer) {
	title := "One " + a.Engine + " worker"
	if a.Pool != "" {
		title = "A worker of " + a.Pool + " (" + a.Engine + ")"
	}
	u := a.UseCase
	fmt.Fprintf(out, "%s, for %s: first token within %g s, a token every %g ms, the answer within %g s\n", title, u.Name, u.TTFT, u.ITL*1000, u.E2E)
	if len(a.Settings) > 0 {
		fmt.Fprintln(out)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "SETTING\tADVICE\tNOW\tWHY")
		for _, s := range a.Settings {
			advice, now := fmt.Sprint(s.Value), "—"
			if s.Now > 0 {
				now = fmt.Sprint(s.Now)
			}
			if s.Now == s.Value {
				advice = "as it is"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.Flag, advice, now, s.Why)
		}
		w.Flush()
	}
	if len(a.Targets) > 0 {
		fmt.Fprintln(out)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		is := "EXPECTED"
		if a.Pool != "" {
			is = "MEASURED"
		}
		fmt.Fprintf(w, "TARGET\tWANTED\t%s\t\tWHY\n", is)
		for _, t := range a.Targets {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", t.Name, state.FormatValue(t.Want, t.Unit), t.value(), t.Verdict, t.Why)
		}
		w.Flush()
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range a.Facts {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Name, f.Text, f.From)
	}
	w.Flush()
	if len(a.Notes) > 0 {
		fmt.Fprintln(out)
	}
	for _, n := range a.Notes {
		fmt.Fprintf(out, "- %s\n", n)
	}
}
