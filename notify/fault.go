package notify

import (
	"errors"
	"time"
)

// A Refused is a failure that a retry cannot solve: the vendor refused the message, or the
// configuration is wrong. The next revision of the incident is tried even so.
type Refused struct{ Err error }

func (e *Refused) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Refused) Unwrap() error { return e.Err }

// A Later is a failure after which certainly nothing was shown: the vendor, or our own limiter,
// asked to wait. After any failure that is neither Refused nor Later, the message may have been
// shown.
type Later struct {
	After time.Duration
	Err   error
}

func (e *Later) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Later) Unwrap() error { return e.Err }

// Unreadable returns the failure of a secret that cannot be read. It may be rotated right now, so
// the delivery is tried again.
func Unreadable(err error) error { return &Later{Err: err} }

// The waits between attempts if the vendor names none.
const (
	firstWait = time.Second
	maxWait   = 2 * time.Minute
	// pageWait is the longest wait between attempts to page, because a late page is worth little.
	pageWait = 20 * time.Second
)

// retryAfter reports whether a failed delivery is worth a retry, and after which wait. No other
// code decides that; adapters mark what they know with Refused and Later.
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

// mayBeShown reports whether a failed delivery may have been shown.
func mayBeShown(err error) bool {
	var no *Refused
	var later *Later
	return err != nil && !errors.As(err, &no) && !errors.As(err, &later)
}
