// Package outbox delivers committed effects. It asks its source what is due, hands each effect to
// the handler of its kind, and puts what came of it into the input log.
//
// Delivery is at least once. An effect is in flight once at most, and is not given to its handler
// again until its turn has changed: that is, until the outcome was applied. The source sees to
// that. After a crash between effect and outcome it is given again, so a handler has to find out
// whether its effect happened before it repeats it.
//
// Every kind of effect has a lane of its own, and every channel of a notification: what is slow or
// dead delays only itself. In a lane the severity of the incident decides, then age. A handler that
// panics, fails or overruns its deadline is tried again later; nothing that it does stops the
// others.
package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"paramedic/state"
	"paramedic/state/keeper"
)

// A Handler delivers the effects of one kind. It MUST be safe for concurrent use, MUST return soon
// after its context ends, and MUST expect an effect that it has delivered before.
type Handler interface {
	Deliver(ctx context.Context, e state.Effect) Result
}

// A Result is what came of one attempt. The dispatcher fills the outcome's Effect and Turn, and
// RetryAt where it is not done and names no later time. Inputs go into the log before the outcome,
// in the same atomic write; their cluster and time are filled if empty.
type Result struct {
	Outcome state.Outcome
	Inputs  []state.Input
}

// A Source knows what is due. *keeper.Keeper is one.
type Source interface {
	// Take gives out due effects, at most room of each lane, the most urgent first, and returns
	// when the next one is due (zero: none waits). It MUST NOT give out an effect that is out
	// already, nor a turn again whose outcome is in the log.
	Take(now time.Time, room func(keeper.Lane) int) (tasks []keeper.Task, next time.Time)
	// Finished ends the delivery of a task. Answered says that its outcome is in the log; otherwise
	// the effect is due again.
	Finished(t keeper.Task, answered bool)
	// Changed has a value when Take may give something else than before.
	Changed() <-chan struct{}
}

// An Attempt is one delivery, for metrics.
type Attempt struct {
	Effect state.Effect
	Took   time.Duration
	Done   bool
	Error  string // also of a delivery that is done for good
	Panic  bool
}

// A Lane says how the effects of a kind are delivered. It holds for each [keeper.Lane] of the kind
// by itself.
type Lane struct {
	Workers  int           // deliveries at a time
	Deadline time.Duration // of one delivery
}

// Config is what New needs. Lanes and Grace have defaults; Observe may be nil.
type Config struct {
	Source   Source
	Log      state.Log
	Clock    state.Clock
	Handlers map[state.EffectKind]Handler
	Lanes    map[state.EffectKind]Lane // replaces the kind's default
	Grace    time.Duration             // how long deliveries may go on after Run's context has ended; 5 s by default
	Logger   *slog.Logger
	// Observe is called after every delivery, before its outcome is in the log, by several
	// goroutines at a time.
	Observe func(Attempt)
}

const defaultGrace = 5 * time.Second

// defaultLanes: a run waits for cluster writes, evidence for several sources, a notification for
// one call.
func defaultLanes() map[state.EffectKind]Lane {
	return map[state.EffectKind]Lane{
		state.EffectPrepare: {Workers: 2, Deadline: 10 * time.Second},
		state.EffectEnrich:  {Workers: 4, Deadline: 30 * time.Second},
		state.EffectNotify:  {Workers: 4, Deadline: 20 * time.Second},
		state.EffectNote:    {Workers: 2, Deadline: 20 * time.Second},
		state.EffectPlan:    {Workers: 2, Deadline: 30 * time.Second},
		state.EffectRun:     {Workers: 4, Deadline: 2 * time.Minute},
	}
}

// A Dispatcher delivers what its source says is due.
type Dispatcher struct {
	cfg   Config
	lanes map[state.EffectKind]Lane

	// Of Run's own goroutine.
	inFlight  int
	busy      map[keeper.Lane]int
	answering int // deliveries whose outcome is on its way to the log
	progress  chan progress
}

// mostAnswering bounds how many outcomes may be on their way to the log.
const mostAnswering = 256

// A progress says that a task's handler has returned, or that the task is over.
type progress struct {
	task     keeper.Task
	over     bool
	answered bool // the outcome is in the log
}

// New checks the configuration and makes a dispatcher.
func New(cfg Config) (*Dispatcher, error) {
	if cfg.Source == nil || cfg.Log == nil || cfg.Clock == nil {
		return nil, errors.New("the outbox needs a source, a log and a clock")
	}
	lanes := defaultLanes()
	maps.Copy(lanes, cfg.Lanes)
	for kind, l := range lanes {
		if l.Workers < 1 || l.Deadline <= 0 {
			return nil, fmt.Errorf("the outbox lane of %s effects needs workers and a deadline, and has %d and %s", kind, l.Workers, l.Deadline)
		}
	}
	if cfg.Grace == 0 {
		cfg.Grace = defaultGrace
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Observe == nil {
		cfg.Observe = func(Attempt) {}
	}
	return &Dispatcher{
		cfg: cfg, lanes: lanes, busy: map[keeper.Lane]int{}, progress: make(chan progress),
	}, nil
}
