package catalog

import (
	"strconv"

	"paramedic/state"
)

// The weights of a cause have IDs, such as kv_exhaustion/evidence/3/else. Evidence is counted from
// 0 in the order of its file, so an ID holds until evidence is added before it.

// PriorTerm returns the ID of the cause's prior.
func (c *Cause) PriorTerm() string { return string(c.ID) + "/prior" }

// SymptomTerm returns the ID of the weight of a symptom.
func (c *Cause) SymptomTerm(s state.Symptom) string { return string(c.ID) + "/symptom:" + string(s) }

// EvidenceTerm returns the ID of the weight of the evidence with this index.
func (c *Cause) EvidenceTerm(i int) string { return string(c.ID) + "/evidence/" + strconv.Itoa(i) }

// ElseTerm returns the ID of the weight of the evidence with this index if it does not hold.
func (c *Cause) ElseTerm(i int) string { return c.EvidenceTerm(i) + "/else" }
