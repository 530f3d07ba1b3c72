package alerting

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"paramedic/lab"
)

// ScrapeInterval is the simulated time between two calls of [Ruler.Evaluate].
const ScrapeInterval = 5 * time.Second

// An Alert is a firing alert, or one that has just resolved.
type Alert struct {
	Labels       map[string]string
	Annotations  map[string]string
	StartsAt     time.Time
	EndsAt       time.Time // zero while it fires
	GeneratorURL string
}

// Fingerprint returns Alertmanager's fingerprint: FNV-1a of the sorted labels.
func (a Alert) Fingerprint() string {
	set := model.LabelSet{}
	for k, v := range a.Labels {
		set[model.LabelName(k)] = model.LabelValue(v)
	}
	return set.Fingerprint().String()
}

// A Ruler scrapes a fleet's pages and evaluates the rules on them, as Prometheus would.
type Ruler struct {
	fleet   *lab.Fleet
	rules   []Rule
	url     string
	history *history
	want    map[string]bool
	pending map[string]time.Time // when the rule's condition became true, by the alert's labels
	firing  map[string]Alert
	seen    map[string]time.Time // when a firing alert was last true
}

// NewRuler returns a Ruler for a fleet. Alerts link to the Prometheus at the URL; it may be empty.
func NewRuler(f *lab.Fleet, prometheusURL string) *Ruler {
	if prometheusURL == "" {
		prometheusURL = "http://prometheus:9090"
	}
	r := &Ruler{fleet: f, url: prometheusURL, history: newHistory(1200), want: map[string]bool{},
		pending: map[string]time.Time{}, firing: map[string]Alert{}, seen: map[string]time.Time{}}
	r.history.epoch = float64(f.Start().Unix())
	r.watch(Rules(f.Config().Kind))
	return r
}

// identifiers finds the possible metric names in an expression. It also finds functions and labels,
// which no page exports.
var identifiers = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`)

// watch adds rules and the metrics that they read.
func (r *Ruler) watch(rules []Rule) {
	r.rules = append(r.rules, rules...)
	for _, rule := range rules {
		for _, name := range identifiers.FindAllString(rule.Expr, -1) {
			r.want[name] = true
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				name = strings.TrimSuffix(name, suffix)
			}
			r.want[name] = true
		}
	}
}

// Evaluate scrapes every target at the fleet's present and evaluates every rule. It returns the
// alerts that fire, and those that have resolved since the last call.
func (r *Ruler) Evaluate() []Alert {
	now, cluster := r.scrape(), r.fleet.Config().Cluster
	held := map[string]bool{}
	for _, rule := range r.rules {
		for _, s := range rule.eval(r.history) {
			labels := maps.Clone(s.labels)
			labels["alertname"], labels["severity"], labels["cluster"] = rule.Name, rule.Severity, cluster
			key := labelKey(labels)
			if held[key] {
				continue
			}
			held[key] = true
			since, known := r.pending[key]
			if !known {
				since, r.pending[key] = now, now
			}
			if _, fires := r.firing[key]; !fires && now.Sub(since) >= rule.For {
				r.firing[key] = Alert{
					Labels: labels, Annotations: map[string]string{"summary": expand(rule.Summary, labels)}, StartsAt: now,
					GeneratorURL: r.url + "/graph?g0.expr=" + url.QueryEscape(rule.Expr) + "&g0.tab=1",
				}
			}
		}
	}
	var out []Alert
	for _, key := range sortedKeys(r.firing) {
		a := r.firing[key]
		if held[key] {
			r.seen[key] = now
		}
		if !held[key] && now.Sub(r.seen[key]) >= keepFiring(a.Labels["alertname"]) {
			a.EndsAt = now
			delete(r.seen, key)
			delete(r.firing, key)
		}
		out = append(out, a)
	}
	maps.DeleteFunc(r.pending, func(key string, _ time.Time) bool { return !held[key] })
	return out
}

func (r *Ruler) scrape() time.Time {
	at, now, pages := r.fleet.Scrape()
	r.history.last = now
	for _, p := range pages {
		up := 0.0
		if p.Families != nil {
			up = 1
			r.history.scrape(now, p.Families, r.want)
		}
		r.history.add("up", labelKey(p.Target.Labels), now, up, func() map[string]string { return p.Target.Labels })
	}
	r.history.forget(now)
	return at
}

// expand replaces {{ $labels.NAME }}, the only template that the summaries use.
func expand(text string, labels map[string]string) string {
	for _, k := range slices.Backward(sortedKeys(labels)) {
		text = strings.ReplaceAll(text, "{{ $labels."+k+" }}", labels[k])
	}
	return text
}
