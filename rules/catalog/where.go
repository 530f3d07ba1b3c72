package catalog

import (
	"maps"
	"regexp"
	"slices"

	"paramedic/internal/strictyaml"
	"paramedic/state"
)

// shared maps names to the conditions that a cause defines once.
type shared map[string]string

// where returns the sound conditions that the cause defines. A name must not hide a signal.
func (l *loader) where(cause state.Cause, defined map[string]strictyaml.Text) shared {
	out := shared{}
	for _, name := range slices.Sorted(maps.Keys(defined)) {
		t := defined[name]
		if !sharedName.MatchString(name) {
			l.bad(t.Line, "where of %s: name %q: use small letters and underscores", cause, name)
			continue
		}
		if l.known(name) {
			l.bad(t.Line, "where of %s: %q is a name that conditions know already; choose another", cause, name)
			continue
		}
		if _, err := l.env.Compile(t.Value); err != nil {
			l.bad(t.Line, "where of %s: %s: %v", cause, name, err)
			continue
		}
		out[name] = "(" + t.Value + ")"
	}
	return out
}

// known reports whether conditions read the name as a signal, a number, a text or a truth value.
func (l *loader) known(name string) bool {
	_, signal := l.cat.units[name]
	compiles := func(condition string) bool {
		_, err := l.env.Compile(condition)
		return err == nil
	}
	return signal || compiles(name) || compiles(name+" > 0.0") || compiles(name+` == ""`)
}

var (
	sharedName = regexp.MustCompile(`^[a-z][a-z_]*$`)
	// words matches the strings and the names of a condition. A name includes its fields.
	words = regexp.MustCompile(`"[^"]*"|[A-Za-z_][A-Za-z0-9_.]*`)
)

// expand replaces the names in a condition with what they stand for.
func (s shared) expand(condition string) string {
	return words.ReplaceAllStringFunc(condition, func(word string) string {
		if c, ok := s[word]; ok {
			return c
		}
		return word
	})
}
