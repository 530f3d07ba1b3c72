package catalog

import (
	"slices"
	"strings"

	"paramedic/internal/strictyaml"
	"paramedic/state"
)

// A Link is a signal that moves if the cause is at work. A verdict shows the first of its signals
// that the evidence supports.
type Link struct {
	Role    state.LinkRole `json:"role"`
	Signals []string       `json:"signals"`
	Moves   string         `json:"moves"` // MovesUp, MovesDown or MovesAny
}

// The directions of a link.
const (
	MovesUp   = "up"
	MovesDown = "down"
	MovesAny  = "changed" // the only one of a word
)

type linkYAML struct {
	Role   strictyaml.Text   `yaml:"role" jsonschema:"required,enum=cause,enum=mechanism,enum=symptom" jsonschema_description:"The part that the signal has. Causes come first, then mechanisms, then symptoms."`
	Signal strictyaml.Text   `yaml:"signal" jsonschema:"required" jsonschema_description:"The signal that moves."`
	Or     []strictyaml.Text `yaml:"or" jsonschema_description:"Signals to use instead if it did not move or was not measured. The first that moved is shown."`
	Moves  strictyaml.Text   `yaml:"moves" jsonschema:"required,enum=up,enum=down,enum=changed" jsonschema_description:"The direction. A word can only have changed."`
}

// chain returns the valid links, and reports the others.
func (l *loader) chain(ys []linkYAML) []Link {
	var out []Link
	last := -1
	for i, y := range ys {
		role := state.LinkRole(y.Role.Value)
		line := max(y.Role.Line, y.Signal.Line)
		switch rank := role.Rank(); {
		case y.Role.Value == "" || y.Signal.Value == "" || y.Moves.Value == "":
			continue // decode has reported it
		case rank < 0:
			l.bad(y.Role.Line, "role %q is none of cause, mechanism, symptom", role)
			continue
		case i == 0 && role != state.LinkCause:
			l.bad(line, "a chain begins with its cause, not with a %s", role)
		case rank < last:
			l.bad(line, "a %s stands after a %s: write causes first, then mechanisms, then symptoms", role, state.LinkRoles[last])
		default:
			last = rank
		}
		signals := l.signals(append([]strictyaml.Text{y.Signal}, y.Or...))
		if !slices.Contains([]string{MovesUp, MovesDown, MovesAny}, y.Moves.Value) {
			l.bad(y.Moves.Line, "moves %q is none of up, down, changed", y.Moves.Value)
			continue
		}
		if words := slices.DeleteFunc(slices.Clone(signals), func(id string) bool { return !l.cat.textSignals[id] }); len(words) > 0 &&
			y.Moves.Value != MovesAny {
			l.bad(y.Moves.Line, "a word cannot go %s (%s): write moves: changed", y.Moves.Value, strings.Join(words, ", "))
			continue
		}
		if len(signals) > 0 {
			out = append(out, Link{Role: role, Signals: signals, Moves: y.Moves.Value})
		}
	}
	return out
}
