package rules

import (
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"paramedic/state"
)

// needTwo are the functions that have no value where there is one sample.
var needTwo = []string{"rate", "irate", "increase", "delta", "idelta", "deriv", "predict_linear", "double_exponential_smoothing", "holt_winters"}

// ranged is what a function of needTwo looks back on; nil where it is none, or looks back on
// nothing that is scraped.
func ranged(x *parser.Call) (*parser.VectorSelector, time.Duration) {
	if !slices.Contains(needTwo, x.Func.Name) {
		return nil, 0
	}
	for _, a := range x.Args {
		if m, ok := unwrap(a).(*parser.MatrixSelector); ok && m.Range > 0 {
			sel, _ := m.VectorSelector.(*parser.VectorSelector)
			return sel, m.Range
		}
	}
	return nil, 0
}

// brief says whether a range may be shorter than two scrapes of something.
func (c *inventory) brief(d time.Duration) bool {
	for _, every := range c.have.Scraped {
		if d < 2*every {
			return true
		}
	}
	return false
}

// scraped is how often a metric is scraped, at the shortest; zero where that is not known of all of
// its jobs.
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

// sparse finds ranges that are shorter than two scrapes: what is computed of them has no value, or
// only now and then.
func (l *linter) sparse(x *parser.Call, path []parser.Node) {
	sel, d := ranged(x)
	if sel == nil {
		return
	}
	every := l.scraped(sel.Name)
	fix := fmt.Sprintf("look back on four scrapes at least: [%s]", state.FormatDuration(4*every))
	switch {
	case d < every && !deciding(x, path):
		l.say(state.Warning, fmt.Sprintf("one part never has a value: %s wants two samples, and %s is scraped every %s: the last %s hold one at most", x.Func.Name, sel.Name, state.FormatDuration(every), state.FormatDuration(d)), fix)
	case d < every:
		l.say(state.Critical, fmt.Sprintf("can never fire: %s wants two samples, and %s is scraped every %s: the last %s hold one at most", x.Func.Name, sel.Name, state.FormatDuration(every), state.FormatDuration(d)), fix)
	case d < 2*every:
		l.say(state.Warning, fmt.Sprintf("has gaps: %s wants two samples, and %s is scraped every %s: the last %s do not always hold two", x.Func.Name, sel.Name, state.FormatDuration(every), state.FormatDuration(d)), fix)
	}
}
