package strictyaml

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"paramedic/internal/text"
)

// A Format is a file format: the Go type of the file and the names of its entries.
type Format[T any] struct {
	// Kinds maps the types of entries to the names that problems use. It must name T itself. In an
	// entry of another type, problems use the path of its key: clusters[0].
	Kinds map[reflect.Type]string
	// Secret marks files that hold secrets. Problems in them quote nothing of the file.
	Secret bool
}

// Read reads one file, as far as it is valid, and returns all problems. The keys, their types and
// the required ones come from the tags yaml and jsonschema of T and of the types below it. A
// problem that names a missing key quotes its jsonschema_description.
func (f Format[T]) Read(file string, data []byte) (T, []Problem) {
	var out T
	_, problems := f.ReadInto(&out, file, data)
	return out, problems
}

// ReadInto is Read for a value that holds the defaults of missing keys. It also returns the
// document, for problems that the caller finds.
func (f Format[T]) ReadInto(out *T, file string, data []byte) (Document, []Problem) {
	s := shape{file: file, kinds: f.Kinds, secret: f.Secret, seen: map[visit]bool{}, merging: map[*yaml.Node]bool{}}
	docs, err := documents(data)
	if err != nil {
		docs = s.cutOff(data, err)
	}
	doc := Document{Broken: s.cut}
	if len(docs) == 0 {
		return doc, s.problems
	}
	for _, more := range docs[1:] {
		s.bad(more, "only the first document of a file is read: remove the line ---, or move what follows it to another file")
	}
	t := reflect.TypeFor[T]()
	doc.root = docs[0].Content[0]
	s.value(doc.root, t, f.Kinds[t])
	if err := docs[0].Decode(out); err != nil && len(s.problems) == 0 {
		s.undecodable(err)
	}
	return doc, s.problems
}

// A shape checks a file against a format: known keys, required keys, numbers and lists. The decoder
// reports Go types in its errors and stops at the first bad value, so its errors are not used.
type shape struct {
	file     string
	kinds    map[reflect.Type]string
	secret   bool // problems quote nothing of the file
	cut      bool // the file is unreadable after some line, so missing keys are not reported
	seen     map[visit]bool
	merging  map[*yaml.Node]bool
	problems []Problem
}

// A visit is a value that an alias repeats, read as a type.
type visit struct {
	node *yaml.Node
	as   reflect.Type
}

func (s *shape) bad(n *yaml.Node, format string, args ...any) {
	s.problems = append(s.problems, Problem{File: s.file, Line: n.Line, Text: fmt.Sprintf(format, args...)})
}

// cutOff reports that the file is not YAML, and returns the documents of its valid beginning.
func (s *shape) cutOff(data []byte, err error) []*yaml.Node {
	s.cut = true
	end, line := sound(data)
	parsers, message := position(text.Phrase(err.Error()))
	if line == 0 {
		line = max(1, parsers)
	}
	if message = ": " + message + "; check the indentation"; s.secret {
		message = ": check the indentation and the quotes"
	}
	s.problems = append(s.problems, Problem{File: s.file, Line: line,
		Text: "this is not YAML" + message + " here and above. The rest of this file was not read, which may cause other problems"})
	docs, _ := documents(data[:end]) // sound has parsed this part already
	return docs
}

// undecodable reports what only the decoder refuses, such as an alias that contains itself.
func (s *shape) undecodable(err error) {
	messages := []string{err.Error()}
	if many := (*yaml.TypeError)(nil); errors.As(err, &many) {
		messages = many.Errors
	}
	for _, m := range messages {
		line, phrase := position(text.Phrase(m))
		if s.secret {
			phrase = "the file has a value that cannot be read"
		}
		s.problems = append(s.problems, Problem{File: s.file, Line: max(1, line), Text: phrase})
	}
}

