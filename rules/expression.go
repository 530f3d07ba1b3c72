package rules

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// maxExpression limits the length of an expression, and so the cost of an evaluation: without
// macros there are no loops, and nothing is computed twice.
const maxExpression = 1024

const readingType = "paramedic.Reading"

// poolKnown is the variable that reports whether the alerts name their pool.
const poolKnown = "pool_known"

// An environment compiles expressions over the catalogue's signals.
type environment struct {
	env        *cel.Env
	known      map[string]*expression // by source
	vocabulary vocabulary
}

// A vocabulary names everything that an expression may use.
type vocabulary struct {
	signals  map[string]int             // signal → its number, by which a subject finds its reading
	past     map[string]map[string]bool // baseline, hour_ago, day_ago and week_ago → signals that have it
	symptoms func(id string) bool       // reports whether a symptom exists
	xidClass func(code int) string      // returns the class of an Xid; empty if the table has none
}

// An expression is one compiled condition with the signals that it reads.
type expression struct {
	program cel.Program
	fast    condition // the same condition without CEL; nil if CEL is needed
	number  int       // index among the catalogue's expressions
	// together means that it reads the past of several signals. All are then the values an hour
	// before the onset.
	together bool
	signals  []string
}

// newEnvironment returns an environment that compiles expressions over the vocabulary.
func newEnvironment(voc vocabulary) (*environment, error) {
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, fmt.Errorf("building the expression types: %w", err)
	}
	opts := []cel.EnvOption{
		cel.CustomTypeProvider(&provider{Registry: registry}),
		cel.CustomTypeAdapter(registry),
		cel.CrossTypeNumericComparisons(true),
		cel.ClearMacros(),
		cel.Macros(macros(voc)...),
		cel.Variable("facts_", cel.OpaqueType(factsType)),
		cel.Variable("workers", cel.DoubleType),
		cel.Variable("role", cel.StringType),
		cel.Variable("worker", cel.StringType),
		cel.Variable(poolKnown, cel.BoolType),
	}
	opts = append(opts, functions(voc)...)
	for id := range voc.signals {
		opts = append(opts, cel.Variable(id, cel.ObjectType(readingType)))
	}
	env, err := cel.NewCustomEnv(append([]cel.EnvOption{cel.StdLib()}, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("building the expression language: %w", err)
	}
	return &environment{env: env, known: map[string]*expression{}, vocabulary: voc}, nil
}

// macros returns the functions on alerts. They insert the facts as an argument, and check
// symptoms when an expression is compiled.
func macros(voc vocabulary) []cel.Macro {
	type expander = func(cel.MacroExprFactory, ast.Expr, []ast.Expr) (ast.Expr, *cel.Error)
	facts := func(eh cel.MacroExprFactory) ast.Expr { return eh.NewIdent("facts_") }
	symptom := func(fn string) expander {
		return func(eh cel.MacroExprFactory, _ ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
			if err := voc.checkSymptoms(eh, args); err != nil {
				return nil, err
			}
			return eh.NewCall(fn, append([]ast.Expr{facts(eh)}, args...)...), nil
		}
	}
	withText := func(fn string) expander {
		return func(eh cel.MacroExprFactory, _ ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
			return eh.NewCall(fn, facts(eh), args[0]), nil
		}
	}
	lasted := func(eh cel.MacroExprFactory, _ ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
		if err := voc.checkSymptoms(eh, args[:1]); err != nil {
			return nil, err
		}
		if s, ok := args[1].AsLiteral().(types.Double); args[1].Kind() != ast.LiteralKind || !ok || s <= 0 {
			return nil, eh.NewError(args[1].ID(), "wants seconds, such as 240.0")
		}
		return eh.NewCall("lasted_", facts(eh), args[0], args[1]), nil
	}
	return []cel.Macro{
		cel.GlobalMacro("has_symptom", 1, symptom("has_symptom_")),
		cel.GlobalMacro("only_symptom", 1, symptom("only_symptom_")),
		cel.GlobalMacro("began_before", 2, symptom("began_before_")),
		cel.GlobalMacro("lasted", 2, lasted),
		cel.GlobalMacro("hint", 1, withText("hint_")),
		cel.GlobalMacro("alerted_xid", 1, withText("alerted_xid_")),
	}
}

// checkSymptoms reports an argument that is not the ID of a symptom in quotes.
func (v vocabulary) checkSymptoms(eh cel.MacroExprFactory, args []ast.Expr) *cel.Error {
	for _, a := range args {
		id, ok := a.AsLiteral().(types.String)
		if a.Kind() != ast.LiteralKind || !ok {
			return eh.NewError(a.ID(), "wants a symptom's ID in quotes")
		}
		if !v.symptoms(string(id)) {
			return eh.NewError(a.ID(), fmt.Sprintf("no symptom %q", string(id)))
		}
	}
	return nil
}

