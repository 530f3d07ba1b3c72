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

// A Problem is an error in a catalogue file.
type Problem struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

// String formats the problem as compilers do: file:line: text.
func (p Problem) String() string { return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text) }

// A Catalog holds all knowledge of the rules. It is immutable and safe for concurrent use.
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
	units       map[string]string // signal → unit
	// signals whose values are words; a missing one means that no source reported a word
	spoken      map[string]bool
	engines     map[string]bool            // signals that engines export
	cut         []string                   // length signals that are biased when many clients abort
	past        map[string]map[string]bool // baseline, hour_ago, day_ago and week_ago → signals that have this value
	titles      map[string]string
	windows     map[string]time.Duration // the longest averaging window of a signal
	expressions int                      // number of distinct expressions in the causes
	numbers     map[string]int           // signal → index of its readings, which saves a look-up by name
	used        map[string]bool          // signals that some evidence reads
	commonness  map[state.Symptom]string // symptom → how many causes explain it, which limits its weight
}

// A Symptom is one meaning of an alert.
type Symptom struct {
	ID    state.Symptom `json:"id"`
	Title string        `json:"title"`
	// Serving symptoms are about requests and engines. They belong to the fleet's other serving
	// incidents even if they name no model.
	Serving bool `json:"serving"`
	// Own symptoms come from the worker itself or its node. A neighbour's failure adds load, but
	// causes none of them.
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

// A Cause is one problem that the rules can name.
type Cause struct {
	ID       state.Cause               `json:"id"`
	Title    string                    `json:"title"`
	Prior    float64                   `json:"prior"` // decibans
	Scope    string                    `json:"scope"` // kind of the broken entity: pod, pool, gpu or node
	Playbook string                    `json:"playbook"`
	What     string                    `json:"what"`
	Explains map[state.Symptom]float64 `json:"explains"`
	LeadsTo  []state.Cause             `json:"leads_to,omitempty"` // causes that are its consequences
	// LeadsAfter lists symptoms. If it is not empty, LeadsTo counts only after the incident has one
	// of them.
	LeadsAfter []state.Symptom `json:"leads_after,omitempty"`
	Evidence   []*Evidence     `json:"evidence"`
	// LookAlikes are causes that are easily confused with this one, and how they differ.
	LookAlikes []LookAlike `json:"look_alikes,omitempty"`
	Do         []string    `json:"do"`
	Avoid      []string    `json:"avoid,omitempty"`
	File       string      `json:"file"`
	Line       int         `json:"line"`
}

// A LookAlike is a cause that is easily confused with another.
type LookAlike struct {
	Cause   state.Cause `json:"cause"`
	Differs string      `json:"differs"`
	// By lists signals that are needed to distinguish the cause of this entry from the other.
	By []string `json:"by,omitempty"`
}

// Evidence is one observation for or against a cause.
type Evidence struct {
	When    string  `json:"when"`
	Unless  string  `json:"unless,omitempty"`
	Per     string  `json:"per,omitempty"` // pod, gpu, node; empty: the whole scope
	Of      string  `json:"of,omitempty"`  // any, minority, all
	Marks   bool    `json:"marks,omitempty"`
	Weight  float64 `json:"weight"`
	Why     string  `json:"why,omitempty"` // the reason for the weight and for the weight of Else
	Text    string  `json:"text"`
	Expects string  `json:"expects,omitempty"`
	Signal  string  `json:"signal"`           // the signal that the finding shows
	Needed  bool    `json:"needed,omitempty"` // if it cannot be evaluated, the cause is not named
	// Settles lists causes that cannot take over the verdict after this was seen. What was true
	// before a kill stays true, even if later evidence differs.
	Settles []state.Cause `json:"settles,omitempty"`
	Else    *Else         `json:"else,omitempty"`

	when, unless *expression
}

// Else is the finding for evidence that was evaluated and does not hold.
type Else struct {
	When   string  `json:"when,omitempty"` // an additional condition, evaluated on the whole scope
	Weight float64 `json:"weight"`
	Text   string  `json:"text"`

	when *expression
}

// Causes returns the causes, sorted by ID.
func (c *Catalog) Causes() []*Cause { return slices.Clone(c.causes) }

// Cause returns the cause with the given ID.
func (c *Catalog) Cause(id state.Cause) (*Cause, bool) {
	cause, ok := c.byID[id]
	return cause, ok
}

// Symptoms returns the symptoms, sorted by ID.
func (c *Catalog) Symptoms() []Symptom {
	out := make([]Symptom, 0, len(c.symptoms))
	for _, id := range slices.Sorted(maps.Keys(c.symptoms)) {
		out = append(out, c.symptoms[id])
	}
	return out
}

// Xids returns the driver errors, sorted by code.
func (c *Catalog) Xids() []Xid {
	out := make([]Xid, 0, len(c.xids))
	for _, code := range slices.Sorted(maps.Keys(c.xids)) {
		out = append(out, c.xids[code])
	}
	return out
}

// common returns for each symptom how many causes explain it. The more causes explain it, the less
// it weighs for one of them.
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

// explains reports whether one cause can explain all the symptoms. The scope "machine" restricts it
// to causes of GPUs and nodes.
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
