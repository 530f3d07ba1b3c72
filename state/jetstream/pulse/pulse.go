// Package pulse notices a store that takes no writes any more.
package pulse

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"paramedic/state"
)

// failingFor is the time for which a stream must fail.
const failingFor = 3 * time.Second

// A Pulse records the results of the writes to each stream.
type Pulse struct {
	mu   sync.Mutex
	sick map[string]failures
	disk error // why the disk takes no writes; nil: it does, or was not tried
}

// New returns a pulse without results.
func New() *Pulse { return &Pulse{sick: map[string]failures{}} }

// failures counts a stream's failures since its last successful write.
type failures struct {
	first, last time.Time
	err         error // the last error
}

// Record adds the result of a write.
func (p *Pulse) Record(stream string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !errors.Is(err, state.ErrUnavailable) { // the server answered
		if delete(p.sick, stream); len(p.sick) == 0 {
			p.disk = nil
		}
		return
	}
	f, now := p.sick[stream], time.Now()
	if f.first.IsZero() {
		f.first = now
	}
	f.last, f.err = now, err
	p.sick[stream] = f
}

// Failing returns the last error if writes to a stream have failed for long enough.
func (p *Pulse) Failing() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.sick {
		if f.last.Sub(f.first) >= failingFor {
			return f.err
		}
	}
	return nil
}

// Diagnose adds what is wrong with the disk to the error of a write.
func (p *Pulse) Diagnose(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.disk == nil || !errors.Is(err, state.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", err, p.disk)
}

// Tried records whether the disk takes writes, and returns whether that is news.
func (p *Pulse) Tried(err error) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed = (p.disk == nil) != (err == nil)
	p.disk = err
	return changed
}

// Reset forgets the failures.
func (p *Pulse) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.sick)
}

// roomProbe is the size of the file that must fit on the disk.
const roomProbe = 4 << 20

// CheckRoom returns an error unless a file of roomProbe bytes fits on the disk.
func CheckRoom(dir string) (err error) {
	path := filepath.Join(dir, "ROOM")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("trying the disk: %w", err)
	}
	_, err = f.Write(make([]byte, roomProbe))
	if err = errors.Join(err, f.Sync(), f.Close(), os.Remove(path)); err != nil {
		return fmt.Errorf("trying the disk: %w", err)
	}
	return nil
}
