package remediate

import (
	"context"
	"log/slog"

	"paramedic/playbooks"
	"paramedic/remediate/guard"
	"paramedic/remediate/verify"
	"paramedic/state"
)

// Remediate holds the two deliverers of effects. They keep no state between deliveries: all of it
// is in the view.
type Remediate struct {
	Plan *Planner // delivers state.EffectPlan
	Run  *Runner  // delivers state.EffectRun
}

// New returns the deliverers, or an error that lists every problem of the policies.
func New(c Config) (*Remediate, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Clock == nil {
		c.Clock = state.SystemClock{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.ManagedLabel == "" {
		c.ManagedLabel = "paramedic.dev/managed=true"
	}
	c.Timing = c.Timing.OrDefaults()
	return &Remediate{Plan: &Planner{cfg: &c}, Run: &Runner{cfg: &c}}, nil
}

// self is the actor of steps that the bot takes by itself.
var self = state.Actor{ID: "paramedic", Via: "paramedic"}

// A Config holds the settings and dependencies of first aid. View, Playbook, Clusters and Gauge are
// required.
type Config struct {
	guard.Site
	Playbook func(state.Diagnosis) (playbooks.Playbook, bool)
	Logger   *slog.Logger // nil: silent
}

// metrics returns the metrics of an action with their titles.
func (c *Config) metrics(kind action) []verify.Metric { return c.Titles.Name(kind.Metrics()) }

// survey reads the cluster around an action's target.
func (c *Config) survey(ctx context.Context, in state.Incident, act *state.Action) *guard.Scene {
	kind, _ := actionOf(act.Kind)
	return c.Site.Survey(ctx, in, act, kind)
}
