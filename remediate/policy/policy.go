package policy

import (
	"slices"
)

// A Mode says how much is trusted to the bot.
type Mode string

// The modes, strictest first.
const (
	Observe Mode = "observe" // record what it would do
	Suggest Mode = "suggest" // also say it
	Approve Mode = "approve" // do it when a named person confirms
	Auto    Mode = "auto"    // do it
)

var modes = []Mode{Observe, Suggest, Approve, Auto}

// Writes says whether the mode can lead to a write.
func (m Mode) Writes() bool { return m == Approve || m == Auto }

// A Policy restricts first aid for the causes, actions and places that it names; an empty list
// names all. It can only tighten: of the general mode and limits and those of all policies that
// match, the strictest of each holds.
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

// StricterThan reports whether the mode trusts the bot less than another.
func (m Mode) StricterThan(other Mode) bool {
	return slices.Index(modes, m) < slices.Index(modes, other)
}
