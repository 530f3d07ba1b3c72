package jetstream

import (
	"errors"
	"time"

	"paramedic/state/jetstream/pulse"
)

const (
	// The store is checked every recoverEvery. If it takes no writes for some seconds, it is opened
	// again, at most once per recoverPause. If it fails again within recoverAgain, its files are
	// read anew.
	recoverEvery = time.Second
	recoverPause = 15 * time.Second
	recoverAgain = 5 * time.Minute
)

// watch opens the embedded server again if its writes keep failing although the disk has room.
// After a failed write, for instance on a full disk, a JetStream stream takes no other until then.
func (s *Store) watch() {
	tick := time.NewTicker(recoverEvery)
	defer tick.Stop()
	var opened, helped time.Time
	for {
		select {
		case <-s.closed:
			return
		case <-tick.C:
		}
		cause := s.pulse.Failing()
		if cause == nil || time.Since(opened) < recoverPause {
			continue
		}
		err := pulse.CheckRoom(s.server.Dir())
		if news := s.pulse.Tried(err); err != nil {
			if news {
				s.log.Error("the state takes no writes, because the disk is full or read-only: it continues when the disk "+
					"takes writes", "err", cause, "disk", err)
			}
			continue
		}
		s.log.Warn("the state takes no writes, although the disk does: Paramedic opens it again", "err", cause)
		meanwhile := func() error { return nil }
		// Not enough: damaged files stop the server at every write that meets them.
		if time.Since(helped) < recoverAgain {
			meanwhile = func() error { return errors.Join(s.server.ForgetIndex(stateStream), s.server.ForgetIndex(inputStream)) }
		}
		helped = time.Now()
		if err := s.server.Reopen(meanwhile); err != nil {
			s.log.Error("the state could not be opened again", "err", err)
		} else {
			s.reopened.Add(1)
		}
		s.pulse.Reset()
		opened = time.Now()
	}
}

// Reopened returns how often the embedded server was opened again because it took no writes.
func (s *Store) Reopened() uint64 { return s.reopened.Load() }
