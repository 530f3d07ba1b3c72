package lab

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"paramedic/lab/engine"
	"paramedic/lab/front"
	"paramedic/lab/machine"
	"paramedic/lab/metrics"
	"paramedic/lab/traffic"
)

// A Config describes a fleet. The zero value of every field but Start is a sensible default.
type Config struct {
	Seed      uint64
	Kind      engine.Kind              // default VLLM
	Start     time.Time                // the simulated moment at which every worker is ready and idle; zero: 2026-11-21 03:00 UTC
	Ahead     time.Duration            // from Start to the hour of day that the traffic has then
	Cluster   string                   // default "default"
	Namespace string                   // default "llm"
	Pool      string                   // the Deployment's name; default by the kind, "vllm-llama"
	Model     string                   // default by the kind, "llama-70b"
	Workers   int                      // default 4
	Index     int                      // of several fleets in one cluster, 0 to 99: sets their nodes and addresses apart
	Noise     metrics.Noise            // depends on the seed, the target and the moment only, so all readers see the same errors
	Without   []string                 // metrics that are not exported, as patterns of [path.Match]: "DCGM_*"
	Only      func(metric string) bool // the metrics that are exported; nil: all

	Nodes         int // default: enough for the workers and one more
	GPUsPerNode   int // default 4
	GPUsPerWorker int // the tensor-parallel size; default 2

	Engine   engine.Settings
	Cost     engine.Cost
	Workload traffic.Workload
	Routing  front.Routing // default front.LeastLoaded

	ColdStart      time.Duration // from a container's start until the model is loaded; default 60 s
	Drain          time.Duration // for a terminating worker's requests (--shutdown-timeout); default 90 s
	MaxSurge       int           // of the rolling update; default 1; negative: none
	MaxUnavailable int           // of the rolling update; default 0, or 1 if MaxSurge is negative
	MinReady       time.Duration // of the rolling update: minReadySeconds; default 0
	MinAvailable   int           // of the PodDisruptionBudget; default Workers-1

	MemoryLimit int64 // bytes a container; default 96 GiB

	DCGM machine.DCGM
}

// WithDefaults returns the config with the defaults in place of zeros. Apply it once: a negative
// MaxSurge becomes zero.
func (c Config) WithDefaults() Config {
	if c.Start.IsZero() {
		c.Start = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	}
	setDefault(&c.Cluster, "default")
	setDefault(&c.Namespace, "llm")
	setDefault(&c.Kind, engine.VLLM)
	setDefault(&c.Pool, c.Kind.Defaults().Pool)
	setDefault(&c.Model, c.Kind.Defaults().Model)
	setDefault(&c.Workers, 4)
	setDefault(&c.GPUsPerNode, 4)
	setDefault(&c.GPUsPerWorker, 2)
	if c.Nodes == 0 && c.GPUsPerWorker <= c.GPUsPerNode {
		per := c.GPUsPerNode / c.GPUsPerWorker
		c.Nodes = (c.Workers+per-1)/per + 1
	}
	c.Cost = c.Cost.WithDefaults(c.GPUsPerWorker)
	c.Engine = c.Engine.WithDefaults()
	c.Workload = c.Workload.WithDefaults(c.Start.Add(c.Ahead))
	setDefault(&c.Routing, front.LeastLoaded)
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
	c = c.WithDefaults()
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(slices.Contains(engine.Kinds(), c.Kind), "engine %q is unknown: use one of %v", c.Kind, engine.Kinds())
	check(c.Workers > 0 && c.Workers <= MaxWorkers, "workers is %d: give a number from 1 to %d", c.Workers, MaxWorkers)
	check(c.GPUsPerWorker > 0 && c.GPUsPerWorker <= c.GPUsPerNode, "a worker's %d GPUs do not fit a node of %d",
		c.GPUsPerWorker, c.GPUsPerNode)
	check(c.Engine.MaxNumSeqs > 0, "max_num_seqs is %d: give a positive number", c.Engine.MaxNumSeqs)
	check(c.Engine.MaxNumBatchedTokens > 0, "max_num_batched_tokens is %d: give a positive number",
		c.Engine.MaxNumBatchedTokens)
	blocks := c.Engine.Blocks(c.Cost)
	check(blocks*engine.BlockSize >= c.Engine.MaxModelLen, "%d KV blocks hold fewer tokens than max_model_len %d: no "+
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
	check(c.Routing == front.LeastLoaded || c.Routing == front.RoundRobin, "routing %q is unknown: use %q or %q", c.Routing,
		front.LeastLoaded, front.RoundRobin)
	return errors.Join(errs...)
}

// hides reports whether a metric is excluded by Config.Only or Config.Without.
func (c *Config) hides(metric string) bool {
	return c.Only != nil && !c.Only(metric) || slices.ContainsFunc(c.Without, func(pattern string) bool {
		ok, err := path.Match(pattern, metric)
		return err == nil && ok
	})
}
