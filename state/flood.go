package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Flood is an excess of first messages: more incidents wait for theirs on a channel than it takes
// in a minute. One summary names them, until the channel has caught up. Each of them still gets its
// own message when its turn comes.
type Flood struct {
	Key   string    `json:"key"` // the summary's deduplication key: FloodPrefix and a hash
	Since time.Time `json:"since"`
	At    time.Time `json:"at"` // of the newest count
	FloodCount
	// Rev counts the changes of the flood. Told has the one that the summary shows. The summary's
	// status is in its Ref, as for an incident's page.
	Rev  uint64 `json:"rev"`
	Told Told   `json:"told,omitzero"`
}

// FloodPrefix begins the deduplication key of every summary.
const FloodPrefix = "paramedic-flood-"

// IsFlood reports whether a deduplication key is that of a summary.
func IsFlood(key string) bool { return strings.HasPrefix(key, FloodPrefix) }

// A FloodCount counts the incidents that wait for their first message on a channel. A count of none
// ends the flood. As an input it has no cluster, because it is about all of them.
type FloodCount struct {
	Channel  Channel      `json:"channel"`
	Waiting  int          `json:"waiting"`
	Severity Severity     `json:"severity,omitempty"` // the highest
	Causes   []CauseCount `json:"causes,omitempty"`   // the most frequent first
}

// A CauseCount is the number of incidents of one cause.
type CauseCount struct {
	Cause Cause `json:"cause"`
	N     int   `json:"n"`
}

// Over reports whether the flood has ended.
func (c FloodCount) Over() bool { return c.Waiting == 0 }

// SortCauses orders counts by number, then by cause.
func SortCauses(counts []CauseCount) {
	slices.SortFunc(counts, func(x, y CauseCount) int {
		return cmp.Or(cmp.Compare(y.N, x.N), strings.Compare(string(x.Cause), string(y.Cause)))
	})
}

// Text names the incidents: "400 more incidents: 312 kv_exhaustion, 88 gpu_xid".
func (c FloodCount) Text() string {
	parts := make([]string, 0, len(c.Causes))
	for _, one := range c.Causes {
		parts = append(parts, fmt.Sprintf("%d %s", one.N, one.Cause))
	}
	return fmt.Sprintf("%d more incidents: %s", c.Waiting, strings.Join(parts, ", "))
}
