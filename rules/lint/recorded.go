package lint

import (
	"iter"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"paramedic/rules/promql"
)

// Limits of the expansion of one alert rule: recording rules may read other recording rules without
// end.
const (
	maxPutIn = 100 // recording rules that are expanded in an alert rule
	maxNamed = 8   // metrics that one selector with a name pattern is expanded to
)

// An inventory holds the known facts about a fleet, indexed.
type inventory struct {
	have    Exported
	records map[string][]RecordingRule
	names   map[string][]string // by pattern
	meantBy map[string]string   // suggestions for names that do not exist
	byWord  map[string][]string // existing names by their first words; nil until needed
}

func newInventory(have Exported) *inventory {
	c := &inventory{have: have, records: map[string][]RecordingRule{}, names: map[string][]string{},
		meantBy: map[string]string{}}
	for _, r := range have.Recorded {
		c.records[r.Name] = append(c.records[r.Name], r)
	}
	return c
}

// named returns the metrics of engines and GPUs, and recorded ones, that match a pattern.
func (c *inventory) named(m *labels.Matcher) []string {
	out, ok := c.names[m.Value]
	if ok {
		return out
	}
	for name := range c.have.Metrics {
		if (family(name) != "" || c.records[name] != nil) && m.Matches(name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	c.names[m.Value] = out
	return out
}

// meant returns the metrics that a name pattern selects: those that exist, or those that it lists.
// It returns none if there are more than maxNamed.
func (c *inventory) meant(m *labels.Matcher) []string {
	names := c.named(m)
	if len(names) == 0 {
		for _, name := range m.SetMatches() {
			if family(name) != "" {
				names = append(names, name)
			}
		}
	}
	if len(names) > maxNamed {
		return nil
	}
	return names
}

// namesMatcher returns the matcher that selects metrics by a name pattern.
func namesMatcher(x *parser.VectorSelector) *labels.Matcher {
	for _, m := range x.LabelMatchers {
		if m.Name == promql.NameLabel && m.Type == labels.MatchRegexp {
			return m
		}
	}
	return nil
}

// An expanded is one reading of a rule's expression. Recorded series are replaced by the
// expressions that record them, and each selector names one metric if possible.
type expanded struct {
	expr     parser.Expr
	from     map[*parser.VectorSelector]string            // the recording rule that a selector is part of
	recorded map[*parser.ParenExpr]*parser.VectorSelector // the original selector of a recorded series
}

// readings returns the readings of an expression. There are several if a name pattern matches
// several metrics.
func (c *inventory) readings(expr string) iter.Seq[expanded] {
	return func(yield func(expanded) bool) {
		for i, n := 0, 1; i < n; i++ {
			e, err := promql.Parser.ParseExpr(expr)
			if err != nil {
				return
			}
			x := expansion{inventory: c, nth: i,
				expanded: expanded{from: map[*parser.VectorSelector]string{},
					recorded: map[*parser.ParenExpr]*parser.VectorSelector{}}}
			x.expr = x.expand(e, nil)
			n = max(n, x.named)
			if !yield(x.expanded) {
				return
			}
		}
	}
}

// An expansion produces the nth reading.
type expansion struct {
	*inventory
	expanded
	nth   int
	named int // the most metrics that a pattern matched
	put   int // number of recording rules expanded so far
}

// expand rewrites an expression. inside lists the recording rules around it.
func (x *expansion) expand(e parser.Expr, inside []string) parser.Expr {
	switch e := e.(type) {
	case *parser.VectorSelector:
		return x.selector(e, inside)
	case *parser.MatrixSelector:
		sel, ok := e.VectorSelector.(*parser.VectorSelector)
		if !ok {
			return e
		}
		to := x.selector(sel, inside)
		if to == parser.Expr(sel) {
			return e
		}
		return &parser.SubqueryExpr{Expr: to, Range: e.Range, OriginalOffset: sel.OriginalOffset}
	case *parser.SubqueryExpr:
		e.Expr = x.expand(e.Expr, inside)
	case *parser.ParenExpr:
		e.Expr = x.expand(e.Expr, inside)
	case *parser.StepInvariantExpr:
		e.Expr = x.expand(e.Expr, inside)
	case *parser.UnaryExpr:
		e.Expr = x.expand(e.Expr, inside)
	case *parser.AggregateExpr:
		e.Expr = x.expand(e.Expr, inside)
	case *parser.Call:
		for i, a := range e.Args {
			e.Args[i] = x.expand(a, inside)
		}
	case *parser.BinaryExpr:
		e.LHS, e.RHS = x.expand(e.LHS, inside), x.expand(e.RHS, inside)
	}
	return e
}

// selector returns the selector with its metric name, or the expressions of the recording rules
// that produce its series.
func (x *expansion) selector(sel *parser.VectorSelector, inside []string) parser.Expr {
	if len(inside) > 0 {
		x.from[sel] = inside[0]
	}
	x.name(sel)
	if slices.Contains(inside, sel.Name) {
		return sel
	}
	var out parser.Expr
	for _, r := range x.records[sel.Name] {
		if !records(r, sel) {
			continue
		}
		e, err := promql.Parser.ParseExpr(r.Expr)
		if x.put++; err != nil || len(r.Expr) > maxLinted || x.put > maxPutIn {
			return sel // expanding only some of the rules would be wrong
		}
		e = x.expand(e, append(slices.Clone(inside), r.Name))
		if out == nil {
			out = e
			continue
		}
		out = &parser.BinaryExpr{Op: parser.LOR, LHS: out, RHS: e,
			VectorMatching: &parser.VectorMatching{Card: parser.CardManyToMany}}
	}
	if out == nil {
		return sel
	}
	p := &parser.ParenExpr{Expr: out}
	x.recorded[p] = sel
	return p
}

// name sets the metric name of a selector from its matchers.
func (x *expansion) name(sel *parser.VectorSelector) {
	for _, m := range sel.LabelMatchers {
		if m.Name != promql.NameLabel || sel.Name != "" {
			continue
		}
		switch m.Type {
		case labels.MatchEqual:
			sel.Name = m.Value
		case labels.MatchRegexp:
			if names := x.meant(m); len(names) > 0 {
				sel.Name = names[x.nth%len(names)]
				x.named = max(x.named, len(names))
			}
		}
	}
}

// records reports whether a rule may record the series of a selector: its fixed labels match the
// selector.
func records(r RecordingRule, sel *parser.VectorSelector) bool {
	for _, m := range sel.LabelMatchers {
		if v, set := r.Labels[m.Name]; set && m.Name != promql.NameLabel && !m.Matches(v) {
			return false
		}
	}
	return true
}

// origin returns the recording rule that contains the first selector of an expression.
func (e expanded) origin(n parser.Node) string {
	for _, sel := range promql.SelectorsOf(n) {
		return e.from[sel]
	}
	return ""
}

// selectedBy returns the selectors of the original expression, those of recorded series included.
func (e expanded) selectedBy() []*parser.VectorSelector {
	out := promql.SelectorsOf(e.expr)
	for _, sel := range e.recorded {
		out = append(out, sel)
	}
	slices.SortFunc(out, func(a, b *parser.VectorSelector) int { return strings.Compare(a.String(), b.String()) })
	return out
}
