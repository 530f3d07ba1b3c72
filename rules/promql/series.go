package promql

import (
	"fmt"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

const mostSeries = 4 // selectors of one expression

// SeriesOf returns PromQL for the series that an expression is about, for the time of its alert. It
// returns at most four queries. Of a ratio of failures, the failures count; conditions after "and"
// do not. Counters count if they grow. Other series also count if they ended within the last hour,
// because absent() fires minutes after that. A selector without the name of a metric is left out,
// because it would read too much.
func SeriesOf(uses []MetricUse) []string {
	var out []string
	for _, u := range uses {
		if u.Sel == nil || u.Under || u.Aside || !namesMetric(u.Sel) {
			continue
		}
		sel := (&parser.VectorSelector{Name: u.Sel.Name, LabelMatchers: u.Sel.LabelMatchers}).String() // without its offset
		query := fmt.Sprintf("(%[1]s or %[1]s offset 15m or %[1]s offset 1h)", sel)
		if slices.ContainsFunc(u.Funcs, func(fn string) bool { return grows[fn] }) {
			query = "rate(" + sel + "[5m]) > 0"
		}
		if len(out) < mostSeries && !slices.Contains(out, query) {
			out = append(out, query)
		}
	}
	return out
}

// grows are the functions of counters.
var grows = map[string]bool{"rate": true, "irate": true, "increase": true}

func namesMetric(v *parser.VectorSelector) bool {
	return slices.ContainsFunc(v.LabelMatchers, func(m *labels.Matcher) bool {
		return m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual && m.Value != ""
	})
}
