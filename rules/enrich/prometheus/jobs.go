package prometheus

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"paramedic/rules/enrich"
	"paramedic/rules/signals"
	"paramedic/state"
)

// target is the engine name of Prometheus' own series about its scrapes.
const target = "target"

// scrapedBy returns the page and the job of a series of up.
func scrapedBy(cluster string, labels map[string]string) enrich.Scraped {
	e := enrich.Identify(cluster, signals.Signal{Per: signals.PerPod}, signals.Source{Engine: target}, labels)
	return enrich.Scraped{Entity: e, By: state.ScrapeJob{Job: jobOf(labels), Service: labels["service"]}}
}

// jobOf returns the job that scrapes a page itself. A relayed series has no other.
func jobOf(labels map[string]string) string { return cmp.Or(labels["job"], labels["exported_job"]) }

// readBy returns the pages that are scraped now, and the targets that the query's jobs scraped
// earlier, given by their labels.
func (g *gathering) readBy(earlier []map[string]string) []enrich.Scraped {
	for _, labels := range earlier {
		g.scraped[scrapedBy(g.query.Cluster, labels)] = true
	}
	return slices.SortedFunc(maps.Keys(g.scraped), func(a, b enrich.Scraped) int {
		return cmp.Or(enrich.CompareEntities(a.Entity, b.Entity), strings.Compare(a.Entity.Model, b.Entity.Model),
			cmp.Compare(a.By.Job, b.By.Job), cmp.Compare(a.By.Service, b.By.Service))
	})
}

// enginesPages limits a worker's scrape and process signals to the page of its engine, if that
// answers. A proxy beside the engine has pages too, and some scraped ports have no page.
func (g *gathering) enginesPages() {
	ambiguous := map[string][]*sample{} // signals of workers with more than one page
	for _, sm := range g.samples {
		own := sm.member.Source.Engine == target || sm.member.Source.Engine == "process"
		if own && sm.now != nil && sm.entity.Pod != "" && len(sm.now.Instances()) > 1 {
			ambiguous[enrich.WorkerKey(sm.entity)] = append(ambiguous[enrich.WorkerKey(sm.entity)], sm)
		}
	}
	if len(ambiguous) == 0 {
		return
	}
	pages := map[string][]string{}
	for _, sm := range g.samples {
		if sm.now != nil && sm.member.OfEngine() {
			pages[enrich.WorkerKey(sm.entity)] = append(pages[enrich.WorkerKey(sm.entity)], sm.now.Instances()...)
		}
	}
	for worker, samples := range ambiguous {
		for _, sm := range samples {
			sm.now.Keep(pages[worker])
		}
	}
}
