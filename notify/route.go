package notify

import (
	"errors"
	"fmt"
	"slices"

	"paramedic/state"
)

// A Route sends the incidents that it matches to its channels. An empty field matches everything,
// and all fields must match. The first matching route decides.
type Route struct {
	Severity  []state.Severity `yaml:"severity,omitempty" json:"severity,omitempty"`
	Cause     []state.Cause    `yaml:"cause,omitempty" json:"cause,omitempty"`
	Cluster   string           `yaml:"cluster,omitempty" json:"cluster,omitempty"`
	Namespace string           `yaml:"namespace,omitempty" json:"namespace,omitempty"`
	Model     string           `yaml:"model,omitempty" json:"model,omitempty"`
	Pool      string           `yaml:"pool,omitempty" json:"pool,omitempty"`
	Channels  []state.Channel  `yaml:"channels" json:"channels"`
}

// Validate reports every problem of a route. The caller checks causes against the catalogue.
func (r Route) Validate() error {
	var errs []error
	for _, s := range r.Severity {
		if s.Rank() == 0 {
			errs = append(errs, fmt.Errorf("severity %q is not one of critical, warning, info", s))
		}
	}
	if len(r.Channels) == 0 {
		errs = append(errs, errors.New("channels is empty: name console, slack or pagerduty"))
	}
	for _, c := range r.Channels {
		if !slices.Contains(known, c) {
			errs = append(errs, fmt.Errorf("channel %q is not one of console, slack, pagerduty", c))
		}
	}
	return errors.Join(errs...)
}

// known lists the channels. The one that pages comes first.
var known = []state.Channel{state.ChannelPagerDuty, state.ChannelSlack, state.ChannelConsole}

func (r Route) matches(in *state.Incident) bool {
	return (len(r.Severity) == 0 || slices.Contains(r.Severity, in.Severity)) &&
		(len(r.Cause) == 0 || slices.Contains(r.Cause, in.Cause())) &&
		same(r.Cluster, in.Cluster) && same(r.Namespace, in.Scope.Namespace) &&
		same(r.Model, in.Scope.Model) && same(r.Pool, in.Scope.Pool)
}

func same(want, have string) bool { return want == "" || want == have }

// A Router chooses the channels of an incident. It is pure.
type Router struct {
	routes  []Route
	enabled []state.Channel
}

// NewRouter checks the routes against the channels that are configured, and reports every problem.
func NewRouter(routes []Route, enabled []state.Channel) (*Router, error) {
	var errs []error
	for i, r := range routes {
		if err := r.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("notify.routes[%d]: %w", i, err))
		}
		for _, c := range r.Channels {
			if slices.Contains(known, c) && !slices.Contains(enabled, c) {
				errs = append(errs, fmt.Errorf("notify.routes[%d]: channel %s is not configured: set notify.%s or "+
					"drop it from the route", i, c, c))
			}
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return &Router{routes: slices.Clone(routes), enabled: slices.Clone(enabled)}, nil
}

// Channels returns the channels of an incident. Without routes, critical incidents page, warnings
// post and info is logged.
//
// Some incidents post instead of paging. A benign_alert never pages, even if a route names a pager.
// A gpu_underutilization does not, nor does an incident of unknown cause while [state.ImpactNone]
// holds for its pool. If a route that names the cause also names a pager, these two page. An
// incident pages once its impact is no longer none.
//
// While first aid needs a person, the incident also goes to the channels of a critical one, because
// a write may be unfinished. A channel that has shown the incident keeps getting it, so that its
// message stays true and its page is closed.
func (r *Router) Channels(in *state.Incident) []state.Channel {
	want, named := r.routed(in)
	handed := !in.HandedAt.IsZero()
	if quiet := isQuiet(in, named); quiet && !handed && slices.Contains(want, state.ChannelPagerDuty) {
		want = slices.DeleteFunc(slices.Clone(want), func(c state.Channel) bool { return c == state.ChannelPagerDuty })
		if len(want) == 0 {
			want = standard(state.Warning)
		}
	}
	if handed {
		urgent := *in
		urgent.Severity = state.Critical
		more, _ := r.routed(&urgent)
		want = append(slices.Clone(want), more...)
	}
	var out []state.Channel
	for _, c := range known {
		if told := in.Told.Rev(c) > 0; slices.Contains(r.enabled, c) && (told || slices.Contains(want, c)) {
			out = append(out, c)
		}
	}
	return out
}

// isQuiet reports whether an incident posts and does not page. The argument named means that its
// route names its cause.
func isQuiet(in *state.Incident, named bool) bool {
	switch in.Cause() {
	case state.BenignAlert:
		return true
	case state.GPUUnderutilization:
		return !named
	case state.Unknown:
		return !named && in.Diagnosis.Impact == state.ImpactNone
	}
	return false
}

// routed returns the channels of the first route that matches, and whether that route names the
// incident's cause. If the cause shows in several pools, the routes of all of them count.
func (r *Router) routed(in *state.Incident) (channels []state.Channel, named bool) {
	channels, named = r.routedAs(in)
	for _, p := range in.Pools {
		there := *in
		there.Scope.Namespace, there.Scope.Pool, there.Scope.Model = p.Namespace, p.Pool, p.Model
		more, also := r.routedAs(&there)
		channels, named = append(slices.Clone(channels), more...), named || also
	}
	return channels, named
}

// routedAs does so for the incident's own pool.
func (r *Router) routedAs(in *state.Incident) (channels []state.Channel, named bool) {
	for _, route := range r.routes {
		if route.matches(in) {
			return route.Channels, len(route.Cause) > 0
		}
	}
	return standard(in.Severity), false
}

func standard(s state.Severity) []state.Channel {
	switch s {
	case state.Critical:
		return known
	case state.Warning:
		return []state.Channel{state.ChannelSlack, state.ChannelConsole}
	}
	return []state.Channel{state.ChannelConsole}
}
