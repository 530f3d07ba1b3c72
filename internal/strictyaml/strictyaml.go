// Package strictyaml reads YAML files of people strictly, and reports all problems of a file at
// once, each with its file and line.
//
// A Format checks a whole file against a Go type: unknown keys with a suggestion, repeated keys,
// missing keys, values of a wrong kind, more than one document, and text that is not YAML. Formats
// with their own words for problems use the parts: Problem, Text and Position.
package strictyaml

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A Problem is one mistake in a file. The line is 0 if it is unknown.
type Problem struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
	Text string `json:"text"`
}

// String formats the problem as compilers do: file:line: text.
func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.Text
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
}

// A Text is a string with its line, for problems.
type Text struct {
	Value string
	Line  int
}

// UnmarshalYAML reads a scalar of any type as text, exactly as it is written.
func (t *Text) UnmarshalYAML(n *yaml.Node) error {
	t.Line = n.Line
	if n.Kind != yaml.ScalarNode {
		return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: must be text", n.Line)}}
	}
	t.Value = n.Value
	return nil
}

// Position splits a message of the YAML package, "yaml: line 3: text" or "line 3: text", into the
// line and the text. The line is 0 if the message has none.
func Position(message string) (line int, rest string) {
	rest = strings.TrimPrefix(message, "yaml: ")
	if after, ok := strings.CutPrefix(rest, "line "); ok {
		if number, tail, ok := strings.Cut(after, ": "); ok {
			if n, err := strconv.Atoi(number); err == nil {
				return n, tail
			}
		}
	}
	return 0, rest
}
