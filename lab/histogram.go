package lab

import "sort"

// A histogram counts observations as a Prometheus client does.
type histogram struct {
	edges  []float64
	counts []uint64 // by bucket, not cumulative; the last is +Inf
	sum    float64
	count  uint64
	// A step observes the same gap for its whole batch, so the last bucket is cached.
	lastValue  float64
	lastBucket int
}

func newHistogram(edges []float64) *histogram {
	return &histogram{edges: edges, counts: make([]uint64, len(edges)+1), lastValue: -1}
}

func (h *histogram) observe(v float64) {
	if v != h.lastValue {
		h.find(v)
	}
	h.counts[h.lastBucket]++
	h.sum += v
	h.count++
}

func (h *histogram) find(v float64) {
	h.lastValue, h.lastBucket = v, sort.SearchFloat64s(h.edges, v)
}

// The bucket edges of vLLM V1.
var (
	ttftEdges = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160,
		640, 2560}
	itlEdges     = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	latencyEdges = []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	tokenEdges   = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000}
	stepEdges    = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
	paramNEdges  = []float64{1, 2, 5, 10, 20}
)
