package state

import (
	"slices"
	"time"
)

// A LinkRole is the part that a signal has in a verdict.
type LinkRole string

// The roles.
const (
	LinkCause     LinkRole = "cause"
	LinkMechanism LinkRole = "mechanism" // how the cause brings the symptoms about
	LinkSymptom   LinkRole = "symptom"   // what users or their tools notice
)

// LinkRoles lists the roles in the order of a chain.
var LinkRoles = []LinkRole{LinkCause, LinkMechanism, LinkSymptom}

// Rank returns the place of the role in a chain, or -1 if there is no such role.
func (r LinkRole) Rank() int { return slices.Index(LinkRoles, r) }

// ChainTitle is the heading of a chain for people.
const ChainTitle = "From cause to symptom"

// A Link is one signal in the chain from a cause to its symptoms. It is about a pod, a node or a
// GPU, or about the pool if all three are empty. Value has no meaning if the signal is a word.
type Link struct {
	Role     LinkRole  `json:"role"`
	Signal   string    `json:"signal"`
	Pod      string    `json:"pod,omitempty"`
	Node     string    `json:"node,omitempty"`
	GPU      string    `json:"gpu,omitempty"`
	Value    float64   `json:"value"`
	Baseline *float64  `json:"baseline,omitempty"` // the usual value
	Unit     string    `json:"unit,omitempty"`
	At       time.Time `json:"at,omitzero"` // when the signal left its usual course; zero: unknown
	Text     string    `json:"text"`
}
