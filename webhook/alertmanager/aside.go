package alertmanager

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"paramedic/internal/text"
)

// The reasons why an alert cannot be taken, as metrics and the API name them.
const (
	reasonMalformed   = "malformed"         // not an alert object
	reasonStatus      = "status"            // neither firing nor resolved
	reasonNoLabels    = "no_labels"         // labels are an alert's identity
	reasonLabelName   = "label_name"        // an empty label name
	reasonManyLabels  = "too_many_labels"   // more than maxLabels
	reasonLargeLabels = "labels_too_large"  // more than maxLabelBytes
	reasonControl     = "control_character" // in a label, where it would act on a terminal
	reasonTime        = "time"              // startsAt or a resolved alert's endsAt
	reasonFingerprint = "fingerprint"       // not a hash, so it is no key
	ReasonTruncated   = "truncated"         // Alertmanager left it out
	// ReasonLargePayload is a whole payload that was refused. Alertmanager sends none of it again.
	ReasonLargePayload = "payload_too_large"
)

// A SetAside is an alert that cannot be taken, while others of its payload are.
type SetAside struct {
	Reason string // a reason constant
	Text   string // the fault and, if there is one, the remedy
	Alert  string // an excerpt: the name and a few labels; empty if it has none, or if Alertmanager left it out
	Count  uint64 // number of alerts; more than 1 only for ReasonTruncated and ReasonLargePayload
}

// String returns the alert, if it can be named, and the fault.
func (s SetAside) String() string {
	if s.Alert == "" {
		return s.Text
	}
	return s.Alert + ": " + s.Text
}

// A setAsideError reports why an alert cannot be taken.
type setAsideError struct{ reason, text string }

func (u *setAsideError) Error() string { return u.text }

func reject(reason, format string, args ...any) error {
	return &setAsideError{reason, fmt.Sprintf(format, args...)}
}

// excerpt returns a short, printable form of an alert: its name, then labels in order of their
// names.
func excerpt(labels map[string]string) string {
	names := slices.SortedFunc(maps.Keys(labels), func(a, b string) int {
		return cmp.Or(boolFirst(a == "alertname", b == "alertname"), strings.Compare(a, b))
	})
	var parts []string
	for _, name := range names[:min(len(names), 6)] {
		parts = append(parts, fmt.Sprintf("%s=%q", text.Line(name, 40), text.Line(labels[name], 60)))
	}
	if more := len(names) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, " ")
}

func boolFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// An AsideJSON counts equal alerts that were set aside.
type AsideJSON struct {
	Reason   string    `json:"reason"`
	Text     string    `json:"text"`
	Receiver string    `json:"receiver"`
	Alert    string    `json:"alert"`
	Count    uint64    `json:"count"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
}

// An Aside remembers the last alerts that were set aside, at most asideKept. The zero value is
// ready.
type Aside struct {
	mu     sync.Mutex
	total  uint64
	last   []AsideJSON     // the newest last
	logged map[string]bool // reasons and receivers that were logged
}

const (
	asideKept   = 50
	asideLogged = 256
)

// Add counts a receiver's alerts that were set aside. It returns those to log: the first of each
// reason.
func (b *Aside) Add(at time.Time, receiver string, lost []SetAside) []SetAside {
	b.mu.Lock()
	defer b.mu.Unlock()
	var first []SetAside
	for _, l := range lost {
		b.total += l.Count
		i := slices.IndexFunc(b.last,
			func(k AsideJSON) bool { return k.Reason == l.Reason && k.Receiver == receiver && k.Alert == l.Alert })
		k := AsideJSON{Reason: l.Reason, Receiver: receiver, Alert: l.Alert, First: at}
		if i >= 0 {
			k = b.last[i]
			b.last = slices.Delete(b.last, i, i+1)
		}
		k.Text, k.Last = l.Text, at
		k.Count += l.Count
		if b.last = append(b.last, k); len(b.last) > asideKept {
			b.last = slices.Delete(b.last, 0, 1)
		}
		key := l.Reason + "\x00" + receiver
		if !b.logged[key] && len(b.logged) < asideLogged {
			if b.logged == nil {
				b.logged = map[string]bool{}
			}
			b.logged[key] = true
			first = append(first, l)
		}
	}
	return first
}

// Last returns the last alerts that were set aside, the newest first, and their number since the
// start.
func (b *Aside) Last() (list []AsideJSON, total uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	list = append([]AsideJSON{}, b.last...)
	slices.Reverse(list)
	return list, b.total
}
