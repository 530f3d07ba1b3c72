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

// Why an alert cannot be taken, as metrics and the API name it.
const (
	reasonMalformed   = "malformed"         // it is no object of the kind that Alertmanager sends
	reasonStatus      = "status"            // neither firing nor resolved
	reasonNoLabels    = "no_labels"         // labels are an alert's identity
	reasonLabelName   = "label_name"        // a label without a name
	reasonManyLabels  = "too_many_labels"   // more than maxLabels
	reasonLargeLabels = "labels_too_large"  // more than maxLabelBytes
	reasonControl     = "control_character" // in a label, where it would act on a terminal
	reasonTime        = "time"              // startsAt or a resolved alert's endsAt
	reasonFingerprint = "fingerprint"       // no hash, so no key
	ReasonTruncated   = "truncated"         // Alertmanager itself left it out
	// ReasonLargePayload is a whole payload that was refused: Alertmanager sends none of it again.
	ReasonLargePayload = "payload_too_large"
)

// A SetAside is an alert that cannot be taken, beside others of its payload that are.
type SetAside struct {
	Reason string // one word for metrics
	Text   string // what is wrong and, where there is one, what to do
	Alert  string // what can be shown of it: its name and a few labels
	Count  uint64 // alerts; more than one only where Alertmanager left them out and tells their number
}

// an untaken is the error of an alert that cannot be taken.
type untaken struct{ reason, text string }

func (u *untaken) Error() string { return u.text }

func aside(reason, format string, args ...any) error {
	return &untaken{reason, fmt.Sprintf(format, args...)}
}

// excerpt shows what an alert was: its name first, then labels in order of their names, all of it
// short and printable.
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

// An AsideJSON is one kind of alert that was set aside: the same alert again is counted, not listed
// again.
type AsideJSON struct {
	Reason   string    `json:"reason"`
	Text     string    `json:"text"`
	Receiver string    `json:"receiver"`
	Alert    string    `json:"alert"`
	Count    uint64    `json:"count"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
}

// Aside remembers the last alerts that were set aside, in memory and in bounds. The zero value is
// ready.
type Aside struct {
	mu    sync.Mutex
	total uint64
	last  []AsideJSON     // the newest last
	said  map[string]bool // reasons and receivers that were logged
}

const (
	asideKept = 50
	asideSaid = 256
)

// Add counts what a receiver's payload lost, and returns the alerts of which the log should tell:
// the first of each reason.
func (b *Aside) Add(at time.Time, receiver string, lost []SetAside) []SetAside {
	b.mu.Lock()
	defer b.mu.Unlock()
	var tell []SetAside
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
		if !b.said[key] && len(b.said) < asideSaid {
			if b.said == nil {
				b.said = map[string]bool{}
			}
			b.said[key] = true
			tell = append(tell, l)
		}
	}
	return tell
}

// Last lists the last alerts that were set aside, the newest first, and how many there were since
// the start.
func (b *Aside) Last() (list []AsideJSON, total uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	list = append([]AsideJSON{}, b.last...)
	slices.Reverse(list)
	return list, b.total
}
