package query

import (
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"paramedic/rules/signals"
	"paramedic/state"
)

const (
	// target is the engine name of Prometheus' own series about its scrapes. It is also the mark of
	// the part for targets.
	target = "target"
	// scrapedFor is the time before the onset within which targets that disappeared are searched.
	// absent() fires at once or after minutes, and the engineer may ask for the diagnosis hours
	// later.
	scrapedFor = 6 * time.Hour
)

// A Search asks for the engines of a scope.
type Search struct {
	Scope   state.Scope
	Running signals.Signal // the number of running requests, which every engine exports
	// Jobs are scrape jobs. The search also asks for their targets since six hours before the
	// onset.
	Jobs       []string
	Onset, Now time.Time
	// Past is the time before the onset since which the first scrape of each engine is searched,
	// in whole seconds; zero: it is not searched.
	Past time.Duration
}

// Union returns the query, to be evaluated at Now. It has no text if Running is of no engine and
// there are no jobs.
func (s Search) Union() Union {
	var in, parts []string
	if s.Scope.Namespace != "" {
		in = []string{"namespace=" + strconv.Quote(s.Scope.Namespace)}
	}
	if names := namesOf(s.Running); len(names) > 0 {
		parts = append(parts, marked("max by (__name__, pod, exported_pod, k8s_pod_name) ("+names.selector(in)+")", engineMark))
		parts = append(parts, relayed(names, s.Scope)...)
	}
	if len(s.Jobs) > 0 {
		parts = append(parts, marked(s.earlierTargets(in), target))
	}
	if s.Past > 0 {
		parts = append(parts, s.firstScrapes(in)...)
	}
	return Union{text: unionOf(parts)}
}

// earlierTargets returns the expression for the targets of the jobs since scrapedFor before the
// onset, even if they no longer exist.
func (s Search) earlierTargets(in []string) string {
	var names []string
	for _, job := range s.Jobs {
		names = append(names, regexp.QuoteMeta(job))
	}
	sel := "up{" + strings.Join(append([]string{"job=~" + strconv.Quote(strings.Join(names, "|"))}, in...), ",") + "}"
	back := s.Now.Sub(s.Onset) + scrapedFor
	return fmt.Sprintf("max by (%s, service) (max_over_time(%s[%ds]))",
		strings.Join(workerLabels, ", "), sel, int(back.Seconds()))
}

// A Discovery describes the engines of a scope: when each was first scraped, and which there are.
type Discovery struct {
	Targets []map[string]string // labels of the targets of the search's jobs

	sighting
	scraped []firstSample
	relay   relay // of all engines
}

// Read returns the discovery of the union's answer: each series with its labels and its value.
func (s Search) Read(answer iter.Seq2[map[string]string, float64]) Discovery {
	var d Discovery
	names := namesOf(s.Running)
	through := make([]sighting, len(relays))
	for labels, v := range answer {
		mark, name := labels[marker], names[labels[model.MetricNameLabel]]
		number, another := strings.CutPrefix(mark, relayMark)
		earlier, first := strings.CutPrefix(mark, firstMark)
		switch i, _ := strconv.Atoi(number); {
		case mark == target:
			d.Targets = append(d.Targets, labels)
		case first:
			at := time.UnixMilli(int64(1000 * v)).UTC()
			d.scraped = append(d.scraped, firstSample{names[earlier], labels["pod"], labels["model_name"], at})
		case another && isRelayed(labels):
			through[i].add(name, labels[relays[i].pod], s.Scope.Pool)
		case mark == engineMark && !isRelayed(labels):
			d.add(name, labels["pod"], s.Scope.Pool)
		}
	}
	if i := slices.IndexFunc(through, func(s sighting) bool { return s.any }); i >= 0 && !d.any {
		d.sighting, d.relay = through[i], relays[i]
	}
	d.scraped = preferred(d.scraped)
	d.addGone(d.scraped)
	return d
}
