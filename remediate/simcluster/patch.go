package simcluster

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"paramedic/remediate/cluster"
)

// apply is the document after a JSON Patch (RFC 6902: test, add, replace, remove); the document
// itself is left as it is. As in the API server, a test for null passes where the member is absent.
func apply(doc map[string]any, body []byte) (map[string]any, error) {
	var ops []struct {
		Op, Path string
		Value    any
	}
	if err := json.Unmarshal(body, &ops); err != nil {
		return nil, fmt.Errorf("reading the patch: %w: %w", cluster.ErrRefused, err)
	}
	next := clone(doc)
	for _, o := range ops {
		var err error
		next, err = applyOne(next, o.Op, o.Path, o.Value)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", o.Op, o.Path, err)
		}
	}
	return next, nil
}

func applyOne(doc map[string]any, op, path string, value any) (map[string]any, error) {
	tokens := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, t := range tokens {
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(t, "~1", "/"), "~0", "~")
	}
	out, err := at(doc, tokens, op, value)
	if err != nil {
		return nil, err
	}
	m, ok := out.(map[string]any)
	if !ok {
		return nil, cluster.ErrRefused
	}
	return m, nil
}

// at applies an operation below a node and gives the node that takes its place.
func at(node any, tokens []string, op string, value any) (any, error) {
	key, last := tokens[0], len(tokens) == 1
	switch n := node.(type) {
	case map[string]any:
		have, ok := n[key]
		if !last {
			if !ok {
				return nil, cluster.ErrConflict
			}
			sub, err := at(have, tokens[1:], op, value)
			n[key] = sub
			return n, err
		}
		switch {
		case op == "test" && !(ok && reflect.DeepEqual(have, value)) && !(value == nil && !ok), op == "replace" && !ok, op == "remove" && !ok:
			return nil, cluster.ErrConflict
		case op == "remove":
			delete(n, key)
		case op != "test":
			n[key] = value
		}
		return n, nil
	case []any:
		i, err := strconv.Atoi(key)
		if key == "-" {
			i, err = len(n), nil
		}
		if err != nil || i < 0 || i > len(n) || i == len(n) && op != "add" {
			return nil, cluster.ErrConflict
		}
		if !last {
			sub, err := at(n[i], tokens[1:], op, value)
			n[i] = sub
			return n, err
		}
		switch op {
		case "test":
			if !reflect.DeepEqual(n[i], value) {
				return nil, cluster.ErrConflict
			}
		case "add":
			return append(n[:i:i], append([]any{value}, n[i:]...)...), nil
		case "replace":
			n[i] = value
		case "remove":
			return append(n[:i:i], n[i+1:]...), nil
		}
		return n, nil
	}
	return nil, cluster.ErrConflict
}
