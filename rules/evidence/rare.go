package evidence

import (
	"fmt"

	"paramedic/rules/catalog"
)

const (
	// few is the number of requests below which a share of them is chance. Of ten answers, one is
	// 10 %.
	few = 15
	// lookBack is the window of rates and shares in seconds, which package signals sets.
	lookBack = 300
)

// sharesOfRequests are the signals that divide by a number of requests.
var sharesOfRequests = []string{"refusal_ratio", "empty_ratio", "truncated_ratio", "prefix_hit_ratio"}

// dropRare removes shares of hardly any requests: few arrive, and few finish.
func (v *View) dropRare(cat *catalog.Catalog) {
	requests, known := 0.0, false
	for _, id := range []string{"arrival_rate", "finish_rate"} {
		if s := v.signals[id]; s != nil && s.Whole.Sum.OK {
			requests, known = max(requests, s.Whole.Sum.V*lookBack), true
		}
	}
	if !known || requests >= few {
		return
	}
	for _, id := range sharesOfRequests {
		if v.signals[id] != nil {
			v.signals[id], v.numbered[cat.SignalNumbers()[id]] = nil, nil
			v.missing[id] = fmt.Sprintf("only %.0f requests in five minutes", requests)
		}
	}
}
