package main

import (
	"fmt"
	"time"

	"paramedic/remediate/policy"
	"paramedic/state"
)

// clusterNames are the configured clusters, the default first.
func (c Config) clusterNames() []string {
	names := make([]string, len(c.Clusters))
	for i, cl := range c.Clusters {
		names[i] = cl.Name
	}
	return names
}

// settings are the fold's times.
func (c Config) settings() state.Settings {
	s := state.DefaultSettings()
	s.Settle, s.ResolveHold, s.Retain = c.Triage.Settle.D(), c.Triage.ResolveHold.D(), c.State.Retain.D()
	return s
}

// channels are those that something is configured for.
func (c Config) channels() []state.Channel {
	var out []state.Channel
	for _, ch := range []struct {
		on   bool
		name state.Channel
	}{{c.Notify.PagerDuty.RoutingKeyFile != "", state.ChannelPagerDuty}, {c.Notify.Slack.TokenFile != "", state.ChannelSlack}, {c.Notify.Console, state.ChannelConsole}} {
		if ch.on {
			out = append(out, ch.name)
		}
	}
	return out
}

// publicURL is the base of links in messages.
func (c Config) publicURL() string {
	if c.PublicURL != "" {
		return c.PublicURL
	}
	return scheme(c) + "://" + c.Listen
}

// scheme is how the bot is asked.
func scheme(c Config) string {
	if c.TLS.CertFile != "" {
		return "https"
	}
	return "http"
}

// policies are first aid's policies.
func (c Config) policies() []policy.Policy {
	one := func(s string) []string {
		if s == "" {
			return nil
		}
		return []string{s}
	}
	var out []policy.Policy
	for i, p := range c.Remediate.Policies {
		q := policy.Policy{Name: fmt.Sprint(i + 1), Causes: p.Cause, Actions: p.Action, Clusters: one(p.Scope.Cluster),
			Namespaces: one(p.Scope.Namespace), Pools: one(p.Scope.Pool), Mode: policy.Mode(p.Mode), Approvers: p.Approvers,
			Limits: p.Limits.limits()}
		for _, w := range p.Freeze {
			q.Freeze = append(q.Freeze, policy.FreezeWindow{Days: w.Days, From: w.From, To: w.To})
		}
		out = append(out, q)
	}
	return out
}

// firstAid returns what the configuration says of first aid; the times are those given where it
// says none.
func (c Config) firstAid(base policy.Timing) policy.Rules {
	return policy.Rules{Mode: policy.Mode(c.Remediate.Mode), Policies: c.policies(), Limits: c.Remediate.Limits.limits(),
		ManagedLabel: c.Remediate.ManagedLabel, Timing: c.timing(base)}
}

// limits returns the limits as first aid takes them.
func (l LimitsConfig) limits() policy.Limits {
	return policy.Limits{Floor: l.Floor, Ceiling: l.Ceiling, MaxFactor: l.MaxFactor, EvidenceAge: l.EvidenceAge.D(), Signals: l.Signals,
		HumanEdit: l.HumanEdit.D(), Cooldown: l.Cooldown.D(), PerIncident: l.PerIncident, PerTargetDay: l.PerTargetDay,
		EvictionsPerHour: l.EvictionsHour, EvictionPercent: l.EvictionPercent, RolloutEvery: l.RolloutWindow.D(),
		ReadyPercent: l.ReadyPercent, MaxLoad: l.MaxLoad, ApprovalTTL: l.ApprovalExpires.D()}
}

// timing are the times of a run: the configuration's, else those given, else the defaults.
func (c Config) timing(base policy.Timing) policy.Timing {
	v, w := c.Remediate.Verify, c.Remediate.Wait
	for _, f := range []struct {
		to   *time.Duration
		from Duration
	}{{&base.Settle, v.Settle}, {&base.Window, v.Window}, {&base.Interval, v.Interval},
		{&base.Drain, w.Drain}, {&base.Blocked, w.Blocked}, {&base.Rollout, w.Rollout}, {&base.Poll, w.Poll}} {
		if f.from > 0 {
			*f.to = f.from.D()
		}
	}
	if v.MinSamples > 0 {
		base.Samples = v.MinSamples
	}
	return base
}
