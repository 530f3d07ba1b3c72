package condition

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"paramedic/internal/pattern"
)

// maxExpression limits the length of an expression, and so the cost of an evaluation: without
// macros there are no loops, and nothing is computed twice. A regular expression costs its program
// times its text. The pattern is limited, and an evaluation with a longer text has no answer.
const (
	maxExpression = 1024
	maxMatching   = 2000 // in CEL's units: for instance a text of 1024 and a pattern of 75 characters
)

const readingType = "paramedic.Reading"

// PoolKnown is the variable that reports whether the alerts name their pool.
const PoolKnown = "pool_known"

// TroubleAge is the variable with the seconds within which the trouble of the pool began.
const TroubleAge = "trouble_age"

// An Environment compiles expressions over the catalogue's signals.
type Environment struct {
	env        *cel.Env
	known      map[string]*Expression // by source
	vocabulary Vocabulary
}

// A Vocabulary names everything that an expression may use.
type Vocabulary struct {
	Signals  map[string]int             // signal → its number, by which a subject finds its reading
	Past     map[string]map[string]bool // baseline, hour_ago, day_ago and week_ago → signals that have it
	Symptoms func(id string) bool       // reports whether a symptom exists
	XIDClass func(code int) string      // returns the class of an Xid; empty if the table has none
}

// An Expression is one compiled condition with the signals that it reads.
type Expression struct {
	program cel.Program
	fast    boolFunc // the same condition without CEL; nil if CEL is needed
	Number  int      // index among the catalogue's expressions
	// Together means that it reads the past of several signals. All are then the values an hour
	// before the onset.
	Together bool
	Signals  []string
}

// NewEnvironment returns an environment that compiles expressions over the vocabulary.
func NewEnvironment(voc Vocabulary) (*Environment, error) {
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
		cel.Variable(TroubleAge, cel.DoubleType),
		cel.Variable("role", cel.StringType),
		cel.Variable("worker", cel.StringType),
		cel.Variable(PoolKnown, cel.BoolType),
	}
	opts = append(opts, functions(voc)...)
	for id := range voc.Signals {
		opts = append(opts, cel.Variable(id, cel.ObjectType(readingType)))
	}
	env, err := cel.NewCustomEnv(append([]cel.EnvOption{cel.StdLib()}, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("building the expression language: %w", err)
	}
	return &Environment{env: env, known: map[string]*Expression{}, vocabulary: voc}, nil
}

