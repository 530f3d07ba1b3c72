package lab

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"time"
)

// A Config describes a fleet. The zero value of every field but Start is a sensible default.
type Config struct {
	Seed      uint64
	Kind      Kind          // default VLLM
	Start     time.Time     // the simulated moment at which every worker is ready and idle; zero: 2026-11-21 03:00 UTC
	Ahead     time.Duration // from Start to the hour of day that the traffic has then
	Cluster   string        // default "default"
	Namespace string        // default "llm"
	Pool      string        // the Deployment's name; default by the kind, "vllm-llama"
	Model     string        // default by the kind, "llama-70b"
	Workers   int           // default 4
	Index     int           // of several fleets in one cluster, 0 to 99: sets their nodes and addresses apart
	Noise     Noise
	Without   []string                 // metrics that are not exported, as patterns of [path.Match]: "DCGM_*"
	Only      func(metric string) bool // the metrics that are exported; nil: all

	Nodes         int // default: enough for the workers and one more
	GPUsPerNode   int // default 4
	GPUsPerWorker int // the tensor-parallel size; default 2

	Engine   Engine
	Cost     Cost
	Workload Workload
	Routing  Routing

	ColdStart      time.Duration // from a container's start until the model is loaded; default 60 s
	Drain          time.Duration // for a terminating worker's requests (--shutdown-timeout); default 90 s
	MaxSurge       int           // of the rolling update; default 1; negative: none
	MaxUnavailable int           // of the rolling update; default 0, or 1 if MaxSurge is negative
	MinReady       time.Duration // of the rolling update: minReadySeconds; default 0
	MinAvailable   int           // of the PodDisruptionBudget; default Workers-1

	MemoryLimit int64 // bytes a container; default 96 GiB

	DCGM DCGM
}

// DCGM describes the GPU exporter's version and counters. The zero value is an old version with the
// DCGM_EXP_* counters on; {Labels: true, Uncounted: true} is a new version with its defaults.
type DCGM struct {
	Labels    bool // err_code and err_msg on the gauge of the last Xid, so that a new code is a new series
	Uncounted bool // no DCGM_EXP_* counters, the exporter's default
}

// An Engine holds the settings in a worker's arguments.
type Engine struct {
	MaxNumSeqs           int     // default 256
	MaxNumBatchedTokens  int     // default 2048
	MaxModelLen          int     // default 32768
	GPUMemoryUtilization float64 // default 0.90
	NumGPUBlocks         int     // KV blocks of BlockSize tokens; default Cost.Blocks of the memory utilization
	NoPrefixCaching      bool
}

// BlockSize is the number of tokens in a KV block, vLLM's default.
const BlockSize = 16

func (c Config) withDefaults() Config {
	if c.Start.IsZero() {
		c.Start = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	}
	setDefault(&c.Cluster, "default")
	setDefault(&c.Namespace, "llm")
	setDefault(&c.Kind, VLLM)
	setDefault(&c.Pool, c.Kind.defaults().pool)
	setDefault(&c.Model, c.Kind.defaults().model)
	setDefault(&c.Workers, 4)
	setDefault(&c.GPUsPerNode, 4)
	setDefault(&c.GPUsPerWorker, 2)
	if c.Nodes == 0 && c.GPUsPerWorker <= c.GPUsPerNode {
		per := c.GPUsPerNode / c.GPUsPerWorker
		c.Nodes = (c.Workers+per-1)/per + 1
	}
	c.Cost = c.Cost.withDefaults(c.GPUsPerWorker)
	setDefault(&c.Engine.MaxNumSeqs, 256)
	setDefault(&c.Engine.MaxNumBatchedTokens, 2048)
	setDefault(&c.Engine.MaxModelLen, 32768)
	setDefault(&c.Engine.GPUMemoryUtilization, 0.90)
	c.Workload = c.Workload.withDefaults()
	day := c.Start.Add(c.Ahead)
	c.Workload.clock = float64(60*day.Hour() + day.Minute())
	setDefault(&c.Routing, LeastLoaded)
	setDefault(&c.ColdStart, 60*time.Second)
	setDefault(&c.Drain, 90*time.Second)
	setDefault(&c.MaxSurge, 1)
	if c.MaxSurge < 0 {
		c.MaxSurge = 0
		setDefault(&c.MaxUnavailable, 1)
	}
	setDefault(&c.MinAvailable, c.Workers-1)
	setDefault(&c.MemoryLimit, 96<<30)
	return c
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// The limits of a simulation. A day at the highest rate takes a minute and half a gigabyte.
const (
	MaxRate    = 1000 // requests a second over the pool
	MaxWorkers = 256
)

// Validate reports all problems of a config.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(slices.Contains(Kinds(), c.Kind), "engine %q is unknown: use one of %v", c.Kind, Kinds())
	check(c.Workers > 0 && c.Workers <= MaxWorkers, "workers is %d: give a number from 1 to %d", c.Workers, MaxWorkers)
	check(c.GPUsPerWorker > 0 && c.GPUsPerWorker <= c.GPUsPerNode, "a worker's %d GPUs do not fit a node of %d",
		c.GPUsPerWorker, c.GPUsPerNode)
	check(c.Engine.MaxNumSeqs > 0, "max_num_seqs is %d: give a positive number", c.Engine.MaxNumSeqs)
	check(c.Engine.MaxNumBatchedTokens > 0, "max_num_batched_tokens is %d: give a positive number",
		c.Engine.MaxNumBatchedTokens)
	blocks := c.Engine.blocks(c.Cost)
	check(blocks*BlockSize >= c.Engine.MaxModelLen, "%d KV blocks hold fewer tokens than max_model_len %d: no "+
		"available memory for cache blocks", blocks, c.Engine.MaxModelLen)
	check(c.Index >= 0 && c.Index < 100, "the fleet's index is %d: give one of 0 to 99", c.Index)
	check(c.Noise.Missing >= 0 && c.Noise.Missing <= 1, "%g of the scrapes are missing: give a share from 0 to 1",
		c.Noise.Missing)
	check(c.Noise.Gauges >= 0 && c.Noise.Gauges <= 1, "the sensors' noise is %g: give a share from 0 to 1",
		c.Noise.Gauges)
	for _, pattern := range c.Without {
		_, err := path.Match(pattern, "")
		check(err == nil && pattern != "", "%q is no metric: give a name, with * for anything", pattern)
	}
	check(c.Workload.Rate >= 0 && c.Workload.Rate <= MaxRate, "the arrival rate is %g: give a number from 0 to %d",
		c.Workload.Rate, MaxRate)
	check(c.Routing == LeastLoaded || c.Routing == RoundRobin, "routing %q is unknown: use %q or %q", c.Routing,
		LeastLoaded, RoundRobin)
	return errors.Join(errs...)
}

func (e Engine) blocks(c Cost) int {
	if e.NumGPUBlocks > 0 {
		return e.NumGPUBlocks
	}
	return c.Blocks(e.GPUMemoryUtilization)
}
