package engine

import "container/list"

// BlockSize is the number of tokens in a KV block, vLLM's default.
const BlockSize = 16

// A blockPool is a worker's KV cache. As in vLLM, free blocks queue in the order in which they were
// freed. Their content can be reused until the queue hands them out. So the least recently used
// content goes first, and a block that is only cached counts as free.
type blockPool struct {
	size   int // at the start
	total  int
	free   int
	leaked int
	queue  list.List // of *segment
}

// A segment is a run of free blocks of one chain. Chains are freed from their tail, so after some
// blocks were handed out the rest is always the chain's head.
type segment struct {
	n    int
	at   *list.Element
	lost func(left int) // called with the number of blocks still cached; nil: no owner
}

func newBlockPool(total int) *blockPool {
	p := &blockPool{size: total, total: total}
	p.release(total, nil)
	return p
}

// take hands out n free blocks, oldest first. The caller checks that n are free.
func (p *blockPool) take(n int) {
	p.free -= n
	for n > 0 {
		e := p.queue.Front()
		s := e.Value.(*segment)
		k := min(n, s.n)
		s.n -= k
		n -= k
		if s.lost != nil {
			s.lost(s.n)
		}
		if s.n == 0 {
			p.queue.Remove(e)
		}
	}
}

// release frees n blocks. If lost is not nil, it is called with the number of blocks that are still
// cached.
func (p *blockPool) release(n int, lost func(left int)) *segment {
	if n == 0 {
		return nil
	}
	p.free += n
	if back := p.queue.Back(); lost == nil && back != nil {
		if s := back.Value.(*segment); s.lost == nil {
			s.n += n
			return s
		}
	}
	s := &segment{n: n, lost: lost}
	s.at = p.queue.PushBack(s)
	return s
}

// reuse takes a segment out of the free queue and returns the number of its cached blocks.
func (p *blockPool) reuse(s *segment) int {
	n := s.n
	p.free -= n
	p.queue.Remove(s.at)
	return n
}

// forget keeps a segment's blocks free and drops their content.
func (p *blockPool) forget(s *segment) { s.lost = nil }

// usage returns vllm:kv_cache_usage_perc.
func (p *blockPool) usage() float64 { return 1 - float64(p.free)/float64(p.total) }

func blocksFor(tokens int) int { return (tokens + BlockSize - 1) / BlockSize }

// A prefix is the common start of a group's prompts in one worker's cache.
type prefix struct {
	blocks   int // whole blocks that are shared
	resident int // leading blocks that the cache holds
	refs     int // requests that use it now
	seg      *segment
}

// cost returns how many free blocks it takes to hold the prefix, and how many blocks are cached.
func (x *prefix) cost() (take, hit int) {
	if x.refs > 0 {
		return x.blocks - x.resident, x.resident
	}
	return x.blocks, x.resident // cached blocks are taken from the free ones, too
}

func (x *prefix) hold(p *blockPool) {
	if x.seg != nil {
		p.reuse(x.seg)
		x.seg = nil
	}
	p.take(x.blocks - x.resident)
	x.resident = x.blocks
	x.refs++
}

func (x *prefix) drop(p *blockPool) {
	x.refs--
	if x.refs > 0 || x.resident == 0 {
		return
	}
	x.seg = p.release(x.resident, func(left int) {
		x.resident = left
		if left == 0 {
			x.seg = nil
		}
	})
}

// shrink takes free blocks away for good until the pool has no more than a share of its size.
func (p *blockPool) shrink(share float64) {
	if n := min(p.total-int(share*float64(p.size)), p.free); n > 0 {
		p.take(n)
		p.total -= n
	}
}
