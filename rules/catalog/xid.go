package catalog

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"paramedic/rules/condition"
	"paramedic/state"
)

// A Recovery is what a GPU needs after an Xid.
type Recovery struct {
	ID     string   `json:"id"`
	Title  string   `json:"title"`            // the name of such an Xid in a verdict's title
	Driver string   `json:"driver,omitempty"` // the driver's name for it, in the text of Xid 154
	Code   int      `json:"code"`             // DCGM's GPU_RECOVERY_ACTION; -1: the driver has no such action
	Action string   `json:"action"`
	Do     []string `json:"do,omitempty"`
	Avoid  []string `json:"avoid,omitempty"`

	Rank int // by the effort of the recovery; 0 is the largest
}

// classRank orders the classes of Xids: the lowest decides. A code that is not in the table may be
// of any class.
var classRank = map[string]int{"hardware": 0, "application": 1, "": 2, "notice": 3}

// Recovery returns the recovery with the ID; nil for an unknown ID.
func (c *Catalog) Recovery(id string) *Recovery {
	for _, r := range c.recoveries {
		if r.ID == id {
			return r
		}
	}
	return nil
}

func (c *Catalog) recoveryIDs() []string {
	out := make([]string, len(c.recoveries))
	for i, r := range c.recoveries {
		out[i] = r.ID
	}
	return out
}

// Worst compares two codes by class, then by the effort of the recovery.
func (c *Catalog) Worst(a, b int) int {
	x, y := c.xids[a], c.xids[b]
	rank := func(x Xid) int {
		if r := c.Recovery(x.Needs); r != nil {
			return r.Rank
		}
		return len(c.recoveries)
	}
	return cmp.Or(cmp.Compare(classRank[x.Class], classRank[y.Class]), cmp.Compare(rank(x), rank(y)), cmp.Compare(a, b))
}

var recoveryWords = regexp.MustCompile(`(?i)recovery action changed.{0,40}\bto\b[^(]{0,16}\(([^)]{1,40})\)`)

// AskedFor returns the recovery in a text of Xid 154: "GPU recovery action changed from 0x0 (None)
// to 0x1 (GPU Reset Required)". Unknown words are ignored. So is the number, which has several
// meanings in different drivers. The exporter's own text for the code, "GPU Recovery Action
// Changed", has no recovery.
func (c *Catalog) AskedFor(message string) *Recovery {
	words := strings.TrimSpace(message)
	if m := recoveryWords.FindStringSubmatch(message); m != nil {
		words = strings.TrimSpace(m[1])
	}
	for _, r := range c.recoveries {
		if r.Driver != "" && strings.EqualFold(words, r.Driver) {
			return r
		}
	}
	return nil
}

// XIDHint returns the hint key for an alert's Xid. The hints of all alerts are merged, and a common
// key would keep only the first.
func XIDHint(code string, e state.Entity) string {
	return "xid:" + code + "@" + e.Node + "/" + e.GPU
}

var xidHintForm = regexp.MustCompile(`^xid:([0-9]{1,3})@(.*)$`)

// AlertedXids parses the codes from the hints, the worst first.
func (c *Catalog) AlertedXids(hints map[string]string) []condition.AlertedXid {
	var out []condition.AlertedXid
	for key := range hints {
		if m := xidHintForm.FindStringSubmatch(key); m != nil {
			code, _ := strconv.Atoi(m[1]) // the pattern matches only digits
			out = append(out, condition.AlertedXid{Code: code, GPU: m[2]})
		}
	}
	slices.SortFunc(out, func(a, b condition.AlertedXid) int {
		return cmp.Or(c.Worst(a.Code, b.Code), cmp.Compare(a.GPU, b.GPU))
	})
	return out
}

// Placeholder lines of do and avoid, which are replaced by the advice for the Xid.
const (
	XIDDo    = "{xid_do}"
	XIDAvoid = "{xid_avoid}"
	XIDNote  = "{xid_note}"
)
