package traffic

import (
	"container/heap"
	"math"

	"paramedic/lab/engine"
)

// Retries holds the requests that clients are going to repeat. Times are seconds since the fleet's
// start. The zero value is empty.
type Retries struct{ heap retryHeap }

// Add adds the next attempt of a request. It has the lengths and the common start of the first.
func (q *Retries) Add(at float64, r *engine.Request) {
	again := &engine.Request{Group: r.Group, Shared: r.Shared, Prompt: r.Prompt, Output: r.Output, MaxTokens: r.MaxTokens,
		Scored: r.Scored, Attempt: r.Attempt + 1}
	heap.Push(&q.heap, &retry{at: at, request: again})
}

// First returns the time of the first attempt, or +Inf if there is none.
func (q *Retries) First() float64 {
	if len(q.heap) == 0 {
		return math.Inf(1)
	}
	return q.heap[0].at
}

// Next removes the first attempt and returns it. There must be one.
func (q *Retries) Next() *engine.Request { return heap.Pop(&q.heap).(*retry).request }

type retry struct {
	at      float64
	request *engine.Request
}

type retryHeap []*retry

func (h retryHeap) Len() int           { return len(h) }
func (h retryHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h retryHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *retryHeap) Push(x any) { *h = append(*h, x.(*retry)) }

// Pop implements heap.Interface.
func (h *retryHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
