// Package outbox delivers committed effects. It asks its source for the effects that are due, hands
// each effect to the handler of its kind, and appends the result to the input log.
//
// Delivery is at least once. An effect is in delivery at most once at a time. Its handler gets it
// again only after its turn has changed, that is after its outcome was applied. The source ensures
// that. After a crash between effect and outcome it is delivered again, so a handler must check
// whether its effect happened before it repeats it. Work ahead of an effect may run beside it, and
// has no outcome.
//
// Every kind of effect has a lane of its own, and so has every channel of notifications. A slow or
// dead service thus delays only its own effects. Within a lane the severity of the incident
// decides, then age. First messages go by severity, size and age. If a handler panics, fails or
// exceeds its deadline, the effect is tried again later. The other effects go on.
package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"paramedic/state"
	"paramedic/state/keeper/agenda"
)

// A Handler delivers the effects of one kind. It MUST be safe for concurrent use, MUST return soon
// after its context ends, and MUST expect effects that it has delivered before.
type Handler interface {
	Deliver(ctx context.Context, e state.Effect) Result
}

// A Result is the result of one attempt. The dispatcher sets the outcome's Effect and Turn. It sets
// RetryAt if the outcome is not done and names no later time. Inputs go into the log before the
// outcome, in the same atomic write. Their cluster and time are set if empty.
type Result struct {
	Outcome state.Outcome
	Inputs  []state.Input
}

// A Source returns the effects that are due. *keeper.Keeper is one.
type Source interface {
	// Take hands out due effects, at most room of each lane, the most urgent first, and returns
	// when the next one is due. The time is zero if none waits. It MUST NOT hand out an effect that
	// is in delivery, nor a turn whose outcome is in the log. A task ahead may be in delivery
	// beside its effect.
	Take(now time.Time, room func(agenda.Lane) int) (tasks []agenda.Task, next time.Time)
	// Finished ends the delivery of a task. answered means that its outcome is in the log.
	// Otherwise the effect is due again, but not a task ahead.
	Finished(t agenda.Task, answered bool)
	// Changed receives a value if Take may return something new.
	Changed() <-chan struct{}
}

// An Attempt is one delivery, for metrics.
type Attempt struct {
	Effect state.Effect
	Took   time.Duration
	Done   bool
	Error  string // set also if the delivery is given up
	Panic  bool
}

// A Lane configures the delivery of one kind of effects. It applies to each [agenda.Lane] of the
// kind.
type Lane struct {
	Workers  int           // concurrent deliveries
	Deadline time.Duration // of one delivery
}

// Config holds what New needs. Lanes and Grace have defaults. Observe may be nil.
type Config struct {
	Source   Source
	Log      state.Log
	Lease    state.Lease // nil: this process always delivers
	Clock    state.Clock
	Handlers map[state.EffectKind]Handler
	Lanes    map[state.EffectKind]Lane // replaces the kind's default
	Grace    time.Duration             // for deliveries after the end of Run's context; 5 s by default
	Logger   *slog.Logger
	// Free returns how many messages a channel can show now, and when there is one more. An effect
	// is handed out only if its channel can show it, so that a more urgent one that comes meanwhile
	// goes before it. Nil: no channel has a limit.
	Free func(ch state.Channel, now time.Time) (messages int, more time.Time)
	// Busy reports whether alerts need the processors. While they do, at most one gathering of
	// evidence begins every 50 ms: its verdicts wait for the log behind the alerts, and take the
	// time that the alerts need. Nil: they never do.
	Busy func() bool
	// Observe is called after every delivery, before its outcome is in the log. Several goroutines
	// call it at a time.
	Observe func(Attempt)
}

const (
	// gatherPause lets a critical incident, which goes first, have its verdict in the same second.
	gatherPause = 50 * time.Millisecond

	defaultGrace = 5 * time.Second
	// handOverGrace is for calls in flight when the work is handed over. The next process begins
	// after them: a call that arrives after its look for earlier effects would double one.
	handOverGrace = 3 * time.Second
)

// defaultLanes has the defaults. A run waits for cluster writes, evidence for several sources, a
// notification for one call.
func defaultLanes() map[state.EffectKind]Lane {
	return map[state.EffectKind]Lane{
		state.EffectPrepare: {Workers: 2, Deadline: 10 * time.Second},
		state.EffectEnrich:  {Workers: 4, Deadline: 30 * time.Second},
		state.EffectNotify:  {Workers: 4, Deadline: 20 * time.Second},
		state.EffectFlood:   {Workers: 1, Deadline: 20 * time.Second},
		state.EffectNote:    {Workers: 2, Deadline: 20 * time.Second},
		state.EffectPlan:    {Workers: 2, Deadline: 30 * time.Second},
		state.EffectRun:     {Workers: 4, Deadline: 2 * time.Minute},
	}
}

// A Dispatcher delivers the effects that its source hands out.
type Dispatcher struct {
	cfg   Config
	lanes map[state.EffectKind]Lane

	// Used by Run's own goroutine only.
	inFlight  int
	busy      map[agenda.Lane]int
	shown     map[state.Channel]int // free messages of the channels that are used, or promised by a Take
	more      time.Time             // when a lane that had no room has some
	gathered  time.Time             // the last gathering that began while alerts needed the processors
	answering int                   // deliveries whose outcome is being appended
	progress  chan progress

	leave   sync.Once
	leaving chan struct{} // closed when HandOver begins
	ended   chan struct{} // closed when Run has returned
}

// maxAnswering bounds the outcomes that are being appended.
const maxAnswering = 256

// A progress reports that a task's handler has returned, or that the task is over.
type progress struct {
	task     agenda.Task
	over     bool
	answered bool // the outcome is in the log
}

// New checks the configuration and returns a dispatcher.
func New(cfg Config) (*Dispatcher, error) {
	if cfg.Source == nil || cfg.Log == nil || cfg.Clock == nil {
		return nil, errors.New("the outbox needs a source, a log and a clock")
	}
	lanes := defaultLanes()
	maps.Copy(lanes, cfg.Lanes)
	for kind, l := range lanes {
		if l.Workers < 1 || l.Deadline <= 0 {
			return nil, fmt.Errorf("the outbox lane of %s effects needs workers and a deadline, and has %d and %s",
				kind, l.Workers, l.Deadline)
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
		cfg: cfg, lanes: lanes, busy: map[agenda.Lane]int{}, shown: map[state.Channel]int{},
		progress: make(chan progress), leaving: make(chan struct{}), ended: make(chan struct{}),
	}, nil
}
