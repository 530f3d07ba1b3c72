package outbox

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"runtime/debug"
	"sync"
	"time"

	"paramedic/internal/incidentlog"
	"paramedic/state"
)

const (
	retryFirst = 2 * time.Second
	retryMax   = 5 * time.Minute

	// The log is retried sooner than an adapter's service, because nothing works without it.
	appendFirst   = 100 * time.Millisecond
	appendMost    = 5 * time.Second
	appendTimeout = 10 * time.Second
)

// deliver hands the effect to its handler. It returns false if the bot's own shutdown or the loss
// of the lease interrupted the delivery. Then there is nothing to report.
func (d *Dispatcher) deliver(ctx context.Context, e state.Effect) (Result, bool) {
	ctx, stop := d.leased(ctx)
	defer stop()
	if !d.held() {
		return Result{}, false
	}
	began := d.cfg.Clock.Now()
	res, panicked := d.attempt(ctx, e)
	now := d.cfg.Clock.Now()
	d.cfg.Observe(Attempt{Effect: e, Took: now.Sub(began), Done: res.Outcome.Done, Error: res.Outcome.Error,
		Panic: panicked})
	if (ctx.Err() != nil || !d.held() || isClosed(d.leaving)) && !res.Outcome.Done {
		return Result{}, false
	}
	d.complete(&res, e, now)
	return res, true
}

// held reports whether this process delivers.
func (d *Dispatcher) held() bool { return d.cfg.Lease == nil || d.cfg.Lease.Held() }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// leased returns a context that ends if this process does not hold the lease any more. It also ends
// at a handover, unless the delivery has begun a call.
func (d *Dispatcher) leased(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(state.WithLeaving(ctx, d.leaving))
	if d.cfg.Lease == nil {
		return ctx, cancel
	}
	changed := d.cfg.Lease.Changed()
	t := &turn{Lease: d.cfg.Lease, leaving: d.leaving}
	ctx = state.WithLease(ctx, t)
	go func() {
		leaving := d.leaving
		for {
			select {
			case <-changed:
				cancel()
				return
			case <-leaving:
				if !t.hasCalled() {
					cancel()
					return
				}
				leaving = nil
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, cancel
}

// A turn is the lease as one delivery sees it. It records whether the delivery has begun a call.
type turn struct {
	state.Lease
	leaving <-chan struct{}

	mu     sync.Mutex
	called bool
}

// Held is asked right before each call.
func (t *turn) Held() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.called && isClosed(t.leaving) || !t.Lease.Held() {
		return false
	}
	t.called = true
	return true
}

func (t *turn) hasCalled() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.called
}

// attempt calls the handler with its deadline. It turns a panic into an outcome, so that one effect
// cannot stop the bot.
func (d *Dispatcher) attempt(ctx context.Context, e state.Effect) (res Result, panicked bool) {
	h := d.cfg.Handlers[e.Kind]
	if h == nil {
		return Result{Outcome: state.Outcome{Done: true, Error: fmt.Sprintf("this Paramedic has no handler of %s effects",
			e.Kind)}}, false
	}
	ctx, cancel := context.WithTimeout(incidentlog.With(ctx, string(e.Incident)), d.lanes[e.Kind].Deadline)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			d.cfg.Logger.ErrorContext(ctx, "a handler panicked", "effect", e.ID, "incident", e.Incident, "action", e.Action,
				"err", fmt.Sprint(p), "stack", string(debug.Stack()))
			res, panicked = Result{Outcome: state.Outcome{Error: "the handler panicked: see Paramedic's log"}}, true
		}
	}()
	return h.Deliver(ctx, e), false
}

// complete sets the fields that the handler left empty.
func (d *Dispatcher) complete(res *Result, e state.Effect, now time.Time) {
	o := &res.Outcome
	o.Effect, o.Turn = e.ID, e.Turn
	if !o.Done && !o.RetryAt.After(now) { // a time in the past would make a busy loop
		o.RetryAt = now.Add(backoff(e.ID, e.Attempts))
	}
	for i := range res.Inputs {
		in := &res.Inputs[i]
		if in.At.IsZero() {
			in.At = now
		}
		if in.Cluster == "" {
			in.Cluster = e.Cluster
		}
	}
}

// backoff doubles from retryFirst to retryMax, plus or minus a fifth. The jitter comes from the ID.
// Effects that failed together thus do not return together, and a test knows the times.
func backoff(id state.EffectID, attempts int) time.Duration {
	wait := retryMax
	if attempts < 8 {
		wait = min(retryMax, retryFirst<<max(0, attempts))
	}
	h := fnv.New32a()
	fmt.Fprintf(h, "%s/%d", id, attempts)
	wait += wait * (time.Duration(h.Sum32()%401) - 200) / 1000
	return min(wait, retryMax)
}

// answer appends the inputs and the outcome, and retries until the log takes them or the dispatcher
// stops.
func (d *Dispatcher) answer(ctx context.Context, e state.Effect, res Result) bool {
	for wait := appendFirst; ; wait = min(2*wait, appendMost) {
		err := d.append(ctx, e, res)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false // it is delivered again after the next start
		}
		d.cfg.Logger.WarnContext(ctx, "the log does not take an outcome, trying again", "effect", e.ID, "incident", e.Incident,
			"action", e.Action, "err", err)
		if !errors.Is(err, state.ErrUnavailable) && len(res.Inputs) > 0 {
			// The log will never take them. An error in the outcome is visible, a stuck effect is
			// not.
			res = Result{Outcome: state.Outcome{Error: "Paramedic could not record its result: " + err.Error()}}
			d.complete(&res, e, d.cfg.Clock.Now())
		}
		select {
		case <-d.cfg.Clock.After(wait):
		case <-ctx.Done():
			return false
		}
	}
}

func (d *Dispatcher) append(ctx context.Context, e state.Effect, res Result) error {
	// Record the result even if the dispatcher has just been stopped.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), appendTimeout)
	defer cancel()
	outcome := state.Input{
		ID: state.Hash("outcome", string(e.ID), fmt.Sprint(e.Turn)), At: d.cfg.Clock.Now(), Cluster: e.Cluster,
		Outcome: &res.Outcome,
	}
	// The outcome comes last, so that the turn ends after its results.
	inputs := make([]state.Input, 0, len(res.Inputs)+1)
	return d.cfg.Log.Append(ctx, append(append(inputs, res.Inputs...), outcome)...)
}
