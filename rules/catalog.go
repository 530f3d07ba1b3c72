package rules

import (
	"embed"
	"fmt"
	"maps"
	"slices"
	"time"

	"paramedic/state"
)

//go:embed catalog/*.yaml
var embedded embed.FS

// A Problem is something wrong in a catalogue file.
type Problem struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

// String is the problem as compilers print theirs: file:line: text.
func (p Problem) String() string { return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text) }

// A Catalog is everything that the rules know. It is immutable and safe for concurrent use.
type Catalog struct {
	symptoms    map[state.Symptom]Symptom
	causes      []*Cause // by ID
	byID        map[state.Cause]*Cause
	alerts      map[string]alertRule
	metrics     []metricRule
	words       []wordRule
	xids        map[int]Xid
	recoveries  []*Recovery // the worst first
	pathologies map[string]*Pathology
	units       map[string]string          // signal → unit
	spoken      map[string]bool            // the signals that are words, which are there only where somebody says one
	engines     map[string]bool            // the signals that engines tell
	cut         []string                   // the signals that say too little where clients give up
	past        map[string]map[string]bool // baseline, hour_ago, day_ago and week_ago → signals of which it is read
	titles      map[string]string
	windows     map[string]time.Duration // the longest that a signal is averaged over
	expressions int                      // how many different ones the causes have
	numbers     map[string]int           // signal → its number, which finds its readings without a look-up by name
	used        map[string]bool          // signals that some evidence reads
	commonness  map[state.Symptom]string // why it speaks no louder for a cause: how many would explain it
}

// A Symptom is one thing that an alert can mean.
type Symptom struct {
	ID    state.Symptom `json:"id"`
	Title string        `json:"title"`
	// Serving symptoms are about requests and engines: they belong with the fleet's other troubles
	// even where they name no model.
	Serving bool `json:"serving"`
	// Own symptoms happen to a worker by itself or by its machine; a neighbour's failure brings it
	// load, and none of these.
	Own bool `json:"own"`
}

// An Xid is one of NVIDIA's driver errors.
type Xid struct {
	Code    int    `json:"code"`
	Name    string `json:"name"`
	Class   string `json:"class"` // hardware, application, notice
	Needs   string `json:"needs"` // the ID of a Recovery
	Meaning string `json:"meaning"`
	Action  string `json:"action"`
}

// A Cause is one trouble that the rules can name.
type Cause struct {
	ID       state.Cause               `json:"id"`
	Title    string                    `json:"title"`
	Prior    float64                   `json:"prior"` // decibans
	Scope    string                    `json:"scope"` // pod, pool, gpu or node: what is broken
	Playbook string                    `json:"playbook"`
	What     string                    `json:"what"`
	Explains map[state.Symptom]float64 `json:"explains"`
	LeadsTo  []state.Cause             `json:"leads_to,omitempty"` // causes that are its consequences
	// LeadsAfter are symptoms of which the incident must have one before LeadsTo counts; none: it
	// always does.
	LeadsAfter []state.Symptom `json:"leads_after,omitempty"`
	Evidence   []*Evidence     `json:"evidence"`
	// LookAlikes are causes that are taken for this one, with what tells them apart.
	LookAlikes []LookAlike `json:"look_alikes,omitempty"`
	Do         []string    `json:"do"`
	Avoid      []string    `json:"avoid,omitempty"`
	File       string      `json:"file"`
	Line       int         `json:"line"`
}

// A LookAlike is a cause that is easily taken for another.
type LookAlike struct {
	Cause   state.Cause `json:"cause"`
	Differs string      `json:"differs"`
	// By are signals without which the cause that has this entry cannot be told from that one.
	By []string `json:"by,omitempty"`
}

// Evidence is one observation that speaks for or against a cause.
type Evidence struct {
	When    string  `json:"when"`
	Unless  string  `json:"unless,omitempty"`
	Per     string  `json:"per,omitempty"` // pod, gpu, node; empty: the whole scope
	Of      string  `json:"of,omitempty"`  // any, minority, all
	Marks   bool    `json:"marks,omitempty"`
	Weight  float64 `json:"weight"`
	Why     string  `json:"why,omitempty"` // why it weighs so much and no more, and so much where it is not there
	Text    string  `json:"text"`
	Expects string  `json:"expects,omitempty"`
	Signal  string  `json:"signal"`           // the signal that the finding shows
	Needed  bool    `json:"needed,omitempty"` // where it could not be asked the cause is not named
	// Settles are the causes that take the verdict over no more once this was seen: what was so
	// before a kill stays so, whatever is seen after it.
	Settles []state.Cause `json:"settles,omitempty"`
	Else    *Else         `json:"else,omitempty"`

	when, unless *expression
}

// Else is what it means that evidence was looked for and is not there.
type Else struct {
	When   string  `json:"when,omitempty"` // must also hold; it is asked of the whole scope
	Weight float64 `json:"weight"`
	Text   string  `json:"text"`

	when *expression
}

// Causes lists the causes by ID.
func (c *Catalog) Causes() []*Cause { return slices.Clone(c.causes) }

// Cause is one cause by its ID.
func (c *Catalog) Cause(id state.Cause) (*Cause, bool) {
	cause, ok := c.byID[id]
	return cause, ok
}

// Symptoms lists the symptoms by ID.
func (c *Catalog) Symptoms() []Symptom {
	out := make([]Symptom, 0, len(c.symptoms))
	for _, id := range slices.Sorted(maps.Keys(c.symptoms)) {
		out = append(out, c.symptoms[id])
	}
	return out
}

// Xids lists the driver errors by code.
func (c *Catalog) Xids() []Xid {
	out := make([]Xid, 0, len(c.xids))
	for _, code := range slices.Sorted(maps.Keys(c.xids)) {
		out = append(out, c.xids[code])
	}
	return out
}

// common says of each symptom how many causes explain it, which is why it cannot speak any louder
// for one of them.
func (c *Catalog) common() map[state.Symptom]string {
	counts := map[state.Symptom]int{}
	for _, cause := range c.causes {
		for s, d := range cause.Explains {
			if d > 0 {
				counts[s]++
			}
		}
	}
	out := make(map[state.Symptom]string, len(counts))
	for s, n := range counts {
		out[s] = fmt.Sprintf("%d of %d causes would bring it", n, len(c.causes))
	}
	return out
}

// explains says whether one cause can explain both symptoms.
func (c *Catalog) explains(scope string, symptoms ...state.Symptom) bool {
	for _, cause := range c.causes {
		if scope == "machine" && cause.Scope != "gpu" && cause.Scope != "node" {
			continue
		}
		if cause.explainsAll(symptoms) {
			return true
		}
	}
	return false
}

func (c *Cause) explainsAll(symptoms []state.Symptom) bool {
	for _, s := range symptoms {
		if s == state.Unclassified {
			continue
		}
		if _, ok := c.Explains[s]; !ok {
			return false
		}
	}
	return true
}
