package prometheus

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
)

// An evaluator for the part of PromQL that compiled queries use, on data in memory. It tests the
// meaning of queries. It follows Prometheus' documentation, not package engine, because tests
// compare the two.

type tsPoint struct {
	at time.Time
	v  float64
}

type tsSeries struct {
	labels map[string]string
	points []tsPoint
}

// A store keeps the keys of its series sorted.
type store struct {
	series map[string]*tsSeries
	keys   []string
}

func (s *store) add(labels map[string]string, at time.Time, v float64) {
	k := signature(labels)
	if s.series == nil {
		s.series = map[string]*tsSeries{}
	}
	if s.series[k] == nil {
		s.series[k] = &tsSeries{labels: labels}
		at, _ := slices.BinarySearch(s.keys, k)
		s.keys = slices.Insert(s.keys, at, k)
	}
	s.series[k].points = append(s.series[k].points, tsPoint{at, v})
}

func signature(labels map[string]string) string {
	names := make([]string, 0, len(labels))
	for name, v := range labels {
		if v != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var b []byte
	for _, name := range names {
		b = append(strconv.AppendQuote(append(append(b, name...), '='), labels[name]), ',')
	}
	return string(b)
}

type element struct {
	labels map[string]string
	v      float64
}

func without(labels map[string]string, names ...string) map[string]string {
	out := maps.Clone(labels)
	for _, n := range names {
		delete(out, n)
	}
	return out
}

func parse(q string) (parser.Expr, error) {
	return parser.NewParser(parser.Options{}).ParseExpr(q)
}

func (s *store) query(q string, at time.Time) ([]element, error) {
	expr, err := parse(q)
	if err != nil {
		return nil, err
	}
	return s.eval(expr, at), nil
}

func (s *store) eval(e parser.Expr, t time.Time) []element {
	switch e := e.(type) {
	case *parser.ParenExpr:
		return s.eval(e.Expr, t)
	case *parser.NumberLiteral:
		return []element{{v: e.Val}}
	case *parser.VectorSelector:
		var out []element
		t = t.Add(-e.OriginalOffset)
		for _, sr := range s.selected(e) {
			if p, ok := sr.newest(t); ok {
				out = append(out, element{sr.labels, p.v})
			}
		}
		return out
	case *parser.AggregateExpr:
		return aggregate(e, s.eval(e.Expr, t))
	case *parser.BinaryExpr:
		return s.binary(e, t)
	case *parser.Call:
		return s.call(e, t)
	}
	panic(fmt.Sprintf("not understood: %T %s", e, e))
}

func (s *store) selected(v *parser.VectorSelector) []*tsSeries {
	var out []*tsSeries
	for _, k := range s.keys {
		ok := true
		for _, m := range v.LabelMatchers {
			ok = ok && m.Matches(s.series[k].labels[m.Name])
		}
		if ok {
			out = append(out, s.series[k])
		}
	}
	return out
}

func pointsIn(points []tsPoint, from, to time.Time) []tsPoint {
	lo := sort.Search(len(points), func(i int) bool { return points[i].at.After(from) })
	hi := sort.Search(len(points), func(i int) bool { return points[i].at.After(to) })
	return points[lo:hi]
}

func aggregate(e *parser.AggregateExpr, in []element) []element {
	groups := map[string]*element{}
	var order []string
	for _, x := range in {
		by := map[string]string{}
		for _, g := range e.Grouping {
			if v := x.labels[g]; v != "" {
				by[g] = v
			}
		}
		k := signature(by)
		g := groups[k]
		if e.Op == parser.COUNT {
			x.v = 1
		}
		if g == nil {
			groups[k], order = &element{by, x.v}, append(order, k)
			continue
		}
		switch e.Op {
		case parser.SUM, parser.COUNT:
			g.v += x.v
		case parser.MAX:
			g.v = math.Max(g.v, x.v)
		case parser.MIN:
			g.v = math.Min(g.v, x.v)
		default:
			panic("aggregation " + e.Op.String())
		}
	}
	var out []element
	for _, k := range order {
		out = append(out, *groups[k])
	}
	return out
}

func (s *store) binary(e *parser.BinaryExpr, t time.Time) []element {
	l, r := s.eval(e.LHS, t), s.eval(e.RHS, t)
	plain := func(x element) string {
		if m := e.VectorMatching; m != nil && m.On {
			kept := map[string]string{}
			for _, name := range m.MatchingLabels {
				kept[name] = x.labels[name]
			}
			return signature(kept)
		}
		return signature(without(x.labels, "__name__"))
	}
	right := map[string]element{}
	for _, x := range r {
		right[plain(x)] = x
	}
	var out []element
	switch e.Op {
	case parser.LAND:
		for _, x := range l {
			if _, ok := right[plain(x)]; ok {
				out = append(out, x)
			}
		}
		return out
	case parser.LOR:
		have := map[string]bool{}
		for _, x := range l {
			have[plain(x)] = true
		}
		for _, x := range r {
			if !have[plain(x)] {
				l = append(l, x)
			}
		}
		return l
	}
	scalar := func(e parser.Expr) bool { return e.Type() == parser.ValueTypeScalar }
	if scalar(e.LHS) {
		for _, y := range r {
			v, _ := operate(e.Op, l[0].v, y.v)
			out = append(out, element{without(y.labels, "__name__"), v})
		}
		return out
	}
	for _, x := range l {
		var y element
		switch {
		case scalar(e.RHS):
			y = r[0]
		default:
			var ok bool
			if y, ok = right[plain(x)]; !ok {
				continue
			}
		}
		v, keep := operate(e.Op, x.v, y.v)
		switch {
		case e.Op.IsComparisonOperator() && e.ReturnBool:
			out = append(out, element{without(x.labels, "__name__"), map[bool]float64{true: 1}[keep]})
		case e.Op.IsComparisonOperator() && keep:
			out = append(out, x)
		case !e.Op.IsComparisonOperator():
			out = append(out, element{without(x.labels, "__name__"), v})
		}
	}
	return out
}

func operate(op parser.ItemType, a, b float64) (float64, bool) {
	switch op {
	case parser.ADD:
		return a + b, true
	case parser.SUB:
		return a - b, true
	case parser.MUL:
		return a * b, true
	case parser.DIV:
		return a / b, true
	case parser.GTR:
		return 0, a > b
	case parser.GTE:
		return 0, a >= b
	case parser.LSS:
		return 0, a < b
	case parser.EQLC:
		return 0, a == b
	case parser.NEQ:
		return 0, a != b
	}
	panic("operator " + op.String())
}

func (s *store) call(e *parser.Call, t time.Time) []element {
	str := func(i int) string { return e.Args[i].(*parser.StringLiteral).Val }
	switch e.Func.Name {
	case "label_replace":
		var out []element
		from := regexp.MustCompile("^(?s:" + str(4) + ")$")
		for _, x := range s.eval(e.Args[0], t) {
			l := maps.Clone(x.labels)
			if at := from.FindStringSubmatchIndex(x.labels[str(3)]); at != nil {
				l[str(1)] = string(from.ExpandString(nil, str(2), x.labels[str(3)], at))
			}
			out = append(out, element{l, x.v})
		}
		return out
	case "timestamp":
		var out []element
		sel, ok := e.Args[0].(*parser.VectorSelector)
		if !ok { // of a computed vector, the time of the evaluation
			for _, x := range s.eval(e.Args[0], t) {
				out = append(out, element{without(x.labels, "__name__"), float64(t.UnixMilli()) / 1000})
			}
			return out
		}
		for _, sr := range s.selected(sel) {
			if p, ok := sr.newest(t); ok {
				out = append(out, element{without(sr.labels, "__name__"), float64(p.at.UnixMilli()) / 1000})
			}
		}
		return out
	case "time":
		return []element{{v: float64(t.UnixMilli()) / 1000}}
	case "clamp_min":
		out := s.eval(e.Args[0], t)
		for i := range out {
			out[i].v = math.Max(out[i].v, s.eval(e.Args[1], t)[0].v)
		}
		return out
	case "histogram_quantile":
		return histogramQuantile(s.eval(e.Args[0], t)[0].v, s.eval(e.Args[1], t))
	}
	return s.rangeCall(e, t)
}

func (s *store) rangeCall(e *parser.Call, t time.Time) []element {
	var out []element
	apply := func(labels map[string]string, points []tsPoint, w time.Duration) {
		if v, ok := rangeFunction(e.Func.Name, points, t, w); ok {
			out = append(out, element{without(labels, "__name__"), v})
		}
	}
	switch arg := e.Args[0].(type) {
	case *parser.MatrixSelector:
		t = t.Add(-arg.VectorSelector.(*parser.VectorSelector).OriginalOffset)
		for _, sr := range s.selected(arg.VectorSelector.(*parser.VectorSelector)) {
			apply(sr.labels, unmarked(pointsIn(sr.points, t.Add(-arg.Range), t)), arg.Range)
		}
	case *parser.SubqueryExpr:
		t = t.Add(-arg.OriginalOffset)
		by, sub := map[string]*tsSeries{}, []string{}
		for at := t.Add(-arg.Range).Truncate(arg.Step).Add(arg.Step); !at.After(t); at = at.Add(arg.Step) {
			for _, x := range s.eval(arg.Expr, at) {
				k := signature(x.labels)
				if by[k] == nil {
					by[k], sub = &tsSeries{labels: x.labels}, append(sub, k)
				}
				by[k].points = append(by[k].points, tsPoint{at, x.v})
			}
		}
		for _, k := range sub {
			apply(by[k].labels, by[k].points, arg.Range)
		}
	default:
		panic("argument of " + e.Func.Name)
	}
	return out
}

func rangeFunction(name string, p []tsPoint, t time.Time, w time.Duration) (float64, bool) {
	if len(p) == 0 {
		return 0, false
	}
	switch name {
	case "count_over_time":
		return float64(len(p)), true
	case "avg_over_time":
		sum := 0.0
		for _, x := range p {
			sum += x.v
		}
		return sum / float64(len(p)), true
	case "min_over_time":
		return slices.MinFunc(p, func(a, b tsPoint) int { return int(math.Copysign(1, a.v-b.v)) }).v, true
	case "max_over_time":
		return slices.MaxFunc(p, func(a, b tsPoint) int { return int(math.Copysign(1, a.v-b.v)) }).v, true
	case "changes":
		n := 0.0
		for i := range p[1:] {
			if p[i].v != p[i+1].v {
				n++
			}
		}
		return n, true
	case "deriv":
		if len(p) < 2 {
			return 0, false
		}
		var mx, my, num, den float64
		for _, x := range p {
			mx, my = mx+x.at.Sub(t).Seconds()/float64(len(p)), my+x.v/float64(len(p))
		}
		for _, x := range p {
			d := x.at.Sub(t).Seconds() - mx
			num, den = num+d*(x.v-my), den+d*d
		}
		return num / den, true
	case "rate", "increase":
		if len(p) < 2 {
			return 0, false
		}
		first, last := p[0], p[len(p)-1]
		grown := 0.0
		for i := range p[1:] {
			if d := p[i+1].v - p[i].v; d >= 0 {
				grown += d
			} else {
				grown += p[i+1].v
			}
		}
		seen := last.at.Sub(first.at).Seconds()
		every := seen / float64(len(p)-1)
		before, after := first.at.Sub(t.Add(-w)).Seconds(), t.Sub(last.at).Seconds()
		if before >= 1.1*every {
			before = every / 2
		}
		if grown > 0 && first.v >= 0 {
			before = math.Min(before, seen*first.v/grown)
		}
		if after >= 1.1*every {
			after = every / 2
		}
		grown *= (before + seen + after) / seen
		if name == "rate" {
			grown /= w.Seconds()
		}
		return grown, true
	}
	panic("function " + name)
}

func histogramQuantile(q float64, in []element) []element {
	type le struct{ bound, n float64 }
	groups := map[string][]le{}
	labels := map[string]map[string]string{}
	for _, x := range in {
		bound, err := strconv.ParseFloat(x.labels["le"], 64)
		if err != nil {
			continue
		}
		rest := without(x.labels, "le", "__name__")
		k := signature(rest)
		groups[k], labels[k] = append(groups[k], le{bound, x.v}), rest
	}
	var out []element
	for _, k := range slices.Sorted(maps.Keys(groups)) {
		b := groups[k]
		slices.SortFunc(b, func(x, y le) int { return int(math.Copysign(1, x.bound-y.bound)) })
		total := b[len(b)-1].n
		v := math.NaN()
		if total > 0 && math.IsInf(b[len(b)-1].bound, 1) {
			low := le{}
			for i, x := range b {
				if x.n >= q*total {
					v = low.bound + (x.bound-low.bound)*(q*total-low.n)/(x.n-low.n)
					if i == len(b)-1 {
						v = low.bound
					}
					break
				}
				low = x
			}
		}
		out = append(out, element{labels[k], v})
	}
	return out
}
