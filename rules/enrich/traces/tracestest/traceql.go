package tracestest

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// query is the supported part of TraceQL: sets of comparisons, joined by && and ||, and a select.
//
//	query   = sets "|" "select" "(" field { "," field } ")"
//	sets    = set { ( "&&" | "||" ) set }
//	set     = "{" any "}" | "(" sets ")"
//	any     = all { "||" all }
//	all     = test { "&&" test }
//	test    = "(" any ")" | field ( "=" | "=~" ) string
type query struct {
	sets   func([]Span) []Span
	fields []string
}

func (q *query) match(spans []Span) []Span { return q.sets(spans) }

// render returns spans with only the selected fields.
func (q *query) render(spans []Span) []any {
	var out []any
	for _, s := range spans {
		one := map[string]any{"spanID": s.ID, "startTimeUnixNano": strconv.FormatInt(s.Start.UnixNano(), 10),
			"durationNanos": strconv.FormatInt(s.Duration.Nanoseconds(), 10)}
		attrs := []any{}
		for _, f := range q.fields {
			v, ok := field(s, f)
			switch {
			case f == "resource.k8s.namespace.name" && !ok, f == "resource.k8s.pod.name" && !ok:
				attrs = append(attrs, map[string]any{"key": strings.TrimPrefix(f, "resource."),
					"value": anyValue("nil")}) // as Tempo does
			case !ok:
			case f == "name":
				one["name"] = v
			default:
				_, key, _ := strings.Cut(f, ".")
				attrs = append(attrs, map[string]any{"key": key, "value": anyValue(v)})
			}
		}
		one["attributes"] = attrs
		out = append(out, one)
	}
	return out
}

func field(s Span, name string) (any, bool) {
	if name == "name" {
		return s.Name, true
	}
	scope, key, _ := strings.Cut(name, ".")
	from := s.Attributes
	if scope == "resource" {
		from = s.Resource
	}
	v, ok := from[key]
	return v, ok
}

type parser struct{ tokens []string }

var word = regexp.MustCompile(`^[a-z0-9_.]+`)

func tokens(text string) ([]string, error) {
	var out []string
	for text = strings.TrimLeft(text, " "); text != ""; text = strings.TrimLeft(text, " ") {
		var size int
		switch {
		case text[0] == '"':
			quoted, err := strconv.QuotedPrefix(text)
			if err != nil {
				return nil, errors.New("string is not closed")
			}
			size = len(quoted)
		case strings.HasPrefix(text, "&&"), strings.HasPrefix(text, "||"), strings.HasPrefix(text, "=~"):
			size = 2
		case strings.ContainsRune("{}()|,=", rune(text[0])):
			size = 1
		default:
			size = len(word.FindString(text))
		}
		if size == 0 {
			return nil, fmt.Errorf("syntax error: unexpected %q", text[0])
		}
		out = append(out, text[:size])
		text = text[size:]
	}
	return out, nil
}

func parseTraceQL(text string) (q *query, err error) {
	if len(text) > 1024 {
		return nil, errors.New("parse error at line 1, col 1025: syntax error: unexpected $end")
	}
	ts, err := tokens(text)
	if err != nil {
		return nil, err
	}
	defer func() {
		if r := recover(); r != nil {
			q, err = nil, fmt.Errorf("syntax error: %v", r)
		}
	}()
	p := &parser{ts}
	q = &query{sets: p.sets()}
	p.want("|")
	p.want("select")
	p.want("(")
	for {
		q.fields = append(q.fields, p.field())
		if p.peek() != "," {
			break
		}
		p.next()
	}
	p.want(")")
	if len(p.tokens) > 0 {
		return nil, fmt.Errorf("syntax error: unexpected %s", p.peek())
	}
	return q, nil
}

func (p *parser) peek() string {
	if len(p.tokens) == 0 {
		return "end"
	}
	return p.tokens[0]
}

func (p *parser) next() string {
	t := p.peek()
	if len(p.tokens) > 0 {
		p.tokens = p.tokens[1:]
	}
	return t
}

func (p *parser) want(t string) {
	if got := p.next(); got != t {
		panic("unexpected " + got + ", want " + t)
	}
}

func (p *parser) field() string {
	f := p.next()
	if f != "name" && !strings.HasPrefix(f, "span.") && !strings.HasPrefix(f, "resource.") {
		panic("unexpected " + f)
	}
	return f
}

func (p *parser) sets() func([]Span) []Span {
	left := p.set()
	for p.peek() == "&&" || p.peek() == "||" {
		op, a, b := p.next(), left, p.set()
		left = func(spans []Span) []Span {
			x, y := a(spans), b(spans)
			if op == "&&" && (len(x) == 0 || len(y) == 0) {
				return nil
			}
			for _, s := range y {
				if !slices.ContainsFunc(x, func(o Span) bool { return o.ID == s.ID }) {
					x = append(x, s)
				}
			}
			return x
		}
	}
	return left
}

func (p *parser) set() func([]Span) []Span {
	if p.peek() == "(" {
		p.next()
		out := p.sets()
		p.want(")")
		return out
	}
	p.want("{")
	test := p.some()
	p.want("}")
	return func(spans []Span) []Span {
		var out []Span
		for _, s := range spans {
			if test(s) {
				out = append(out, s)
			}
		}
		return out
	}
}

func (p *parser) some() func(Span) bool {
	left := p.all()
	for p.peek() == "||" {
		p.next()
		a, b := left, p.all()
		left = func(s Span) bool { return a(s) || b(s) }
	}
	return left
}

func (p *parser) all() func(Span) bool {
	left := p.test()
	for p.peek() == "&&" {
		p.next()
		a, b := left, p.test()
		left = func(s Span) bool { return a(s) && b(s) }
	}
	return left
}

func (p *parser) test() func(Span) bool {
	if p.peek() == "(" {
		p.next()
		out := p.some()
		p.want(")")
		return out
	}
	name, op := p.field(), p.next()
	text, err := strconv.Unquote(p.next())
	if err != nil || op != "=" && op != "=~" {
		panic("want a comparison with a string")
	}
	if op == "=" {
		return func(s Span) bool { v, ok := field(s, name); return ok && v == text }
	}
	re := regexp.MustCompile("^(?:" + text + ")$")
	return func(s Span) bool {
		v, ok := field(s, name)
		return ok && re.MatchString(fmt.Sprint(v))
	}
}
