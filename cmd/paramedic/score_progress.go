package main

import (
	"fmt"
	"io"
	"sync"

	"paramedic/internal/text"
	"paramedic/notify/console"
)

// A progress tells a person at a terminal how far long work has come, in one line that is written
// over. Nil tells nobody.
type progress struct {
	out io.Writer
	all int

	mu sync.Mutex
	n  int
}

// scoreProgress is told on standard error, and only where a person looks: a log wants no line that
// is written over.
func (c *cli) scoreProgress(runs int) *progress {
	if !console.Attended(c.err) {
		return nil
	}
	p := &progress{out: c.err, all: runs}
	p.show()
	return p
}

// done counts one more run.
func (p *progress) done() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	p.show()
}

func (p *progress) show() { fmt.Fprintf(p.out, "\r%d of %s done", p.n, text.Count(p.all, "run")) }

// end takes the line away: what comes next stands in its place.
func (p *progress) end() {
	if p != nil {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
