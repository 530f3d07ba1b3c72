package prometheus

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"paramedic/rules"
	"paramedic/rules/enrich"
	"paramedic/state"
)

// target is the engine of what Prometheus says of its own scrapes.
const target = "target"

// scrapedFor is how long before the onset a target is looked for that is gone: absent() fires at
// once or after minutes, and people may have looked at it first.
const scrapedFor = 6 * time.Hour

// earlierTargets is the query of whom the jobs of a query read before the onset, whether or not
// they do now.
func earlierTargets(q enrich.Query, in []string) string {
	var names []string
	for _, job := range q.Jobs {
		names = append(names, regexp.QuoteMeta(job))
	}
	sel := "up{" + strings.Join(append([]string{"job=~" + strconv.Quote(strings.Join(names, "|"))}, in...), ",") + "}"
	back := q.Now.Sub(q.Onset) + scrapedFor
	return fmt.Sprintf("max by (%s, service) (max_over_time(%s[%ds]))", strings.Join(workerLabels, ", "), sel, int(back.Seconds()))
}

// scrapedBy returns the page that a series of up is of, with its job.
func scrapedBy(cluster string, labels map[string]string) enrich.Scraped {
	e := enrich.Identify(cluster, rules.Signal{Per: rules.PerPod}, rules.Source{Engine: target}, labels)
	return enrich.Scraped{Entity: e, By: state.ScrapeJob{Job: labels["job"], Service: labels["service"]}}
}

// readBy returns the pages that are scraped now, and those that the jobs of the query read before.
func (g *gathering) readBy(earlier []enrich.Scraped) []enrich.Scraped {
	for _, s := range earlier {
		g.scraped[s] = true
	}
	return slices.SortedFunc(maps.Keys(g.scraped), func(a, b enrich.Scraped) int {
		return cmp.Or(enrich.CompareEntities(a.Entity, b.Entity), strings.Compare(a.Entity.Model, b.Entity.Model), cmp.Compare(a.By.Job, b.By.Job), cmp.Compare(a.By.Service, b.By.Service))
	})
}

// enginesPages lets a worker's scrape and its process be those of its engine's page, where that
// answers: a proxy beside the engine has pages too, and ports that are no page are scraped as if
// they were.
func (g *gathering) enginesPages() {
	several := map[string][]*sample{} // what is told of a worker by more than one page
	for _, sm := range g.samples {
		own := sm.member.source.Engine == target || sm.member.source.Engine == "process"
		if own && sm.now != nil && sm.entity.Pod != "" && len(sm.now.Instances()) > 1 {
			several[enrich.WorkerKey(sm.entity)] = append(several[enrich.WorkerKey(sm.entity)], sm)
		}
	}
	if len(several) == 0 {
		return
	}
	pages := map[string][]string{}
	for _, sm := range g.samples {
		if sm.now != nil && slices.Contains(engines, sm.member.source.Engine) {
			pages[enrich.WorkerKey(sm.entity)] = append(pages[enrich.WorkerKey(sm.entity)], sm.now.Instances()...)
		}
	}
	for worker, told := range several {
		for _, sm := range told {
			sm.now.Keep(pages[worker])
		}
	}
}
