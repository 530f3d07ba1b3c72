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

// A Fixable is a refusal that ends once an operator does something: a new token, a permission,
// another channel. Certainly nothing was shown. It is tried again for as long as the incident is
// stored.
type Fixable struct{ Err error }

func (e *Fixable) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Fixable) Unwrap() error { return e.Err }

// A Later is a failure after which certainly nothing was shown: the vendor, or our own limiter,
// asked to wait. After any failure that is none of these three, the message may have been shown.
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
	// fixWait is the longest wait until an operator's correction takes effect, and pageFixWait that
	// for pages.
	fixWait     = 10 * time.Minute
	pageFixWait = time.Minute
)

// retryAfter reports whether a failed delivery is worth a retry, and after which wait. No other
// code decides that; adapters mark what they know with Refused, Fixable and Later.
func retryAfter(err error, attempts int, page bool) (time.Duration, bool) {
	longest := maxWait
	if page {
		longest = pageWait
	}
	var no *Refused
	if errors.As(err, &no) {
		return 0, false
	}
	var later *Later
	if errors.As(err, &later) && later.After > 0 {
		return later.After, true
	}
	var fixable *Fixable
	if errors.As(err, &fixable) {
		if longest = fixWait; page {
			longest = pageFixWait
		}
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
	var fixable *Fixable
	var later *Later
	return err != nil && !errors.As(err, &no) && !errors.As(err, &fixable) && !errors.As(err, &later)
}
