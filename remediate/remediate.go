package remediate

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"paramedic/playbooks"
	"paramedic/state"
)

// A Gauge reads live signals. What cannot be read is in the evidence's Missing, never a zero. A
// sample's time MUST be that of its measurement, not that of the call.
type Gauge interface {
	Read(ctx context.Context, cluster string, scope state.Scope, onset time.Time, signals []string) state.Evidence
}

// A Config holds the settings and dependencies of first aid. View, Playbook, Clusters and Gauge are
// required.
type Config struct {
	View     state.View
	Playbook func(state.Diagnosis) (playbooks.Playbook, bool)
	Clusters map[string]Cluster // by the incidents' cluster names
	Gauge    Gauge
	Mode     Mode // empty: suggest
	Policies []Policy
	Limits   Limits
	// ManagedLabel is the namespace label, as key=value, that opts in to writes; empty is
	// paramedic.dev/managed=true, "-" asks for none.
	ManagedLabel string
	// SelfNamespace is where the bot itself runs: it never treats itself.
	SelfNamespace string
	Timing        Timing
	Clock         state.Clock  // nil: the machine's
	Logger        *slog.Logger // nil: silent
}

// Timing is how long a run waits for what. Zero takes the default.
type Timing struct {
	Settle   time.Duration // after the change is live, before samples count; 2m
	Window   time.Duration // of verification; 10m
	Interval time.Duration // between samples; 30s
	Samples  int           // fewest that decide; 10
	Drain    time.Duration // longest wait for a worker to run nothing; 10m
	Blocked  time.Duration // longest wait for a disruption budget, and for a hold that names no end; 15m
	Rollout  time.Duration // longest wait for a rollout or a replacement; 30m
	Poll     time.Duration // between looks while waiting; 10s
	Stale    time.Duration // an intent that found no chance to be written for so long is called off; 10m
	Replan   time.Duration // between plans while a remedy is denied, and between looks while a run is held; 5m
}

func (t Timing) orDefaults() Timing {
	return Timing{or(t.Settle, 2*time.Minute), or(t.Window, 10*time.Minute), or(t.Interval, 30*time.Second), or(t.Samples, 10),
		or(t.Drain, 10*time.Minute), or(t.Blocked, 15*time.Minute), or(t.Rollout, 30*time.Minute), or(t.Poll, 10*time.Second),
		or(t.Stale, 10*time.Minute), or(t.Replan, 5*time.Minute)}
}

// Verifiable refuses times within which no verification takes the samples that it needs: every run
// would end as inconclusive with a person. A sample is taken when the window begins, after each
// interval, and when it ends.
func (t Timing) Verifiable() error {
	t = t.orDefaults()
	if most := 1 + int((t.Window+t.Interval-1)/t.Interval); t.Samples > most {
		return fmt.Errorf("%d samples are needed, and a window of %s at an interval of %s has %d, so that nothing could ever be verified: ask for fewer, lengthen window, or shorten interval",
			t.Samples, t.Window, t.Interval, most)
	}
	return nil
}

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
	c.Timing = c.Timing.orDefaults()
	return &Remediate{Plan: &Planner{cfg: &c}, Run: &Runner{cfg: &c}}, nil
}

// self is the actor of steps that the bot takes by itself.
var self = state.Actor{ID: "paramedic", Via: "paramedic"}
