package score

import (
	"fmt"
	"io"
	"sync"

	"paramedic/internal/text"
	"paramedic/notify/console"
)

// A Progress shows the progress of long work on one line of a terminal, which it overwrites. A nil
// Progress does nothing.
type Progress struct {
	out io.Writer
	all int

	mu sync.Mutex
	n  int
}

// NewProgress returns a progress on a terminal, or nil if the writer is none. A log must not have
// an overwritten line.
func NewProgress(out io.Writer, runs int) *Progress {
	if !console.Attended(out) {
		return nil
	}
	p := &Progress{out: out, all: runs}
	p.show()
	return p
}

// Done counts a finished run.
func (p *Progress) Done() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	p.show()
}

func (p *Progress) show() { fmt.Fprintf(p.out, "\r%d of %s done", p.n, text.Count(p.all, "run")) }

// End removes the line.
func (p *Progress) End() {
	if p != nil {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
