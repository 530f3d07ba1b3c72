package lint

import (
	"maps"
	"slices"

	"github.com/prometheus/prometheus/promql/parser"

	"paramedic/rules/promql"
)

// A Lookup is a metric with the labels whose values alert rules depend on.
type Lookup struct {
	Metric string
	Labels []string
}

// Lookups returns the labels that Lint needs to know; [Exported.Labels] takes the answers. It
// returns only existing metrics of engines, routers and GPUs, and recorded ones. For other metrics
// it returns only the job, if a rule depends on their scrape interval.
func Lookups(in []AlertingRule, have Exported) []Lookup {
	known := newInventory(have)
	q := lookupSet{known: known, asks: map[string]map[string]bool{}}
	for _, r := range in {
		if len(r.Expr) > maxLinted {
			continue
		}
		for e := range known.readings(r.Expr) {
			q.matchers(e)
			parser.Inspect(e.expr, func(n parser.Node, _ []parser.Node) error {
				q.node(n)
				return nil
			})
		}
	}
	var out []Lookup
	for _, metric := range slices.Sorted(maps.Keys(q.asks)) {
		out = append(out, Lookup{Metric: metric, Labels: slices.Sorted(maps.Keys(q.asks[metric]))})
	}
	return out
}

// A lookupSet collects the labels to look up.
type lookupSet struct {
	known *inventory
	asks  map[string]map[string]bool // metric → labels
}

func (q lookupSet) add(metric string, names ...string) {
	if q.asks[metric] == nil {
		q.asks[metric] = map[string]bool{}
	}
	for _, name := range names {
		q.asks[metric][name] = true
	}
}

// ask adds a metric that exists and that an engine, router or GPU exports, or a rule records.
func (q lookupSet) ask(metric string, names ...string) {
	if q.known.have.Metrics[metric] && (family(metric) != "" || q.known.records[metric] != nil) {
		q.add(metric, names...)
	}
}

// matchers adds the labels that selectors require.
func (q lookupSet) matchers(e expanded) {
	for _, sel := range e.selectedBy() {
		for _, m := range sel.LabelMatchers {
			if m.Name != promql.NameLabel && selective(m) {
				q.ask(sel.Name, m.Name)
			}
		}
	}
}

// node adds the labels that a function, an aggregation or a binary operation depends on.
func (q lookupSet) node(n parser.Node) {
	switch x := n.(type) {
	case *parser.Call:
		if x.Func.Name == "histogram_quantile" {
			q.ask(bucketOf(x), "le")
		}
		if sel, d := ranged(x); sel != nil && q.known.have.Metrics[sel.Name] && q.known.brief(d) {
			q.add(sel.Name, "job")
		}
		if slices.Contains(moving, x.Func.Name) && lastXid(x) != nil {
			q.ask(xidErrors)
		}
	case *parser.AggregateExpr:
		if sel := single(x.Expr); sel != nil && len(x.Grouping) > 0 && !x.Without {
			q.ask(sel.Name)
		}
	case *parser.BinaryExpr:
		if x.VectorMatching != nil && x.Op != parser.LOR {
			for _, sel := range promql.SelectorsOf(x) {
				q.ask(sel.Name)
			}
		}
	}
}
