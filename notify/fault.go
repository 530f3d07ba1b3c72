package notify

import (
	"errors"
	"time"
)

// A Refused is a failure that trying again cannot mend: the other side understood and said no, or
// the configuration is wrong. The next revision of the incident is tried again all the same.
type Refused struct{ Err error }

func (e *Refused) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *Refused) Unwrap() error { return e.Err }

// A Later is a failure of which it is certain that nothing was shown: the other side, or our own
// limiter, asked us to wait. Any other failure that is not a Refused leaves open whether the
// message got through.
type Later struct {
	After time.Duration
	Err   error
}

func (e *Later) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *Later) Unwrap() error { return e.Err }

// The waits between attempts, where the other side names none.
const (
	firstWait = time.Second
	maxWait   = 2 * time.Minute
	// pageWait is the longest wait between attempts to page: a page that is late is worth little.
	pageWait = 20 * time.Second
)

// retryAfter says whether a failed delivery is worth trying again, and how long to wait. It is the
// only judge of that; adapters mark what they know with Refused and Later.
func retryAfter(err error, attempts int, longest time.Duration) (time.Duration, bool) {
	var no *Refused
	if errors.As(err, &no) {
		return 0, false
	}
	var later *Later
	if errors.As(err, &later) && later.After > 0 {
		return later.After, true
	}
	wait := firstWait
	for range min(attempts, 16) {
		wait *= 2
	}
	return min(wait, longest), true
}

// doubtful says whether a failed delivery may have got through all the same.
func doubtful(err error) bool {
	var no *Refused
	var later *Later
	return err != nil && !errors.As(err, &no) && !errors.As(err, &later)
}
