package condition

import (
	"errors"
	"reflect"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

const factsType = "paramedic.Facts"

// Facts holds the facts of the alerts for expressions. It is a CEL value, so that functions can
// take it.
type Facts struct {
	Symptoms map[string]bool
	Began    map[string]time.Time
	At       time.Time // time of the evidence
	Hints    map[string]string
	Xids     []AlertedXid // the worst first
	XIDClass string       // class of the first of xids
}

func (f *Facts) has(s ref.Val) bool  { id, _ := s.(types.String); return f.Symptoms[string(id)] }
func (f *Facts) only(s ref.Val) bool { return len(f.Symptoms) == 1 && f.has(s) }
func (f *Facts) before(a, b ref.Val) bool {
	first, _ := a.(types.String)
	second, _ := b.(types.String)
	return f.beganBefore(string(first), string(second))
}

// ahead is the lead that a symptom needs to count as earlier than another, since rules for the same
// event have different "for" times.
const ahead = time.Minute

func (f *Facts) beganBefore(first, second string) bool {
	a, aok := f.Began[first]
	b, bok := f.Began[second]
	return aok && bok && b.Sub(a) > ahead
}

// lasted reports whether a symptom is at least this many seconds old.
func (f *Facts) lasted(id string, seconds float64) bool {
	began, ok := f.Began[id]
	return ok && !began.IsZero() && f.At.Sub(began).Seconds() >= seconds
}

func (f *Facts) hint(s ref.Val) string {
	key, _ := s.(types.String)
	return f.Hints[string(key)]
}

// ConvertToNative is part of ref.Val.
func (f *Facts) ConvertToNative(reflect.Type) (any, error) {
	return nil, errors.New("facts have no other form")
}

// ConvertToType is part of ref.Val.
func (f *Facts) ConvertToType(ref.Type) ref.Val { return types.NewErr("facts have no other form") }

// Equal is part of ref.Val.
func (f *Facts) Equal(other ref.Val) ref.Val { return types.Bool(other == ref.Val(f)) }

// Type is part of ref.Val.
func (f *Facts) Type() ref.Type { return types.NewOpaqueType(factsType) }

// Value is part of ref.Val.
func (f *Facts) Value() any { return f }

// XidsAt returns the codes that alerts reported for a GPU.
func (f *Facts) XidsAt(gpu string) []int {
	var out []int
	for _, x := range f.Xids {
		if x.GPU == gpu {
			out = append(out, x.Code)
		}
	}
	return out
}

// An AlertedXid is a code that an alert carried, with its GPU as node/gpu.
type AlertedXid struct {
	Code int
	GPU  string
}
