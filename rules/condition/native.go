package condition

import (
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// Evidence is a few kinds of expression that are evaluated for hundreds of entities, and CEL's
// interpreter allocates for every number. Therefore the catalogue's common expressions are compiled
// to Go functions: readings, numbers, texts, comparisons, arithmetic and logic. They give the same
// answers as CEL, also if values are missing; TestNativeAnswersAreCELs verifies it. CEL evaluates
// all other expressions.
type (
	boolFunc   func(Subject) (holds, ok bool)
	numberFunc func(Subject) Number
	textFunc   func(Subject) (string, bool)
)

// native compiles a checked expression. It returns nil if only CEL can evaluate a part of it.
func native(x ast.Expr, voc Vocabulary) boolFunc {
	switch x.Kind() {
	case ast.LiteralKind:
		if b, ok := x.AsLiteral().(types.Bool); ok {
			return func(Subject) (bool, bool) { return bool(b), true }
		}
		return nil
	case ast.IdentKind:
		if x.AsIdent() == PoolKnown {
			return func(g Subject) (bool, bool) { return g.PoolKnown(), true }
		}
		return nil
	case ast.CallKind:
	default:
		return nil
	}
	call := x.AsCall()
	args := call.Args()
	switch call.FunctionName() {
	case operators.LogicalAnd, operators.LogicalOr:
		return connective(native(args[0], voc), native(args[1], voc), call.FunctionName() == operators.LogicalOr)
	case operators.LogicalNot:
		of := native(args[0], voc)
		if of == nil {
			return nil
		}
		return func(g Subject) (bool, bool) {
			holds, ok := of(g)
			return !holds, ok
		}
	case "has_symptom_", "only_symptom_":
		id, ok := args[1].AsLiteral().(types.String)
		if !ok {
			return nil
		}
		only := call.FunctionName() == "only_symptom_"
		return func(g Subject) (bool, bool) {
			f := g.Facts()
			return f.Symptoms[string(id)] && (!only || len(f.Symptoms) == 1), true
		}
	case "began_before_":
		first, ok := args[1].AsLiteral().(types.String)
		second, also := args[2].AsLiteral().(types.String)
		if !ok || !also {
			return nil
		}
		return func(g Subject) (bool, bool) { return g.Facts().beganBefore(string(first), string(second)), true }
	case "lasted_":
		id, ok := args[1].AsLiteral().(types.String)
		seconds, also := args[2].AsLiteral().(types.Double)
		if !ok || !also {
			return nil
		}
		return func(g Subject) (bool, bool) { return g.Facts().lasted(string(id), float64(seconds)), true }
	case "alerted_xid_":
		class, ok := args[1].AsLiteral().(types.String)
		if args[1].Kind() != ast.LiteralKind || !ok {
			return nil
		}
		return func(g Subject) (bool, bool) { return g.Facts().XIDClass == string(class), true }
	}
	return comparison(call.FunctionName(), args, voc)
}

// connective returns a && b or, with either, a || b. If one side decides, the other may be missing.
func connective(a, b boolFunc, either bool) boolFunc {
	if a == nil || b == nil {
		return nil
	}
	return func(g Subject) (bool, bool) {
		x, xok := a(g)
		if xok && x == either {
			return either, true
		}
		y, yok := b(g)
		if yok && y == either {
			return either, true
		}
		return !either, xok && yok
	}
}

func comparison(op string, args []ast.Expr, voc Vocabulary) boolFunc {
	if len(args) != 2 {
		return nil
	}
	if a, b := amount(args[0], voc), amount(args[1], voc); a != nil && b != nil {
		compare := comparisons[op]
		if compare == nil {
			return nil
		}
		if args[1].Kind() == ast.LiteralKind { // the most frequent case
			y := b(nil).V
			return func(g Subject) (bool, bool) {
				x := a(g)
				return compare(x.V, y), x.OK
			}
		}
		return func(g Subject) (bool, bool) {
			x, y := a(g), b(g)
			return compare(x.V, y.V), x.OK && y.OK
		}
	}
	a, b := spelling(args[0], voc), spelling(args[1], voc)
	if a == nil || b == nil || op != operators.Equals && op != operators.NotEquals {
		return nil
	}
	return func(g Subject) (bool, bool) {
		x, xok := a(g)
		y, yok := b(g)
		return (x == y) == (op == operators.Equals), xok && yok
	}
}

var comparisons = map[string]func(a, b float64) bool{
	operators.Less:          func(a, b float64) bool { return a < b },
	operators.LessEquals:    func(a, b float64) bool { return a <= b },
	operators.Greater:       func(a, b float64) bool { return a > b },
	operators.GreaterEquals: func(a, b float64) bool { return a >= b },
	operators.Equals:        func(a, b float64) bool { return a == b },
	operators.NotEquals:     func(a, b float64) bool { return a != b },
}

var arithmetic = map[string]func(a, b float64) float64{
	operators.Add:      func(a, b float64) float64 { return a + b },
	operators.Subtract: func(a, b float64) float64 { return a - b },
	operators.Multiply: func(a, b float64) float64 { return a * b },
	operators.Divide:   func(a, b float64) float64 { return a / b },
}

// amount compiles a number expression. Integers are accepted only as literals, since CEL's integer
// arithmetic differs.
func amount(x ast.Expr, voc Vocabulary) numberFunc {
	switch x.Kind() {
	case ast.LiteralKind:
		var n Number
		switch v := x.AsLiteral().(type) {
		case types.Double:
			n = Some(float64(v))
		case types.Int:
			n = Some(float64(v))
		default:
			return nil
		}
		return func(Subject) Number { return n }
	case ast.IdentKind:
		switch x.AsIdent() {
		case "workers":
			return func(g Subject) Number { return Some(float64(g.Workers())) }
		case TroubleAge:
			return func(g Subject) Number { return Some(g.TroubleAge()) }
		}
		return nil
	case ast.SelectKind:
		return field(x.AsSelect(), voc)
	case ast.CallKind:
		call := x.AsCall()
		op := arithmetic[call.FunctionName()]
		if op == nil || len(call.Args()) != 2 || integer(call.Args()[0]) || integer(call.Args()[1]) {
			return nil
		}
		a, b := amount(call.Args()[0], voc), amount(call.Args()[1], voc)
		if a == nil || b == nil {
			return nil
		}
		return func(g Subject) Number {
			p, q := a(g), b(g)
			return Number{V: op(p.V, q.V), OK: p.OK && q.OK}
		}
	}
	return nil
}

func integer(x ast.Expr) bool {
	_, is := x.AsLiteral().(types.Int)
	return x.Kind() == ast.LiteralKind && is
}

// field compiles a number of a reading, such as kv_usage.max.
func field(s ast.SelectExpr, voc Vocabulary) numberFunc {
	if s.IsTestOnly() || s.Operand().Kind() != ast.IdentKind || s.FieldName() == "text" {
		return nil
	}
	id, least := s.Operand().AsIdent(), s.FieldName() == "least"
	signal, known := voc.Signals[id]
	of := fields[s.FieldName()]
	if of == nil || !known {
		return nil
	}
	return func(g Subject) Number {
		r := g.ReadingAt(signal)
		if r == nil && least {
			r = g.LowerBound(id)
		}
		if r == nil {
			return Number{}
		}
		return of(r)
	}
}

// spelling compiles a text expression.
func spelling(x ast.Expr, voc Vocabulary) textFunc {
	switch x.Kind() {
	case ast.LiteralKind:
		s, ok := x.AsLiteral().(types.String)
		if !ok {
			return nil
		}
		return func(Subject) (string, bool) { return string(s), true }
	case ast.IdentKind:
		switch x.AsIdent() {
		case "role":
			return func(g Subject) (string, bool) { return g.Role(), true }
		case "worker":
			return func(g Subject) (string, bool) { return g.Pod(), true }
		}
		return nil
	case ast.SelectKind:
		s := x.AsSelect()
		if s.IsTestOnly() || s.Operand().Kind() != ast.IdentKind || s.FieldName() != "text" {
			return nil
		}
		signal, known := voc.Signals[s.Operand().AsIdent()]
		if !known {
			return nil
		}
		return func(g Subject) (string, bool) {
			if r := g.ReadingAt(signal); r != nil {
				return r.Text, r.HasText()
			}
			return "", false
		}
	case ast.CallKind:
		return spelled(x.AsCall(), voc)
	}
	return nil
}

func spelled(call ast.CallExpr, voc Vocabulary) textFunc {
	args := call.Args()
	switch call.FunctionName() {
	case "hint_":
		key, ok := args[1].AsLiteral().(types.String)
		if args[1].Kind() != ast.LiteralKind || !ok {
			return nil
		}
		return func(g Subject) (string, bool) { return g.Facts().Hints[string(key)], true }
	case "xid_class":
		code := amount(args[0], voc)
		if code == nil {
			return nil
		}
		return func(g Subject) (string, bool) {
			n := code(g)
			return voc.XIDClass(int(n.V)), n.OK
		}
	}
	return nil
}
