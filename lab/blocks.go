package lab

import "container/list"

// blockPool is a worker's KV cache. Free blocks stand in a queue in the order in which they were
// freed, as in vLLM: what they held can be used again until the queue hands them out, so the least
// recently used content goes first and a block that is only cached counts as free.
type blockPool struct {
	total  int
	free   int
	leaked int
	queue  list.List // of *segment
}

// A segment is a run of free blocks that belonged to one chain. Chains are freed from their tail,
// so what is left of a segment after some of it was handed out is always the chain's head.
type segment struct {
	n    int
	at   *list.Element
	lost func(left int) // tells the owner what is still cached; nil: nobody will ask
}

func newBlockPool(total int) *blockPool {
	p := &blockPool{total: total}
	p.release(total, nil)
	return p
}

// take hands out n free blocks, oldest first. The caller has checked that there are as many.
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

// release frees n blocks; lost, where not nil, hears how many of them are still cached.
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

// reuse takes a segment out of the free queue, with what it still holds.
func (p *blockPool) reuse(s *segment) int {
	n := s.n
	p.free -= n
	p.queue.Remove(s.at)
	return n
}

// forget keeps a segment's blocks free, but nobody will ask for their content.
func (p *blockPool) forget(s *segment) { s.lost = nil }

// usage is vllm:kv_cache_usage_perc.
func (p *blockPool) usage() float64 { return 1 - float64(p.free)/float64(p.total) }

func blocksFor(tokens int) int { return (tokens + BlockSize - 1) / BlockSize }

// A prefix is a start that the prompts of a group share, in one worker's cache.
type prefix struct {
	blocks   int // whole blocks that are shared
	resident int // of them, the leading ones that the cache holds
	refs     int // requests that use it now
	seg      *segment
}

// cost is how many blocks holding the prefix would take from the free ones, and hit how many need
// no computing.
func (x *prefix) cost() (take, hit int) {
	if x.refs > 0 {
		return x.blocks - x.resident, x.resident
	}
	return x.blocks, x.resident // cached-free ones stop being free, the rest is new
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
