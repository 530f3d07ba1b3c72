// Package strictyaml reads YAML files of people strictly, and reports all problems of a file at
// once, each with its file and line: unknown keys with a suggestion, repeated keys, missing keys,
// values of a wrong kind, more than one document, and text that is not YAML.
//
// A [Format] describes a file by a Go type. A [Document] has the lines of the file's keys, for the
// problems that only the caller can find. Every file of a person that Paramedic reads goes through
// this package, so that all of them are read by the same rules.
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

// A List is a list of words that may also be written as one word.
type List[T ~string] []T

// UnmarshalYAML reads one word or a list.
func (l *List[T]) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*l = nil
		if n.Value != "" {
			*l = List[T]{T(n.Value)}
		}
		return nil
	}
	var all []T
	if err := n.Decode(&all); err != nil {
		return err
	}
	*l = all
	return nil
}

// orWord marks the type for the check of a file's shape.
func (List[T]) orWord() {}

// Keys returns the keys of the first document of any file. It returns none if the document has no
// keys, or is not YAML.
func Keys(data []byte) []string {
	var doc yaml.Node
	if yaml.Unmarshal(data, &doc) != nil || len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return nil
	}
	var keys []string
	for i := 0; i < len(doc.Content[0].Content); i += 2 {
		keys = append(keys, doc.Content[0].Content[i].Value)
	}
	return keys
}

// position splits a message of the YAML package, "yaml: line 3: text" or "line 3: text", into the
// line and the text. The line is 0 if the message has none.
func position(message string) (line int, rest string) {
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
