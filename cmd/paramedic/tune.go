package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
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
		Long: "Compute max_num_seqs and max_num_batched_tokens for vLLM: from the model's config.json and the GPUs before anything runs, or from the\n" +
			"KV blocks and the request lengths of a live fleet. Every value comes with its formula. Nothing is changed.\n" +
			"Exit code 0: advice was given; 2: the model does not fit, or a live setting is beyond what is safe; 1: something is missing.",
		Example: "  paramedic tune --model-config ./Llama-3.3-70B/ --gpu h100 --tensor-parallel 4 --avg-tokens 2000 --use-case chat\n" +
			"  paramedic tune --layers 32 --kv-heads 8 --head-dim 128 --params 8 --gpu-memory 80GiB --avg-tokens 1500\n" +
			"  paramedic tune --prometheus http://prometheus:9090 --model llama-70b --use-case rag",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return t.run(cmd.Context()) },
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
	f.StringArrayVar(&t.engines, "engine", nil, "URL of a live engine's /metrics page (repeat it)")
	f.StringVar(&t.prometheus, "prometheus", "", "base URL of a Prometheus that watches live engines")
	f.StringVar(&t.model, "model", "", "look at this live model only")
	f.DurationVar(&t.watch, "watch", 20*time.Second, "how long engines are watched with --engine")
	cmd.MarkFlagsMutuallyExclusive("prometheus", "engine")
	cmd.MarkFlagsMutuallyExclusive("weights", "params")
	cmd.MarkFlagsMutuallyExclusive("avg-tokens", "prompt-tokens")
	cmd.MarkFlagsMutuallyExclusive("avg-tokens", "answer-tokens")
	return cmd
}

// tuneAdvice is what tune says of one worker of a pool.
type tuneAdvice struct {
	Pool     string        `json:"pool,omitempty"`
	UseCase  useCase       `json:"use_case"`
	Model    *tuneModel    `json:"model,omitempty"`    // null: only what the live engine tells is known
	Hardware *tuneHardware `json:"hardware,omitempty"` // null: the same
	Settings []tuneSetting `json:"settings"`
	Facts    []tuneFact    `json:"facts"`
	Notes    []string      `json:"notes"`
	Finding  bool          `json:"finding"` // it does not fit, or is beyond what is safe
}

// A tuneSetting is one flag with its advice. Now is what a live engine has, 0 where that is not known.
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
	if t.tensorParallel < 1 || t.blockSize < 1 || t.utilization <= 0 || t.utilization > 1 {
		return errors.New("--tensor-parallel and --block-size must be at least 1, --gpu-memory-utilization between 0 and 1")
	}
	known, err := t.paper()
	if err != nil {
		return err
	}
	var all []tuneAdvice
	if len(t.engines) > 0 || t.prometheus != "" {
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

// paper is what is known without a live engine.
func (t *tuning) paper() (tuneSheet, error) {
	s := tuneSheet{blockSize: t.blockSize, maxLen: t.maxLen, prompt: t.prompt, average: t.average}
	if t.average == 0 && t.prompt > 0 && t.answer > 0 {
		s.average = t.prompt + t.answer
	}
	if t.average < 0 || t.prompt < 0 || t.answer < 0 {
		return s, errors.New("lengths are not below zero")
	}
	if err := t.readModel(&s); err != nil {
		return s, err
	}
	return s, t.readHardware(&s)
}

// readModel takes the model from its configuration and from flags, which win.
func (t *tuning) readModel(s *tuneSheet) error {
	var m tuneModel
	dtype, weight, params := "bf16", 0.0, t.params*1e9
	if t.config != "" {
		c, err := readModelConfig(t.config)
		if err != nil {
			return err
		}
		m, dtype = c.shape(), c.dtype()
		if s.maxLen == 0 {
			s.maxLen = c.Positions
		}
		m.WeightBytes = c.weightsFromIndex
		if n, ok := c.weightBytes(); ok {
			weight = n
		}
		if !c.experts() && params == 0 {
			params = c.params()
		}
		if n := c.windowed(); n > 0 {
			s.notes = append(s.notes, fmt.Sprintf("%d of %d layers keep a window or a state, not every token; the engine fits more than is computed here.", n, c.Layers))
		}
	}
	if t.layers > 0 || t.kvHeads > 0 || t.headDim > 0 {
		m.Layers, m.KVHeads, m.HeadDim = firstOf(t.layers, m.Layers), firstOf(t.kvHeads, m.KVHeads), firstOf(t.headDim, m.HeadDim)
	}
	if m.Layers == 0 && m.KVHeads == 0 && m.HeadDim == 0 {
		return nil
	}
	if m.Layers < 1 || m.Latent == 0 && (m.KVHeads < 1 || m.HeadDim < 1) {
		return errors.New("a model takes --layers, --kv-heads and --head-dim, or --model-config")
	}
	var err error
	if t.weightDtype != "" {
		if weight, err = dtypeBytes(t.weightDtype); err != nil {
			return err
		}
	} else if weight == 0 && t.config == "" {
		weight = 2
	}
	switch {
	case t.weights != "":
		if m.WeightBytes, err = parseSize("weights", t.weights); err != nil {
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
	if t.kvDtype != "auto" && t.kvDtype != "" {
		dtype = t.kvDtype
	}
	if s.kvBytes, err = dtypeBytes(dtype); err != nil {
		return err
	}
	s.model = &m
	return nil
}

func firstOf(a, b int) int {
	if a != 0 {
		return a
	}
	return b
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
		if h.MemoryBytes, err = parseSize("gpu-memory", t.gpuMemory); err != nil {
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
	title := "One worker"
	if a.Pool != "" {
		title = "A worker of " + a.Pool
	}
	u := a.UseCase
	fmt.Fprintf(out, "%s, for %s: first token within %g s, a token every %g ms, the answer within %g s\n", title, u.Name, u.TTFT, u.ITL*1000, u.E2E)
	if len(a.Settings) > 0 {
		fmt.Fprintln(out)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "SETTING\tADVICE\tNOW\tWHY")
		for _, s := range a.Settings {
			now := "—"
			if s.Now > 0 {
				now = fmt.Sprint(s.Now)
			}
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", s.Flag, s.Value, now, s.Why)
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
