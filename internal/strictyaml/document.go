package strictyaml

import (
	"strconv"

	"go.yaml.in/yaml/v3"
)

// A Document is the content of a file as it is written. Paths name keys from the top of the file;
// the entries of lists are numbers from 0. A list has the same entries as the value that was read:
// an entry of a wrong kind is in neither.
type Document struct {
	// Broken reports that the file is not YAML from some line on, so that only a part was read.
	Broken bool

	root *yaml.Node
}

// Empty reports whether the file has neither keys nor values.
func (d Document) Empty() bool { return d.root == nil || scalar(d.root, "!!null") }

// Line returns the line of the deepest part of the path that the file has, or 0.
func (d Document) Line(path ...string) int {
	line, _ := d.find(path)
	return line
}

// Value returns the single value at a path as it is written. It returns "" if there is none.
func (d Document) Value(path ...string) string {
	if _, n := d.find(path); n != nil && n.Kind == yaml.ScalarNode {
		return n.Value
	}
	return ""
}

// find returns the line of the deepest part of the path that the file has, and the node there if
// that is the whole path.
func (d Document) find(path []string) (line int, at *yaml.Node) {
	at = d.root
	for _, part := range path {
		if at != nil && at.Kind == yaml.AliasNode {
			at = at.Alias
		}
		next := (*yaml.Node)(nil)
		switch {
		case at == nil:
			return line, nil
		case at.Kind == yaml.MappingNode:
			for i := 0; i+1 < len(at.Content); i += 2 {
				if at.Content[i].Value == part {
					next, line = at.Content[i+1], at.Content[i].Line
				}
			}
		case at.Kind == yaml.SequenceNode:
			if n, err := strconv.Atoi(part); err == nil && n >= 0 && n < len(at.Content) {
				next, line = at.Content[n], at.Content[n].Line
			}
		}
		at = next
	}
	return line, at
}
