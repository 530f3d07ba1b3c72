package backtest

import (
	"container/heap"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A route tells how Alertmanager groups alerts and how long it waits.
type route struct {
	by                          []string
	groupWait, interval, repeat time.Duration
}

// The two Alertmanagers: the one that sends to the bot, as deploy/alertmanager recommends, and the
// one that a site has without the bot, with Alertmanager's defaults.
var (
	botRoute = route{by: []string{"alertname", "cluster", "namespace"}, groupWait: 10 * time.Second, interval: 30 * time.Second,
		repeat: 4 * time.Hour}
	plainRoute = route{by: []string{"alertname", "namespace"}, groupWait: 30 * time.Second, interval: 5 * time.Minute,
		repeat: 4 * time.Hour}
)

// A dispatcher groups alerts and notifies as Alertmanager does. It knows when it next has something
// to say, so that no time passes in steps.
type dispatcher struct {
	route
	groups map[string]*group
	due    flushes
}

// A group holds the alerts with the same values of the route's labels.
type group struct {
	Labels map[string]string `json:"labels"`
	Alerts map[string]alert  `json:"alerts"` // by fingerprint
	Told   map[string]bool   `json:"told"`   // the alerts that the last notification had as firing
	First  time.Time         `json:"first"`  // the first flush; the others follow every interval
	SentAt time.Time         `json:"sent_at,omitzero"`
	Next   time.Time         `json:"next"`
}

// A notification holds the alerts of a group that its receiver gets at one time.
type notification struct {
	at     time.Time
	key    string
	labels map[string]string
	alerts []event // firing and resolved ones, by fingerprint
}

// firing reports whether an alert of it fires.
func (n notification) firing() bool {
	return slices.ContainsFunc(n.alerts, func(e event) bool { return !e.ends })
}

func newDispatcher(r route) *dispatcher { return &dispatcher{route: r, groups: map[string]*group{}} }

// restore continues with the groups of a state file.
func (d *dispatcher) restore(groups map[string]*group) {
	d.groups, d.due = groups, nil
	if d.groups == nil {
		d.groups = map[string]*group{}
	}
	for key, g := range d.groups {
		heap.Push(&d.due, flush{g.Next, key})
	}
}

// receive takes the start or the end of an alert.
func (d *dispatcher) receive(now time.Time, e event) {
	labels := map[string]string{}
	for _, name := range d.by {
		if v := e.alert.Labels[name]; v != "" {
			labels[name] = v
		}
	}
	key := groupKey(labels)
	g := d.groups[key]
	if g == nil {
		if e.ends {
			return
		}
		g = &group{Labels: labels, Alerts: map[string]alert{}, Told: map[string]bool{}, First: now.Add(d.groupWait)}
		d.groups[key] = g
		d.schedule(key, g, g.First)
	}
	g.Alerts[e.print] = e.alert
	if tick := g.tick(now, d.interval); tick.Before(g.Next) {
		d.schedule(key, g, tick)
	}
}

// tick returns the group's first flush that is not before a moment.
func (g *group) tick(at time.Time, every time.Duration) time.Time {
	if !at.After(g.First) {
		return g.First
	}
	return g.First.Add((at.Sub(g.First) + every - 1) / every * every)
}

func (d *dispatcher) schedule(key string, g *group, at time.Time) {
	g.Next = at
	heap.Push(&d.due, flush{at, key})
}

// next returns the time of the next flush, or zero if no alert is held.
func (d *dispatcher) next() time.Time {
	for len(d.due) > 0 {
		f := d.due[0]
		if g := d.groups[f.key]; g != nil && g.Next.Equal(f.at) {
			return f.at
		}
		heap.Pop(&d.due) // the group is gone, or flushes at another time
	}
	return time.Time{}
}

// flush returns the notifications that are due, and keeps the groups that still have alerts.
func (d *dispatcher) flush(now time.Time) []notification {
	var out []notification
	for at := d.next(); !at.IsZero() && !at.After(now); at = d.next() {
		f := heap.Pop(&d.due).(flush)
		g := d.groups[f.key]
		if d.worthTelling(g, f.at) {
			out = append(out, g.tell(f.key, f.at))
		}
		maps.DeleteFunc(g.Alerts, func(_ string, a alert) bool { return !a.EndsAt.IsZero() })
		if len(g.Alerts) == 0 {
			delete(d.groups, f.key)
			continue
		}
		d.schedule(f.key, g, g.tick(g.SentAt.Add(d.repeat), d.interval))
	}
	return out
}

// worthTelling reports whether a group has something new, or whether it is time to repeat.
func (d *dispatcher) worthTelling(g *group, now time.Time) bool {
	firing := 0
	for print, a := range g.Alerts {
		ended := !a.EndsAt.IsZero()
		if ended == g.Told[print] { // a new one, or the end of a known one
			return true
		}
		if !ended {
			firing++
		}
	}
	return firing > 0 && now.Sub(g.SentAt) >= d.repeat
}

// tell returns the group's notification and records what it tells.
func (g *group) tell(key string, now time.Time) notification {
	n := notification{at: now, key: key, labels: g.Labels}
	g.Told, g.SentAt = map[string]bool{}, now
	for _, print := range slices.Sorted(maps.Keys(g.Alerts)) {
		a := g.Alerts[print]
		ends := !a.EndsAt.IsZero()
		n.alerts = append(n.alerts, event{at: now, ends: ends, print: print, alert: a})
		if !ends {
			g.Told[print] = true
		}
	}
	return n
}

// groupKey returns Alertmanager's key of a group.
func groupKey(labels map[string]string) string {
	pairs := make([]string, 0, len(labels))
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, fmt.Sprintf("%s=%q", k, labels[k]))
	}
	return "{}:{" + strings.Join(pairs, ", ") + "}"
}

// A flush is the time at which a group looks for something to tell.
type flush struct {
	at  time.Time
	key string
}

// flushes is a heap of flushes, the earliest first.
type flushes []flush

func (h flushes) Len() int { return len(h) }
func (h flushes) Less(i, j int) bool {
	return h[i].at.Before(h[j].at) || h[i].at.Equal(h[j].at) && h[i].key < h[j].key
}
func (h flushes) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *flushes) Push(x any) { *h = append(*h, x.(flush)) }

// Pop implements heap.Interface.
func (h *flushes) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