// value checks a value and reports whether it is of the kind that the type takes. The key is the
// name of the value in problems.
func (s *shape) value(n *yaml.Node, t reflect.Type, key string) bool {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
		if s.seen[visit{n, t}] {
			return true
		}
		s.seen[visit{n, t}] = true
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if scalar(n, "!!null") {
		return true // as if left out; the entry around it reports required keys
	}
	wants := func(what string, kind yaml.Kind) bool {
		if n.Kind != kind {
			s.bad(n, "%s must be %s, not %s", key, what, s.described(n))
		}
		return n.Kind == kind
	}
	switch zero := reflect.New(t).Interface().(type) {
	case encoding.TextUnmarshaler:
		return wants("text", yaml.ScalarNode) && s.parses(n, zero, key)
	case interface{ orWord() }:
		return n.Kind == yaml.ScalarNode || wants("a word or a list", yaml.SequenceNode) && s.list(n, t.Elem(), key)
	}
	switch {
	case t == reflect.TypeFor[Text]() || t.Kind() == reflect.String:
		return wants("text", yaml.ScalarNode)
	case t.Kind() == reflect.Struct:
		return s.entry(n, t, key)
	case t.Kind() == reflect.Slice:
		return wants("a list", yaml.SequenceNode) && s.list(n, t.Elem(), key)
	case t.Kind() == reflect.Map:
		return wants("keys with values", yaml.MappingNode) && s.values(n, t.Elem(), key)
	}
	return s.single(n, t, key)
}

// parses checks a text that its type parses. It empties an invalid one, because the decoder would
// stop there.
func (s *shape) parses(n *yaml.Node, zero encoding.TextUnmarshaler, key string) bool {
	err := zero.UnmarshalText([]byte(n.Value))
	if err == nil {
		return true
	}
	if s.secret {
		err = errors.New("the value is not valid")
	}
	s.bad(n, "%s: %v", key, err)
	n.Tag, n.Value = "!!null", ""
	return false
}

// single checks a number, or true or false. The decoder would cut 2.5 to 2.
func (s *shape) single(n *yaml.Node, t reflect.Type, key string) bool {
	what, ok := "a whole number", scalar(n, "!!int")
	switch t.Kind() {
	case reflect.Bool:
		what, ok = "true or false", n.Kind == yaml.ScalarNode
	case reflect.Float32, reflect.Float64:
		what, ok = "a number", ok || scalar(n, "!!float")
	}
	if ok = ok && n.Decode(reflect.New(t).Interface()) == nil; !ok {
		s.bad(n, "%s must be %s, not %s", key, what, s.described(n))
	}
	return ok
}

// list checks the entries of a list. It removes those that the decoder leaves out, so that the
// numbers of the others agree with those of the decoded value.
func (s *shape) list(n *yaml.Node, t reflect.Type, key string) bool {
	var fit []*yaml.Node
	for i, e := range n.Content {
		name := fmt.Sprintf("%s[%d]", key, i)
		if s.kinds[t] != "" {
			name = "an entry of " + key
		}
		if scalar(e, "!!null") {
			s.bad(e, "an empty entry in %s: fill it or remove it", key)
		} else if s.value(e, t, name) {
			fit = append(fit, e)
		}
	}
	n.Content = fit
	return true
}

// values checks the values of keys that the user chooses.
func (s *shape) values(n *yaml.Node, t reflect.Type, key string) bool {
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := key + "." + text.Line(n.Content[i].Value, keyWidth)
		if s.secret {
			name = "a value of " + key
		}
		s.value(n.Content[i+1], t, name)
	}
	s.twice(n, nil)
	return true
}

// scalar reports whether a node is a single value with the tag.
func scalar(n *yaml.Node, tag string) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == tag }

// described describes the value that was found.
func (s *shape) described(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "keys with values"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case s.secret:
		return "a single value"
	}
	return fmt.Sprintf("%q", text.Line(n.Value, valueWidth))
}

// The most characters of a key and of a value that problems show. A value may be an address with a
// password.
const (
	keyWidth   = 40
	valueWidth = 10
)

