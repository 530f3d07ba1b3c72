package remediate

import (
	"encoding/json"
	"fmt"
	"strings"

	"paramedic/remediate/cluster"
)

// An op is one operation of a JSON Patch (RFC 6902). A nil Value is null: a test for null passes if
// the member is missing.
type op struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

func test(path string, value any) op    { return op{"test", path, value} }
func replace(path string, value any) op { return op{"replace", path, value} }
func add(path string, value any) op     { return op{"add", path, value} }

// encode returns the patch as it is sent and recorded.
func encode(ops ...op) string {
	b, err := json.Marshal(ops)
	if err != nil { // values are strings, numbers and maps of strings
		panic(fmt.Sprintf("encoding a JSON Patch: %v", err))
	}
	return string(b)
}

// pointer joins tokens to a JSON pointer (RFC 6901).
func pointer(tokens ...any) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteByte('/')
		s := strings.ReplaceAll(fmt.Sprint(t), "~", "~0")
		b.WriteString(strings.ReplaceAll(s, "/", "~1"))
	}
	return b.String()
}

// mark returns the operations that set the op-id annotation. If the object has no annotations, they
// add the map, and test that there still are none, because adding a map replaces an existing one.
func mark(annotations map[string]string, opID string) []op {
	if len(annotations) == 0 {
		all := pointer("metadata", "annotations")
		return []op{test(all, nil), add(all, map[string]string{cluster.OpIDAnnotation: opID})}
	}
	return []op{add(pointer("metadata", "annotations", cluster.OpIDAnnotation), opID)}
}
