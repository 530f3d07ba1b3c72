package wording

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	gotext "text/template"
	"time"

	"github.com/prometheus/alertmanager/template"

	"paramedic/internal/pattern"
)

// The bounds of one rendering. A template for a screen of text needs a small part of each.
const (
	maxSteps  = 50_000    // turns of loops and calls of templates
	maxNested = 1_000     // templates that wait for one that they called
	maxMade   = 4 << 20   // bytes returned by functions
	maxValue  = 256 << 10 // bytes of one value that a function returns
	maxOutput = 64 << 10
)

// maxTime bounds the time of one rendering. Tests raise it.
var maxTime = 2 * time.Second

// The errors of exceeding them.
var (
	errTime   = errors.New("it took longer than " + maxTime.String())
	errSteps  = fmt.Errorf("it made more than %d turns of loops and calls of templates", maxSteps)
	errNested = fmt.Errorf("its templates called each other more than %d deep", maxNested)
	errMade   = fmt.Errorf("its functions made more than %d bytes", maxMade)
	errOutput = fmt.Errorf("its text is longer than %d bytes", maxOutput)
)

// A budget holds the rest of the bounds.
type budget struct {
	ctx    context.Context
	steps  int
	nested int
	made   int
	// escape writes text that did not come from the template.
	escape escaper
}

// counters returns the functions that count.
func (b *budget) counters() gotext.FuncMap {
	return gotext.FuncMap{stepName: b.step, enterName: b.enter, leaveName: b.leave, weighName: b.weigh}
}

// enter counts the beginning of a template.
func (b *budget) enter() (string, error) {
	if b.nested++; b.nested > maxNested {
		return "", errNested
	}
	return b.step()
}

// leave counts the end of a template.
func (b *budget) leave() string {
	b.nested--
	return ""
}

// step counts the beginning of a template or of an iteration of a loop.
func (b *budget) step() (string, error) {
	if b.steps++; b.steps > maxSteps {
		return "", errSteps
	}
	if b.ctx.Err() != nil {
		return "", errTime
	}
	return "", nil
}

func (b *budget) spend(n int) error {
	if b.made += n; b.made > maxMade || n > maxValue {
		return errMade
	}
	if b.ctx.Err() != nil {
		return errTime
	}
	return nil
}

// weigh counts the bytes of a method's result and returns the result.
func (b *budget) weigh(v reflect.Value) (reflect.Value, error) {
	return v, b.spend(size(v, maxValue+1, 0))
}

// funcs returns Alertmanager's functions and Go's template functions that make text. Each stays
// within the budget and uses the given clock.
//
// An encoding function gets outside characters unchanged, because they are harmless in its result.
// The result of a decoding function is outside text.
func (b *budget) funcs(now time.Time) gotext.FuncMap {
	out := b.counters()
	for name, fn := range template.DefaultFuncs {
		out[name] = b.within(name, fn)
	}
	for name, fn := range map[string]any{
		"print": fmt.Sprint, "printf": fmt.Sprintf, "println": fmt.Sprintln,
		"html": gotext.HTMLEscaper, "js": gotext.JSEscaper,
		"urlquery":     func(args ...any) string { return url.QueryEscape(unhidden.Replace(fmt.Sprint(args...))) },
		"base64encode": func(s string) string { return base64.URLEncoding.EncodeToString([]byte(unhidden.Replace(s))) },
		"urlUnescape": func(s string) (string, error) {
			out, err := url.QueryUnescape(s)
			return b.escape(out), err
		},
		"base64decode": func(s string) (string, error) {
			out, err := base64.URLEncoding.DecodeString(s)
			return b.escape(string(out)), err
		},
		"now": func() time.Time { return now }, "since": func(t time.Time) time.Duration { return now.Sub(t) },
		"reReplaceAll": func(expr, repl, s string) (string, error) {
			if len(s) > maxOutput {
				return "", errMade
			}
			re, err := pattern.Compile(expr)
			if err != nil {
				return "", fmt.Errorf("reReplaceAll: %w", err)
			}
			return re.ReplaceAllString(s, repl), nil
		},
	} {
		out[name] = b.within(name, fn)
	}
	return out
}

var errorType = reflect.TypeFor[error]()

// within wraps a function, so that arguments and results beyond the budget are refused.
func (b *budget) within(name string, fn any) any {
	f := reflect.ValueOf(fn)
	t := f.Type()
	in := make([]reflect.Type, t.NumIn())
	for i := range in {
		in[i] = t.In(i)
	}
	result := t.Out(0)
	typed := reflect.FuncOf(in, []reflect.Type{result, errorType}, t.IsVariadic())
	return reflect.MakeFunc(typed, func(args []reflect.Value) []reflect.Value {
		fail := func(err error) []reflect.Value {
			return []reflect.Value{reflect.Zero(result), reflect.ValueOf(&err).Elem()}
		}
		for _, a := range args {
			if err := b.spend(size(a, maxValue+1, 0)); err != nil {
				return fail(err)
			}
		}
		if repeatedSize(name, args) > maxMade {
			return fail(errMade)
		}
		call := f.Call
		if t.IsVariadic() {
			call = f.CallSlice
		}
		out := call(args)
		if len(out) == 2 && !out[1].IsNil() {
			return []reflect.Value{reflect.Zero(result), out[1]}
		}
		if err := b.spend(size(out[0], maxValue+1, 0)); err != nil {
			return fail(err)
		}
		return []reflect.Value{out[0], reflect.Zero(errorType)}
	}).Interface()
}

// wideFormat matches a width or precision that alone makes a long text, or that an argument sets.
var wideFormat = regexp.MustCompile(`%[^a-zA-Z%]*(?:[0-9]{5,}|\*)`)

// repeatedSize returns the length of a result that repeats one argument for each part of another.
// It returns 0 for other functions, whose results are at most a few times as long as their
// arguments.
func repeatedSize(name string, args []reflect.Value) int {
	switch name {
	case "printf":
		format := args[0].String()
		if wideFormat.MatchString(format) {
			return maxMade + 1
		}
		return strings.Count(format, "%") * (10_000 + size(args[1], maxMade, 0))
	case "reReplaceAll":
		return args[1].Len() * (args[2].Len() + 1)
	case "join":
		return args[0].Len() * args[1].Len()
	}
	return 0
}

// maxDepth bounds how deep size looks into nested lists.
const maxDepth = 100

// size returns the approximate length of a value as text. Above most, it may return any larger
// number.
func size(v reflect.Value, most, depth int) int {
	if depth > maxDepth {
		return most + 1
	}
	n := 8
	switch v.Kind() {
	case reflect.Invalid:
		return 0
	case reflect.Interface, reflect.Pointer:
		return size(v.Elem(), most, depth+1)
	case reflect.String:
		return v.Len()
	case reflect.Slice, reflect.Array:
		for i := 0; i < v.Len() && n <= most; i++ {
			n += 8 + size(v.Index(i), most, depth+1)
		}
	case reflect.Map:
		for it := v.MapRange(); n <= most && it.Next(); {
			n += size(it.Key(), most, depth+1) + size(it.Value(), most, depth+1)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return 32
		}
		for i := 0; i < v.NumField() && n <= most; i++ {
			n += size(v.Field(i), most, depth+1)
		}
	}
	return n
}

// A limited writer refuses more than maxOutput.
type limited struct{ bytes.Buffer }

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxOutput {
		return 0, errOutput
	}
	return l.Buffer.Write(p)
}