// entry checks the keys of one entry.
func (s *shape) entry(n *yaml.Node, t reflect.Type, key string) bool {
	kind, path := key, key+"."
	if s.kinds[t] != "" {
		kind, path = s.kinds[t], ""
	}
	fields, names := map[string]reflect.StructField{}, []string{}
	for f := range fieldsOf(t) {
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		fields[name], names = f, append(names, name)
	}
	if n.Kind != yaml.MappingNode {
		s.bad(n, "%s must be keys with values, not %s; the keys are %s", key, s.described(n), strings.Join(names, ", "))
		return false
	}
	found := s.keys(n, kind, path, fields, names)
	s.twice(n, names)
	if s.cut {
		return true
	}
	for _, name := range names {
		if f := fields[name]; slices.Contains(strings.Split(f.Tag.Get("jsonschema"), ","), "required") && !found[name].filled {
			at := n
			if k := found[name].key; k != nil {
				at = k
			}
			s.bad(at, "%s needs %s: %s", kind, name, f.Tag.Get("jsonschema_description"))
		}
	}
	return true
}

// fieldsOf yields the fields of a struct that have a key, also those of the structs inside that
// share its keys.
func fieldsOf(t reflect.Type) iter.Seq[reflect.StructField] {
	return func(yield func(reflect.StructField) bool) {
		for f := range t.Fields() {
			switch name, options, _ := strings.Cut(f.Tag.Get("yaml"), ","); {
			case options == "inline":
				for inner := range fieldsOf(f.Type) {
					if !yield(inner) {
						return
					}
				}
			case name == "" || name == "-":
			case !yield(f):
				return
			}
		}
	}
}

// A present is a key that an entry has.
type present struct {
	key    *yaml.Node
	filled bool
}

// keys checks the present keys and their values, and returns them. The kind is the entry's name in
// problems, and the path is the beginning of its values' names.
func (s *shape) keys(n *yaml.Node, kind, path string, fields map[string]reflect.StructField, names []string) map[string]present {
	found, merged := map[string]present{}, false
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.ShortTag() == "!!merge" {
			if v.Kind == yaml.AliasNode {
				v = v.Alias
			}
			if v.Kind == yaml.MappingNode && !s.merging[v] && !merged { // a second merge key occurs twice
				s.merging[v], merged = true, true
				maps.Copy(found, s.keys(v, kind, path, fields, names))
				delete(s.merging, v)
			}
			continue
		}
		f, ok := fields[k.Value]
		if !ok {
			what := "no key " + text.Line(k.Value, keyWidth)
			if s.secret {
				what = "an unknown key"
			}
			s.bad(k, "%s has %s; %s", kind, what, text.DidYouMean(k.Value, names))
			continue
		}
		found[k.Value] = present{key: k, filled: filled(v)}
		s.value(v, f.Type, path+k.Value)
	}
	return found
}

// filled reports whether a value says anything.
func filled(n *yaml.Node) bool {
	switch n.Kind {
	case yaml.ScalarNode:
		return strings.TrimSpace(n.Value) != "" && n.ShortTag() != "!!null"
	case yaml.SequenceNode:
		return len(n.Content) > 0
	}
	return true
}

// twice reports keys that occur twice in one entry, and removes the second. The decoder would
// reject the whole entry and hide its other problems.
func (s *shape) twice(n *yaml.Node, names []string) {
	lines := map[string]int{}
	var once []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if first, ok := lines[k.Value]; ok {
			shown := text.Line(k.Value, keyWidth)
			if s.secret && !slices.Contains(names, k.Value) {
				shown = "a key"
			}
			s.bad(k, "%s occurs twice, first in line %d: remove one", shown, first)
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
// line is 0 if the error is further from the end. The parser's own line is where the unfinished
// value began.
func sound(data []byte) (end, line int) {
	lines := bytes.SplitAfter(data, []byte("\n"))
	end = len(data)
	for i := len(lines); i > max(0, len(lines)-maxCuts); i-- {
		end -= len(lines[i-1])
		if _, err := documents(data[:end]); err == nil {
			return end, i
		}
	}
	return 0, 0
}
