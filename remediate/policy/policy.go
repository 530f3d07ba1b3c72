package policy

import (
	"slices"
)

// A Mode is the most that the bot may do by itself.
type Mode string

// The modes, strictest first.
const (
	Observe Mode = "observe" // record the plan
	Suggest Mode = "suggest" // also show it
	Approve Mode = "approve" // write after a named person confirms
	Auto    Mode = "auto"    // write
)

var modes = []Mode{Observe, Suggest, Approve, Auto}

// Writes reports whether the mode can lead to a write.
func (m Mode) Writes() bool { return m == Approve || m == Auto }

// A Policy restricts first aid for the causes, actions and places that it names. An empty list
// names all. It can only tighten: the strictest of the general settings and of all matching
// policies holds.
type Policy struct {
	Name       string         `yaml:"name"`
	Causes     []string       `yaml:"causes"`
	Actions    []string       `yaml:"actions"`
	Clusters   []string       `yaml:"clusters"`
	Namespaces []string       `yaml:"namespaces"`
	Pools      []string       `yaml:"pools"`
	Mode       Mode           `yaml:"mode"`
	Approvers  []string       `yaml:"approvers"` // IDs of Slack users or names of API tokens; either stands for the person
	Limits     Limits         `yaml:"limits"`
	Freeze     []FreezeWindow `yaml:"freeze"`
}

// StricterThan reports whether the mode allows less than another.
func (m Mode) StricterThan(other Mode) bool {
	return slices.Index(modes, m) < slices.Index(modes, other)
}
