package main

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// tuneOptions are what the command line says of the model, its GPUs, its requests and the targets.
// Zero means that nothing is said.
type tuneOptions struct {
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
}

// useCase returns the use case with the targets of the command line in place of its own.
func (o *tuneOptions) useCase() (useCase, error) {
	u, err := useCaseOf(o.use)
	return u.targeted(o.ttft.Seconds(), o.itl.Seconds(), o.throughput).whole(o.e2e.Seconds()), err
}

// paper is what is known without a live engine.
func (o *tuneOptions) paper() (tuneSheet, error) {
	s := tuneSheet{blockSize: o.blockSize, maxLen: o.maxLen, tuneLoad: tuneLoad{average: o.average, prompt: o.prompt, answer: o.answer}}
	if o.prompt > 0 {
		s.average = o.prompt + o.answer
	}
	if err := o.readModel(&s); err != nil {
		return s, err
	}
	if s.maxLen > 0 && s.average > float64(s.maxLen) {
		return s, fmt.Errorf("requests of %g tokens are longer than the %d that max_model_len allows: give --max-model-len, or their real length", s.average, s.maxLen)
	}
	if s.model != nil {
		if err := s.model.grouped(); err != nil {
			return s, err
		}
		if err := s.model.parallel(o.tensorParallel); err != nil {
			return s, err
		}
	}
	return s, o.readHardware(&s)
}

// readModel takes the model from its configuration and from flags, which win.
func (o *tuneOptions) readModel(s *tuneSheet) error {
	var m tuneModel
	var c *modelConfig
	dtype, weight, params := "bf16", 2.0, o.params*1e9
	byFlags := o.layers > 0 || o.kvHeads > 0 || o.headDim > 0
	switch {
	case o.config != "":
		var err error
		if c, err = readModelConfig(o.config); err != nil {
			return err
		}
		if err = c.noKVCache(); err != nil {
			return fmt.Errorf("%s: %w", o.config, err)
		}
		if m, err = c.shape(); byFlags {
			m = c.shaped(o.layers, o.kvHeads, o.headDim)
		} else if err != nil {
			return fmt.Errorf("%s: %w", o.config, err)
		}
		dtype = c.dtype()
		s.maxLen = cmp.Or(s.maxLen, c.Positions)
		m.WeightBytes = c.weightsFromIndex
		weight, _ = c.weightBytes()
		if params == 0 {
			params = c.params(m)
		}
	case byFlags:
		m = tuneModel{Layers: o.layers, KVHeads: o.kvHeads, HeadDim: o.headDim}
	default:
		return nil
	}
	if m.Latent == 0 && (m.KVHeads < 1 || m.HeadDim < 1) || m.Layers+m.WindowLayers < 1 {
		return errors.New("a model takes --layers, --kv-heads and --head-dim, or --model-config")
	}
	if err := o.readWeights(&m, weight, params); err != nil {
		return err
	}
	if o.kvDtype != "auto" && o.kvDtype != "" {
		dtype = o.kvDtype
	}
	var err error
	if s.kvBytes, err = dtypeBytes(dtype); err != nil {
		return err
	}
	if s.kvBytes < 1 {
		return fmt.Errorf("--kv-dtype %s: a KV cache of less than a byte a number has scales besides, which are not computed here; use fp8, bf16 or auto", dtype)
	}
	if c != nil {
		m.LatentBytes = c.latentBytes(m, o.kvDtype, s.kvBytes)
	}
	s.model = &m
	return nil
}

// readWeights takes the size of the weights from flags, or from the number of parameters and the
// size of one. 0: not known.
func (o *tuneOptions) readWeights(m *tuneModel, weight, params float64) error {
	var err error
	if o.weightDtype != "" {
		if weight, err = dtypeBytes(o.weightDtype); err != nil {
			return fmt.Errorf("--weight-dtype: %w", err)
		}
	}
	switch {
	case o.weights != "":
		if m.WeightBytes, err = sizeAboveZero("weights", o.weights); err != nil {
			return err
		}
	case params > 0 && weight > 0 && (m.WeightBytes == 0 || o.params > 0 || o.weightDtype != ""):
		m.WeightBytes = params * weight
	}
	if m.ActiveParams = o.activeParams * 1e9; m.ActiveParams == 0 {
		if m.ActiveParams = params; m.ActiveParams == 0 && weight > 0 {
			m.ActiveParams = m.WeightBytes / weight // of a mixture of experts too many: prefill looks slower than it is
		}
	}
	return nil
}

// readHardware takes the GPUs from their name and from flags, which win.
func (o *tuneOptions) readHardware(s *tuneSheet) error {
	var h tuneHardware
	if o.gpu != "" {
		var ok bool
		if h, ok = tuneGPUs[o.gpu]; !ok {
			return fmt.Errorf("--gpu %q is unknown: use one of %s, or --gpu-memory", o.gpu, gpuNames())
		}
	}
	var err error
	if o.gpuMemory != "" {
		if h.MemoryBytes, err = sizeAboveZero("gpu-memory", o.gpuMemory); err != nil {
			return err
		}
	}
	if h.MemoryBytes == 0 {
		return nil
	}
	h.GPU, h.Utilization, h.TensorParallel = o.gpu, o.utilization, o.tensorParallel
	if h.OverheadBytes, err = parseSize("overhead", o.overhead); err != nil {
		return err
	}
	s.hardware = &h
	return nil
}
