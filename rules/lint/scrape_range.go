package lint

import (
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"paramedic/rules/promql"
	"paramedic/state"
)

// needTwo are the functions that need two samples.
var needTwo = []string{"rate", "irate", "increase", "delta", "idelta", "deriv", "predict_linear",
	"double_exponential_smoothing", "holt_winters"}

// ranged returns the selector and the range of a function of needTwo. It returns nil for other
// functions, and for ranges over subqueries.
func ranged(x *parser.Call) (*parser.VectorSelector, time.Duration) {
	if !slices.Contains(needTwo, x.Func.Name) {
		return nil, 0
	}
	for _, a := range x.Args {
		if m, ok := promql.Unwrap(a).(*parser.MatrixSelector); ok && m.Range > 0 {
			sel, _ := m.VectorSelector.(*parser.VectorSelector)
			return sel, m.Range
		}
	}
	return nil, 0
}

// brief reports whether a range may be shorter than two scrape intervals of some job.
func (c *inventory) brief(d time.Duration) bool {
	for _, every := range c.have.Scraped {
		if d < 2*every {
			return true
		}
	}
	return false
}

// scraped returns the shortest scrape interval of a metric; zero if it is unknown for one of its
// jobs.
func (c *inventory) scraped(metric string) time.Duration {
	var out time.Duration
	for _, job := range c.valuesOf(metric, "job") {
		every := c.have.Scraped[job]
		if every == 0 {
			return 0
		}
		if out == 0 || every < out {
			out = every
		}
	}
	return out
}

// sparse reports ranges shorter than two scrape intervals: the function then has no value, or only
// sometimes.
func (l *linter) sparse(x *parser.Call, path []parser.Node) {
	sel, d := ranged(x)
	if sel == nil {
		return
	}
	every := l.scraped(sel.Name)
	fix := fmt.Sprintf("use a range of at least four scrapes: [%s]", state.FormatDuration(4*every))
	scrape, window := state.FormatDuration(every), state.FormatDuration(d)
	why := fmt.Sprintf("%s needs two samples, and %s is scraped every %s: the last %s",
		x.Func.Name, sel.Name, scrape, window)
	switch {
	case d < every && !deciding(x, path):
		l.report(state.Warning, "one part never has a value: "+why+" have at most one", fix)
	case d < every:
		l.report(state.Critical, "never fires: "+why+" have at most one", fix)
	case d < 2*every:
		l.report(state.Warning, "has gaps: "+why+" do not always have two", fix)
	}
}
