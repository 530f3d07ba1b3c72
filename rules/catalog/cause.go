package catalog

import (
	"slices"

	"paramedic/rules/condition"
	"paramedic/state"
)

// IsIndependentOf reports whether the cause breaks single workers and is not a known consequence of
// root.
func (c *Cause) IsIndependentOf(root *Cause, symptoms []state.SymptomCount) bool {
	return c != root && c.Local() && !root.BringsAbout(c.ID, symptoms)
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
	Chain      []Link          `json:"chain,omitempty"` // the signals from the cause to its symptoms
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
	// LeavesOpen is another cause that this finding does not rule out, or nil. Treatments that make
	// it worse wait.
	LeavesOpen *OpenCause `json:"leaves_open,omitempty"`
	Else       *Else      `json:"else,omitempty"`

	Condition, Exception *condition.Expression
	// Replaces is the signal whose absence this evidence makes up for, or empty: with a value of
	// the signal it is skipped.
	Replaces string `json:"-"`
}

// An OpenCause is a cause that a finding leaves open, and the sign that would show it.
type OpenCause struct {
	Cause state.Cause `json:"cause"`
	Sign  string      `json:"sign"`
}

// Else is the finding for evidence that was evaluated and does not hold.
type Else struct {
	When   string  `json:"when,omitempty"` // an additional condition, evaluated on the whole scope
	Weight float64 `json:"weight"`
	Text   string  `json:"text"`

	Condition *condition.Expression
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

// OwnSymptom reports whether a symptom comes from the worker itself. A full KV cache may come from
// load, but a cache that is held while nothing runs comes from the worker.
func (c *Catalog) OwnSymptom(id state.Symptom, hints map[string]string) bool {
	return c.symptoms[id].Own || hints[HeldIdle] != "" || hints["idle_kv"] != ""
}

// Local reports whether the cause breaks single workers or nodes, not a pool.
func (c *Cause) Local() bool { return c.Scope == "pod" || c.Scope == "gpu" || c.Scope == "node" }

// BringsAbout reports whether the cause, in an incident with these symptoms, has the other among
// its consequences.
func (c *Cause) BringsAbout(other state.Cause, symptoms []state.SymptomCount) bool {
	return slices.Contains(c.LeadsTo, other) && (len(c.LeadsAfter) == 0 ||
		slices.ContainsFunc(symptoms, func(s state.SymptomCount) bool {
			return slices.Contains(c.LeadsAfter, s.Symptom)
		}))
}

// Disjoint reports whether both lists name workers and have none in common.
func Disjoint(a, b []string) bool {
	return len(a) > 0 && len(b) > 0 && !slices.ContainsFunc(b, func(p string) bool { return slices.Contains(a, p) })
}

// SymptomTitle returns the title of a symptom. A KV cache that is held while nothing runs has a
// title of its own: it causes the same alerts, but may be far from full.
func (c *Catalog) SymptomTitle(s state.SymptomCount) string {
	if s.Symptom == "kv_pressure" && s.Hints[HeldIdle] != "" {
		return "KV cache is held while nothing runs"
	}
	return c.symptoms[s.Symptom].Title
}

// DistinguishedBy returns the signals that are needed to distinguish the cause from another.
func (c *Cause) DistinguishedBy(other state.Cause) []string {
	for _, l := range c.LookAlikes {
		if l.Cause == other {
			return l.By
		}
	}
	return nil
}

// HeldIdle is the hint that a survey saw KV cache held while nothing runs, and no cache that is
// nearly full. The hint of alert rules is idle_kv.
const HeldIdle = "held_idle"

// Differs returns what would be seen instead if a look-alike were the cause; empty if it is none.
func (c *Cause) Differs(other state.Cause) string {
	for _, l := range c.LookAlikes {
		if l.Cause == other {
			return l.Differs
		}
	}
	return ""
}

// LooksLike reports whether one of two causes lists the other as a look-alike.
func (c *Cause) LooksLike(other *Cause) bool {
	names := func(a, b *Cause) bool {
		return slices.ContainsFunc(a.LookAlikes, func(l LookAlike) bool { return l.Cause == b.ID })
	}
	return names(c, other) || names(other, c)
}