// functions returns the implementations behind the macros, and xid_class.
func functions(voc vocabulary) []cel.EnvOption {
	str, boolean, facts := cel.StringType, cel.BoolType, cel.OpaqueType(factsType)
	return []cel.EnvOption{
		cel.Function("has_symptom_", cel.Overload("has_symptom_facts", []*cel.Type{facts, str}, boolean,
			cel.BinaryBinding(func(f, s ref.Val) ref.Val { return types.Bool(f.(*factsVal).has(s)) }))),
		cel.Function("only_symptom_", cel.Overload("only_symptom_facts", []*cel.Type{facts, str}, boolean,
			cel.BinaryBinding(func(f, s ref.Val) ref.Val { return types.Bool(f.(*factsVal).only(s)) }))),
		cel.Function("began_before_", cel.Overload("began_before_facts", []*cel.Type{facts, str, str}, boolean,
			cel.FunctionBinding(func(v ...ref.Val) ref.Val {
				return types.Bool(v[0].(*factsVal).before(v[1], v[2]))
			}))),
		cel.Function("lasted_", cel.Overload("lasted_facts", []*cel.Type{facts, str, cel.DoubleType}, boolean,
			cel.FunctionBinding(func(v ...ref.Val) ref.Val {
				id, _ := v[1].(types.String)
				seconds, _ := v[2].(types.Double)
				return types.Bool(v[0].(*factsVal).lasted(string(id), float64(seconds)))
			}))),
		cel.Function("hint_", cel.Overload("hint_facts", []*cel.Type{facts, str}, str,
			cel.BinaryBinding(func(f, s ref.Val) ref.Val { return types.String(f.(*factsVal).hint(s)) }))),
		cel.Function("alerted_xid_", cel.Overload("alerted_xid_facts", []*cel.Type{facts, str}, boolean,
			cel.BinaryBinding(func(f, s ref.Val) ref.Val {
				class, _ := s.(types.String)
				return types.Bool(f.(*factsVal).xidClass == string(class))
			}))),
		cel.Function("xid_class", cel.Overload("xid_class_double", []*cel.Type{cel.DoubleType}, str,
			cel.UnaryBinding(func(v ref.Val) ref.Val {
				d, ok := v.(types.Double)
				if !ok {
					return types.MaybeNoSuchOverloadErr(v)
				}
				return types.String(voc.xidClass(int(d)))
			}))),
	}

}

// all returns the compiled expressions by source.
func (e *environment) all() map[string]*expression { return e.known }

// count returns the number of different expressions that were compiled.
func (e *environment) count() int { return len(e.known) }

// compile checks and compiles an expression. It returns the same one for the same source.
func (e *environment) compile(src string) (*expression, error) {
	if len(src) > maxExpression {
		return nil, fmt.Errorf("the expression has %d characters; %d are allowed", len(src), maxExpression)
	}
	if x, ok := e.known[src]; ok {
		return x, nil
	}
	checked, iss := e.env.Compile(src)
	if iss.Err() != nil {
		var out []string
		for _, ce := range iss.Errors() {
			out = append(out, fmt.Sprintf("column %d: %s", ce.Location.Column()+1, ce.Message))
		}
		return nil, errors.New(strings.Join(out, "; "))
	}
	if !checked.OutputType().IsExactType(cel.BoolType) {
		return nil, fmt.Errorf("the expression gives %s, not true or false", checked.OutputType())
	}
	if err := e.past(checked.NativeRep()); err != nil {
		return nil, err
	}
	together := ofOneMoment(checked.NativeRep())
	if together {
		if checked, iss = e.env.Compile(atOneMoment(src)); iss.Err() != nil {
			return nil, fmt.Errorf("preparing the expression: %w", iss.Err())
		}
	}
	prg, err := e.env.Program(checked)
	if err != nil {
		return nil, fmt.Errorf("preparing the expression: %w", err)
	}
	x := &expression{together: together, program: prg, fast: native(checked.NativeRep().Expr(), e.vocabulary)}
	root := ast.NavigateAST(checked.NativeRep())
	for _, n := range ast.MatchDescendants(root, ast.KindMatcher(ast.IdentKind)) {
		if id := n.AsIdent(); !slices.Contains(x.signals, id) {
			if _, ok := e.vocabulary.signals[id]; ok {
				x.signals = append(x.signals, id)
			}
		}
	}
	// The order of the source: the first signal is the expression's subject.
	slices.SortStableFunc(x.signals, func(a, b string) int { return strings.Index(src, a) - strings.Index(src, b) })
	x.number = len(e.known)
	e.known[src] = x
	return x, nil
}