// macros returns the functions on alerts. They insert the facts as an argument, and check
// symptoms when an expression is compiled.
func macros(voc Vocabulary) []cel.Macro {
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
func (v Vocabulary) checkSymptoms(eh cel.MacroExprFactory, args []ast.Expr) *cel.Error {
	for _, a := range args {
		id, ok := a.AsLiteral().(types.String)
		if a.Kind() != ast.LiteralKind || !ok {
			return eh.NewError(a.ID(), "wants a symptom's ID in quotes")
		}
		if !v.Symptoms(string(id)) {
			return eh.NewError(a.ID(), fmt.Sprintf("no symptom %q", string(id)))
		}
	}
	return nil
}

// functions returns the implementations behind the macros, and xid_class.
func functions(voc Vocabulary) []cel.EnvOption {
	str, boolean, facts := cel.StringType, cel.BoolType, cel.OpaqueType(factsType)
	return []cel.EnvOption{
		cel.Function("has_symptom_", cel.Overload("has_symptom_facts", []*cel.Type{facts, str}, boolean,
			cel.BinaryBinding(func(f, s ref.Val) ref.Val { return types.Bool(f.(*Facts).has(s)) }))),
		cel.Function("only_symptom_", cel.Overload("only_symptom_facts", []*cel.Type{facts, str}, boolean,
			cel.BinaryBinding(func(f, s ref.Val) ref.Val { return types.Bool(f.(*Facts).only(s)) }))),
		cel.Function("began_before_", cel.Overload("began_before_facts", []*cel.Type{facts, str, str}, boolean,
			cel.FunctionBinding(func(v ...ref.Val) ref.Val {
				return types.Bool(v[0].(*Facts).before(v[1], v[2]))
			}))),
		cel.Function("lasted_", cel.Overload("lasted_facts", []*cel.Type{facts, str, cel.DoubleType}, boolean,
			cel.FunctionBinding(func(v ...ref.Val) ref.Val {
				id, _ := v[1].(types.String)
				seconds, _ := v[2].(types.Double)
				return types.Bool(v[0].(*Facts).lasted(string(id), float64(seconds)))
			}))),
		cel.Function("hint_", cel.Overload("hint_facts", []*cel.Type{facts, str}, str,
			cel.BinaryBinding(func(f, s ref.Val) ref.Val { return types.String(f.(*Facts).hint(s)) }))),
		cel.Function("alerted_xid_", cel.Overload("alerted_xid_facts", []*cel.Type{facts, str}, boolean,
			cel.BinaryBinding(func(f, s ref.Val) ref.Val {
				class, _ := s.(types.String)
				return types.Bool(f.(*Facts).XIDClass == string(class))
			}))),
		cel.Function("xid_class", cel.Overload("xid_class_double", []*cel.Type{cel.DoubleType}, str,
			cel.UnaryBinding(func(v ref.Val) ref.Val {
				d, ok := v.(types.Double)
				if !ok {
					return types.MaybeNoSuchOverloadErr(v)
				}
				return types.String(voc.XIDClass(int(d)))
			}))),
	}

}

// All returns the compiled expressions by source.
func (e *Environment) All() map[string]*Expression { return e.known }

// Count returns the number of different expressions that were compiled.
func (e *Environment) Count() int { return len(e.known) }

// Compile checks and compiles an expression. It returns the same one for the same source.
func (e *Environment) Compile(src string) (*Expression, error) {
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
	matching, err := patterns(checked.NativeRep())
	if err != nil {
		return nil, err
	}
	var limits []cel.ProgramOption
	if matching {
		limits = append(limits, cel.CostLimit(maxMatching))
	}
	prg, err := e.env.Program(checked, limits...)
	if err != nil {
		return nil, fmt.Errorf("preparing the expression: %w", err)
	}
	x := &Expression{Together: together, program: prg, fast: native(checked.NativeRep().Expr(), e.vocabulary)}
	root := ast.NavigateAST(checked.NativeRep())
	for _, n := range ast.MatchDescendants(root, ast.KindMatcher(ast.IdentKind)) {
		if id := n.AsIdent(); !slices.Contains(x.Signals, id) {
			if _, ok := e.vocabulary.Signals[id]; ok {
				x.Signals = append(x.Signals, id)
			}
		}
	}
	// The order of the source: the first signal is the expression's subject.
	slices.SortStableFunc(x.Signals, func(a, b string) int { return strings.Index(src, a) - strings.Index(src, b) })
	x.Number = len(e.known)
	e.known[src] = x
	return x, nil
}

// patterns reports whether an expression matches regular expressions, and refuses one that is
// computed or too large.
func patterns(checked *ast.AST) (matching bool, err error) {
	for _, n := range ast.MatchDescendants(ast.NavigateAST(checked), ast.FunctionMatcher("matches")) {
		args := n.AsCall().Args()
		text, ok := args[len(args)-1].AsLiteral().(types.String)
		if !ok || args[len(args)-1].Kind() != ast.LiteralKind {
			return false, errors.New("matches wants its regular expression as a text in quotes")
		}
		if _, err := pattern.Compile(string(text)); err != nil {
			return false, fmt.Errorf("matches: %w", err)
		}
		matching = true
	}
	return matching, nil
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
func (e *Environment) past(checked *ast.AST) error {
	for _, n := range ast.MatchDescendants(ast.NavigateAST(checked), ast.KindMatcher(ast.SelectKind)) {
		s := n.AsSelect()
		id, field := s.Operand().AsIdent(), s.FieldName()
		read, past := e.vocabulary.Past[field]
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

// Answer evaluates the expression. ok is false if a value that it needs is missing.
func (x *Expression) Answer(g Subject) (holds, ok bool) {
	if x.fast != nil {
		return x.fast(g)
	}
	return x.Interpret(g)
}

// IsNative reports whether the expression is evaluated without CEL's interpreter.
func (x *Expression) IsNative() bool { return x.fast != nil }

// Interpret evaluates the expression with CEL's interpreter. answer gives the same result.
func (x *Expression) Interpret(vars cel.Activation) (holds, ok bool) {
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
	i := slices.Index(ReadingFields, field)
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
