package main

import (
	"fmt"
	"io"
	"sync"

	"paramedic/internal/text"
	"paramedic/notify/console"
)

// A progress shows the progress of long work on one line of a terminal, which it overwrites. A nil
// progress does nothing.
type progress struct {
	out io.Writer
	all int

	mu sync.Mutex
	n  int
}

// scoreProgress returns a progress on standard error if that is a terminal, else nil. A log must
// not have an overwritten line.
func (c *cli) scoreProgress(runs int) *progress {
	if !console.Attended(c.err) {
		return nil
	}
	p := &progress{out: c.err, all: runs}
	p.show()
	return p
}

// done counts a finished run.
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

// end removes the line.
func (p *progress) end() {
	if p != nil {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
