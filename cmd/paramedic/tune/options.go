package tune

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Options holds what the command line gives about the model, its GPUs, its requests and the
// targets. Zero means not given.
type Options struct {
	Config                            string
	Layers, KvHeads, HeadDim          int
	Weights, WeightDtype, KvDtype     string
	Params, ActiveParams              float64
	Gpu, GpuMemory, Overhead          string
	Utilization                       float64
	TensorParallel, BlockSize, MaxLen int
	Average, Prompt, Answer           float64
	Use                               string
	Ttft, Itl, E2e                    time.Duration
	Throughput                        float64
}

// UseCase returns the use case with the targets of the command line in place of its own.
func (o *Options) UseCase() (UseCase, error) {
	u, err := useCaseOf(o.Use)
	return u.targeted(o.Ttft.Seconds(), o.Itl.Seconds(), o.Throughput).whole(o.E2e.Seconds()), err
}

// Sheet returns what is known without a live engine.
func (o *Options) Sheet() (Sheet, error) {
	s := Sheet{blockSize: o.BlockSize, maxLen: o.MaxLen,
		load: load{average: o.Average, prompt: o.Prompt, answer: o.Answer}}
	if o.Prompt > 0 {
		s.average = o.Prompt + o.Answer
	}
	if err := o.readModel(&s); err != nil {
		return s, err
	}
	if s.maxLen > 0 && s.average > float64(s.maxLen) {
		return s, fmt.Errorf("requests of %g tokens are longer than max_model_len, which is %d: set "+
			"--max-model-len, or the real length of requests", s.average, s.maxLen)
	}
	if s.model != nil {
		if err := s.model.grouped(); err != nil {
			return s, err
		}
		if err := s.model.parallel(o.TensorParallel); err != nil {
			return s, err
		}
	}
	return s, o.readHardware(&s)
}

// readModel reads the model from its configuration and from flags. Flags win.
func (o *Options) readModel(s *Sheet) error {
	var m Model
	var c *modelConfig
	dtype, weight, params := "bf16", 2.0, o.Params*1e9
	byFlags := o.Layers > 0 || o.KvHeads > 0 || o.HeadDim > 0
	switch {
	case o.Config != "":
		var err error
		if c, err = readModelConfig(o.Config); err != nil {
			return err
		}
		if err = c.noKVCache(); err != nil {
			return fmt.Errorf("%s: %w", o.Config, err)
		}
		if m, err = c.shape(); byFlags {
			m = c.shaped(o.Layers, o.KvHeads, o.HeadDim)
		} else if err != nil {
			return fmt.Errorf("%s: %w", o.Config, err)
		}
		dtype = c.dtype()
		s.maxLen = cmp.Or(s.maxLen, c.Positions)
		m.WeightBytes = c.weightsFromIndex
		weight, _ = c.weightBytes()
		if params == 0 {
			params = c.params(m)
		}
	case byFlags:
		m = Model{Layers: o.Layers, KVHeads: o.KvHeads, HeadDim: o.HeadDim}
	default:
		return nil
	}
	if m.Latent == 0 && (m.KVHeads < 1 || m.HeadDim < 1) || m.Layers+m.WindowLayers < 1 {
		return errors.New("the model is incomplete: use --layers, --kv-heads and --head-dim together, or --model-config PATH")
	}
	if err := o.readWeights(&m, weight, params); err != nil {
		return err
	}
	if o.KvDtype != "auto" && o.KvDtype != "" {
		dtype = o.KvDtype
	}
	var err error
	if s.kvBytes, err = dtypeBytes(dtype); err != nil {
		return err
	}
	if s.kvBytes < 1 {
		return fmt.Errorf("--kv-dtype %s: tune cannot compute a KV cache of less than a byte per number; "+
			"use fp8, bf16 or auto", dtype)
	}
	if c != nil {
		m.LatentBytes = c.latentBytes(m, o.KvDtype, s.kvBytes)
	}
	s.model = &m
	return nil
}

// readWeights takes the size of the weights from flags, or computes it from the number of
// parameters and the size of one. 0 means unknown.
func (o *Options) readWeights(m *Model, weight, params float64) error {
	var err error
	if o.WeightDtype != "" {
		if weight, err = dtypeBytes(o.WeightDtype); err != nil {
			return fmt.Errorf("--weight-dtype: %w", err)
		}
	}
	switch {
	case o.Weights != "":
		if m.WeightBytes, err = sizeAboveZero("weights", o.Weights); err != nil {
			return err
		}
	case params > 0 && weight > 0 && (m.WeightBytes == 0 || o.Params > 0 || o.WeightDtype != ""):
		m.WeightBytes = params * weight
	}
	if m.ActiveParams = o.ActiveParams * 1e9; m.ActiveParams == 0 {
		if m.ActiveParams = params; m.ActiveParams == 0 && weight > 0 {
			m.ActiveParams = m.WeightBytes / weight // of a mixture of experts too many: prefill looks slower than it is
		}
	}
	return nil
}

// readHardware takes the GPUs from their name and from flags. Flags win.
func (o *Options) readHardware(s *Sheet) error {
	var h Hardware
	if o.Gpu != "" {
		var ok bool
		if h, ok = gpus[o.Gpu]; !ok {
			return fmt.Errorf("--gpu %q is unknown: use one of %s, or --gpu-memory", o.Gpu, GPUs())
		}
	}
	var err error
	if o.GpuMemory != "" {
		if h.MemoryBytes, err = sizeAboveZero("gpu-memory", o.GpuMemory); err != nil {
			return err
		}
	}
	if h.MemoryBytes == 0 {
		return nil
	}
	h.GPU, h.Utilization, h.TensorParallel = o.Gpu, o.Utilization, o.TensorParallel
	if h.OverheadBytes, err = parseSize("overhead", o.Overhead); err != nil {
		return err
	}
	s.hardware = &h
	return nil
}