// ofOneMoment reports whether an expression reads the baselines of several signals. Each baseline
// may be of another moment of the hour.
func ofOneMoment(checked *ast.AST) bool {
	of := map[string]bool{}
	for _, n := range ast.MatchDescendants(ast.NavigateAST(checked), ast.KindMatcher(ast.SelectKind)) {
		if s := n.AsSelect(); s.FieldName() == "baseline" {
			of[s.Operand().AsIdent()] = true
		}
	}
	return len(of) > 1
}

var baselineField = regexp.MustCompile(`\.baseline\b`)

// atOneMoment replaces the baselines by the values an hour before the onset.
func atOneMoment(src string) string { return baselineField.ReplaceAllString(src, ".hour_ago") }

// past rejects a past value that no query reads: the condition would never have an answer.
func (e *environment) past(checked *ast.AST) error {
	for _, n := range ast.MatchDescendants(ast.NavigateAST(checked), ast.KindMatcher(ast.SelectKind)) {
		s := n.AsSelect()
		id, field := s.Operand().AsIdent(), s.FieldName()
		read, past := e.vocabulary.past[field]
		if !past || read[id] {
			continue
		}
		var have []string
		for other, yes := range read {
			if yes {
				have = append(have, other)
			}
		}
		slices.Sort(have)
		return fmt.Errorf("%s.%s is never read: such values are read of %s", id, field, strings.Join(have, ", "))
	}
	return nil
}

// answer evaluates the expression. ok is false if a value that it needs is missing.
func (x *expression) answer(g subject) (holds, ok bool) {
	if x.fast != nil {
		return x.fast(g)
	}
	return x.interpret(g)
}

// isNative reports whether the expression is evaluated without CEL's interpreter.
func (x *expression) isNative() bool { return x.fast != nil }

// interpret evaluates the expression with CEL's interpreter. answer gives the same result.
func (x *expression) interpret(vars cel.Activation) (holds, ok bool) {
	out, _, err := x.program.Eval(vars)
	if err != nil {
		return false, false
	}
	b, ok := out.(types.Bool)
	return bool(b), ok
}

// A provider defines the type of a reading for CEL, so that loading finds unknown fields.
type provider struct {
	*types.Registry
}

func (p *provider) FindStructType(name string) (*types.Type, bool) {
	if name == readingType {
		return types.NewTypeTypeWithParam(types.NewObjectType(readingType)), true
	}
	return p.Registry.FindStructType(name)
}

func (p *provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if name != readingType {
		return p.Registry.FindStructFieldType(name, field)
	}
	i := slices.Index(readingFields, field)
	if i < 0 {
		return nil, false
	}
	t := types.DoubleType
	if field == "text" {
		t = types.StringType
	}
	return &types.FieldType{
		Type:    t,
		IsSet:   func(target any) bool { _, err := readField(target, i); return err == nil },
		GetFrom: func(target any) (any, error) { return readField(target, i) },
	}, true
}

const factsType = "paramedic.Facts"

// factsVal holds the facts of the alerts for expressions. It is a CEL value, so that functions can
// take it.
type factsVal struct {
	symptoms map[string]bool
	began    map[string]time.Time
	at       time.Time // time of the evidence
	hints    map[string]string
	xids     []alertedXid // the worst first
	xidClass string       // class of the first of xids
}

func (f *factsVal) has(s ref.Val) bool  { id, _ := s.(types.String); return f.symptoms[string(id)] }
func (f *factsVal) only(s ref.Val) bool { return len(f.symptoms) == 1 && f.has(s) }
func (f *factsVal) before(a, b ref.Val) bool {
	first, _ := a.(types.String)
	second, _ := b.(types.String)
	return f.beganBefore(string(first), string(second))
}

// ahead is the lead that a symptom needs to count as earlier than another, since rules for the same
// event have different "for" times.
const ahead = time.Minute

func (f *factsVal) beganBefore(first, second string) bool {
	a, aok := f.began[first]
	b, bok := f.began[second]
	return aok && bok && b.Sub(a) > ahead
}

// lasted reports whether a symptom is at least this many seconds old.
func (f *factsVal) lasted(id string, seconds float64) bool {
	began, ok := f.began[id]
	return ok && !began.IsZero() && f.at.Sub(began).Seconds() >= seconds
}

func (f *factsVal) hint(s ref.Val) string {
	key, _ := s.(types.String)
	return f.hints[string(key)]
}

// ConvertToNative is part of ref.Val.
func (f *factsVal) ConvertToNative(reflect.Type) (any, error) {
	return nil, errors.New("facts have no other form")
}

// ConvertToType is part of ref.Val.
func (f *factsVal) ConvertToType(ref.Type) ref.Val { return types.NewErr("facts have no other form") }

// Equal is part of ref.Val.
func (f *factsVal) Equal(other ref.Val) ref.Val { return types.Bool(other == ref.Val(f)) }

// Type is part of ref.Val.
func (f *factsVal) Type() ref.Type { return types.NewOpaqueType(factsType) }

// Value is part of ref.Val.
func (f *factsVal) Value() any { return f }
