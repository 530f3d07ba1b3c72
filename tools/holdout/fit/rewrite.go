package fit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Rewrite returns a catalogue file with other weights, and the terms that it has. Every other byte
// stays.
func Rewrite(src []byte, weights map[string]float64) ([]byte, []string, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(src, &doc); err != nil {
		return nil, nil, fmt.Errorf("reading a catalogue file: %w", err)
	}
	var found []string
	var edits []*yaml.Node
	to := map[*yaml.Node]string{}
	eachNode(&doc, func(term string, n *yaml.Node) {
		w, ok := weights[term]
		if !ok {
			return
		}
		found = append(found, term)
		if was, err := strconv.ParseFloat(n.Value, 64); err != nil || was != w {
			edits, to[n] = append(edits, n), strconv.FormatFloat(w, 'f', -1, 64)
		}
	})
	lines := strings.SplitAfter(string(src), "\n")
	slices.SortFunc(edits, func(a, b *yaml.Node) int { return b.Column - a.Column }) // the last of a line first
	for _, n := range edits {
		line := []rune(lines[n.Line-1])
		from := n.Column - 1
		if !strings.HasPrefix(string(line[from:]), n.Value) {
			return nil, nil, fmt.Errorf("line %d, column %d: %q is not there", n.Line, n.Column, n.Value)
		}
		lines[n.Line-1] = string(line[:from]) + to[n] + string(line[from+len(n.Value):])
	}
	return []byte(strings.Join(lines, "")), found, nil
}

// eachNode passes on the nodes of all weights of a catalogue file with their terms.
func eachNode(doc *yaml.Node, do func(term string, n *yaml.Node)) {
	if len(doc.Content) == 0 {
		return
	}
	causes := child(doc.Content[0], "causes")
	if causes == nil {
		return
	}
	for _, c := range causes.Content {
		id := child(c, "id")
		if id == nil {
			continue
		}
		weight := func(of *yaml.Node, key, term string) {
			if n := child(of, key); n != nil {
				do(id.Value+"/"+term, n)
			}
		}
		weight(c, "prior", "prior")
		if explains := child(c, "explains"); explains != nil {
			for i := 0; i+1 < len(explains.Content); i += 2 {
				do(id.Value+"/symptom:"+explains.Content[i].Value, explains.Content[i+1])
			}
		}
		evidence := child(c, "evidence")
		if evidence == nil {
			continue
		}
		for i, e := range evidence.Content {
			term := "evidence/" + strconv.Itoa(i)
			weight(e, "weight", term)
			if otherwise := child(e, "else"); otherwise != nil {
				weight(otherwise, "weight", term+"/else")
			}
		}
	}
}

// child returns the value of a key of a mapping, or nil.
func child(n *yaml.Node, key string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}
