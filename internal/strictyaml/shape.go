package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"paramedic/internal/text"
)

// A Format is a file format: the Go type of the file and the names of its entries.
type Format[T any] struct {
	// Kinds maps the types of entries to the names that problems use. It must name T itself.
	Kinds map[reflect.Type]string
}

// Read reads one file, as far as it is valid, and returns all problems. The keys, their types and
// the required ones come from the tags yaml and jsonschema of T and of the types below it. A
// problem that names a missing key quotes its jsonschema_description.
func (f Format[T]) Read(file string, data []byte) (T, []Problem) {
	var out T
	s := shape{file: file, kinds: f.Kinds, seen: map[*yaml.Node]bool{}}
	docs, err := documents(data)
	if err != nil {
		end, line := sound(data)
		s.cut = true
		s.problems = append(s.problems, Problem{File: file, Line: line, Text: fmt.Sprintf(
			"this is not YAML: %s; check the indentation here and above. The rest of this file was not read, so other files may "+
				"seem to name things that do not exist", phrase(err))})
		docs, _ = documents(data[:end]) // sound has parsed this part already
	}
	if len(docs) == 0 {
		return out, s.problems
	}
	for _, more := range docs[1:] {
		s.bad(more, "only the first document of a file is read: move the lines after --- to another file")
	}
	t := reflect.TypeFor[T]()
	s.value(docs[0].Content[0], t, f.Kinds[t])
	if err := docs[0].Decode(&out); err != nil && len(s.problems) == 0 {
		s.problems = append(s.problems, Problem{File: file, Line: 1, Text: phrase(err)})
	}
	return out, s.problems
}

// A shape checks a file against a format: known keys, required keys, numbers and lists. The decoder
// reports Go types in its errors and stops at the first bad value, so its errors are not used.
type shape struct {
	file     string
	kinds    map[reflect.Type]string
	cut      bool // the file is unreadable after some line, so missing keys are not reported
	seen     map[*yaml.Node]bool
	problems []Problem
}

func (s *shape) bad(n *yaml.Node, format string, args ...any) {
	s.problems = append(s.problems, Problem{File: s.file, Line: n.Line, Text: fmt.Sprintf(format, args...)})
}

// value checks the value of a key.
func (s *shape) value(n *yaml.Node, t reflect.Type, key string) {
	if n.Kind == yaml.AliasNode {
		if n = n.Alias; s.seen[n] {
			return
		}
		s.seen[n] = true
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if scalar(n, "!!null") {
		return // as if left out; the entry around it reports required keys
	}
	wants := func(what string, kind yaml.Kind) bool {
		if n.Kind == kind {
			return true
		}
		s.bad(n, "%s must be %s, not %s", key, what, described(n))
		return false
	}
	switch {
	case t == reflect.TypeFor[Text]() || t.Kind() == reflect.String:
		wants("text", yaml.ScalarNode)
	case t.Kind() == reflect.Struct:
		if wants("keys with values", yaml.MappingNode) {
			s.entry(n, t)
		}
	case t.Kind() == reflect.Slice:
		if wants("a list", yaml.SequenceNode) {
			s.list(n, t.Elem(), key)
		}
	case t.Kind() == reflect.Map:
		if wants("keys with values", yaml.MappingNode) {
			for i := 0; i+1 < len(n.Content); i += 2 {
				s.value(n.Content[i+1], t.Elem(), n.Content[i].Value)
			}
			s.twice(n)
		}
	case t.Kind() == reflect.Bool:
		if !scalar(n, "!!bool") {
			s.bad(n, "%s must be true or false, not %s", key, described(n))
		}
	default:
		if !scalar(n, "!!int") && !(scalar(n, "!!float") && t.Kind() == reflect.Float64) {
			s.bad(n, "%s must be a number, not %s", key, described(n))
		}
	}
}

// list checks the entries of a list.
func (s *shape) list(n *yaml.Node, t reflect.Type, key string) {
	for _, e := range n.Content {
		if scalar(e, "!!null") {
			s.bad(e, "an empty entry in %s: fill it or remove it", key)
		}
		s.value(e, t, "an entry of "+key)
	}
}

// scalar reports whether a node is a single value with the tag.
func scalar(n *yaml.Node, tag string) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == tag }

// described describes the value that was found.
func described(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys with values"
	case yaml.SequenceNode:
		return "a list"
	}
	return fmt.Sprintf("%q", n.Value)
}

// entry checks the keys of one entry.
func (s *shape) entry(n *yaml.Node, t reflect.Type) {
	kind := s.kinds[t]
	if kind == "" {
		kind = "an entry here"
	}
	fields, names := map[string]reflect.StructField{}, []string{}
	for f := range t.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); name != "" {
			fields[name], names = f, append(names, name)
		}
	}
	filled := s.keys(n, kind, fields, names)
	s.twice(n)
	if s.cut {
		return
	}
	for _, name := range names {
		if f := fields[name]; slices.Contains(strings.Split(f.Tag.Get("jsonschema"), ","), "required") &&
			!filled[name] {
			s.bad(n, "%s needs %s: %s", kind, name, f.Tag.Get("jsonschema_description"))
		}
	}
}

// keys checks the present keys and their values, and returns the keys that have a value.
func (s *shape) keys(n *yaml.Node, kind string, fields map[string]reflect.StructField, names []string) map[string]bool {
	filled := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.ShortTag() == "!!merge" {
			if v.Kind == yaml.AliasNode {
				v = v.Alias
			}
			if v.Kind == yaml.MappingNode {
				for name := range s.keys(v, kind, fields, names) {
					filled[name] = true
				}
			}
			continue
		}
		f, ok := fields[k.Value]
		if !ok {
			s.bad(k, "%s has no key %s; %s", kind, k.Value, text.DidYouMean(k.Value, names))
			continue
		}
		filled[k.Value] = (v.Kind != yaml.ScalarNode || strings.TrimSpace(v.Value) != "" && v.ShortTag() != "!!null") &&
			(v.Kind != yaml.SequenceNode || len(v.Content) > 0)
		s.value(v, f.Type, k.Value)
	}
	return filled
}

// twice reports keys that occur twice in one entry, and removes the second. The decoder would
// reject the whole entry and hide its other problems.
func (s *shape) twice(n *yaml.Node) {
	lines := map[string]int{}
	var once []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if first, ok := lines[k.Value]; ok {
			s.bad(k, "%s occurs twice, first in line %d: remove one", k.Value, first)
			continue
		}
		lines[k.Value] = k.Line
		once = append(once, k, n.Content[i+1])
	}
	n.Content = once
}

// documents returns the non-empty documents of a file.
func documents(data []byte) ([]*yaml.Node, error) {
	var out []*yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		doc := &yaml.Node{}
		switch err := dec.Decode(doc); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, err
		case len(doc.Content) > 0:
			out = append(out, doc)
		}
	}
}

// maxCuts is the number of lines from the end of a file in which an error is located.
const maxCuts = 1000

// sound returns the length of the longest valid beginning of a file, and the line after it. The
// parser's own line is where the unfinished value began.
func sound(data []byte) (end, line int) {
	lines := bytes.SplitAfter(data, []byte("\n"))
	end = len(data)
	for i := len(lines); i > max(0, len(lines)-maxCuts); i-- {
		end -= len(lines[i-1])
		if _, err := documents(data[:end]); err == nil {
			return end, i
		}
	}
	return 0, 1
}

// phrase returns the parser's message as one phrase, without its position.
func phrase(err error) string {
	_, message := Position(text.Phrase(err.Error()))
	return message
}
