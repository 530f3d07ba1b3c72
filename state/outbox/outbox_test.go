package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"paramedic/state"
	"paramedic/state/keeper/agenda"
	"paramedic/state/outbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A world is a source and a log. It applies appended outcomes at once, unless hold is set.
type world struct {
	mu       sync.Mutex
	effects  map[state.EffectID]*state.Effect
	appended [][]state.Input
	turn     uint64
	hold     bool  // appended outcomes are not applied
	down     error // the error of Append
	changed  chan struct{}
	out      map[state.EffectID]uint64 // the turn in delivery; no other may start before it is finished
	running  map[state.EffectID]bool
}

func newWorld(effects ...state.Effect) *world {
	w := &world{effects: map[state.EffectID]*state.Effect{}, changed: make(chan struct{}, 1), out: map[state.EffectID]uint64{},
		running: map[state.EffectID]bool{}}
	for _, e := range effects {
		w.want(e)
	}
	return w
}

func (w *world) want(e state.Effect) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn++
	e.Turn = w.turn
	w.effects[e.ID] = &e
	w.tell()
}

func (w *world) tell() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func (w *world) Changed() <-chan struct{} { return w.changed }

func (w *world) Take(now time.Time, room func(agenda.Lane) int) (tasks []agenda.Task, next time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	given := map[agenda.Lane]int{}
	for _, id := range slices.Sorted(maps.Keys(w.effects)) {
		e := w.effects[id]
		turn, out := w.out[id]
		lane := agenda.Lane{Kind: e.Kind, Channel: e.Channel}
		switch {
		case e.Due.After(now):
			if next.IsZero() || e.Due.Before(next) {
				next = e.Due
			}
		case w.running[id] || out && turn == e.Turn || given[lane] >= room(lane):
		default:
			w.out[id], w.running[id] = e.Turn, true
			given[lane]++
			tasks = append(tasks, agenda.Task{Effect: *e, Lane: lane, Ahead: e.Kind == state.EffectPrepare})
		}
	}
	return tasks, next
}

func (w *world) Finished(t agenda.Task, answered bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.running, t.Effect.ID)
	if !answered {
		delete(w.out, t.Effect.ID)
	}
}

func (w *world) Append(_ context.Context, inputs ...state.Input) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down != nil {
		return w.down
	}
	w.appended = append(w.appended, inputs)
	if w.hold {
		return nil
	}
	o := inputs[len(inputs)-1].Outcome
	if e := w.effects[o.Effect]; e != nil && e.Turn == o.Turn {
		w.turn++
		e.Attempts, e.Due, e.Error, e.Turn = e.Attempts+1, o.RetryAt, o.Error, w.turn
		if o.Done {
			delete(w.effects, o.Effect)
		}
	}
	w.tell()
	return nil
}

func (w *world) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = err
}

func (w *world) outcomes() []state.Outcome {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []state.Outcome
	for _, inputs := range w.appended {
		all = append(all, *inputs[len(inputs)-1].Outcome)
	}
	return all
}

func (w *world) left() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.effects)
}

type handler func(ctx context.Context, e state.Effect) outbox.Result

func (h handler) Deliver(ctx context.Context, e state.Effect) outbox.Result { return h(ctx, e) }

func done(context.Context, state.Effect) outbox.Result {
	return outbox.Result{Outcome: state.Outcome{Done: true}}
}

func hang(ctx context.Context, _ state.Effect) outbox.Result {
	<-ctx.Done()
	return outbox.Result{Outcome: state.Outcome{Error: ctx.Err().Error()}}
}

// run starts a dispatcher; stop ends it and returns Run's error.
func run(t *testing.T, w *world, h handler, change ...func(*outbox.Config)) (stop func() error) {
	t.Helper()
	cfg := outbox.Config{Source: w, Log: w, Clock: state.SystemClock{}, Handlers: map[state.EffectKind]outbox.Handler{
		state.EffectNotify: h, state.EffectRun: h, state.EffectEnrich: h, state.EffectPrepare: h}}
	for _, c := range change {
		c(&cfg)
	}
	d, err := outbox.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	return func() error { cancel(); return <-ended }
}

func notify(id string, ch state.Channel) state.Effect {
	return state.Effect{ID: state.EffectID(id), Kind: state.EffectNotify, Channel: ch, Cluster: "prod"}
}

func TestDeliversAndAnswersInOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(state.Effect{ID: "enrich:1", Kind: state.EffectEnrich, Cluster: "prod"})
		stop := run(t, w, func(context.Context, state.Effect) outbox.Result {
			return outbox.Result{Outcome: state.Outcome{Done: true, Rev: 3}, Inputs: []state.Input{{Evidence: &state.Evidence{}}}}
		})
		synctest.Wait()
		if len(w.appended) != 1 || len(w.appended[0]) != 2 {
			t.Fatalf("appended %+v, want the evidence and the outcome in one write", w.appended)
		}
		evidence, last := w.appended[0][0], w.appended[0][1]
		if evidence.Evidence == nil || evidence.Cluster != "prod" || evidence.At.IsZero() {
			t.Errorf("first comes %+v, want the evidence with its cluster and time", evidence)
		}
		if o := last.Outcome; o == nil || o.Effect != "enrich:1" || o.Turn != 1 || !o.Done || o.Rev != 3 || last.ID == "" {
			t.Errorf("last comes %+v, want the outcome of turn 1", last)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestWorkAheadLeavesNoOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(state.Effect{ID: "enrich:1", Kind: state.EffectPrepare, Cluster: "prod"})
		calls := 0
		stop := run(t, w, func(ctx context.Context, e state.Effect) outbox.Result {
			if calls++; calls == 1 {
				return done(ctx, e)
			}
			return hang(ctx, e)
		})
		synctest.Wait()
		if calls == 0 || len(w.appended) != 0 {
			t.Errorf("%d calls, and %+v in the log", calls, w.appended)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestDueTimesAreObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		later := notify("b", "slack")
		later.Due = began.Add(time.Hour)
		w := newWorld(notify("a", "slack"), later)
		at := map[state.EffectID]time.Duration{}
		stop := run(t, w, func(ctx context.Context, e state.Effect) outbox.Result {
			at[e.ID] = time.Since(began)
			return done(ctx, e)
		})
		synctest.Wait()
		time.Sleep(30 * time.Minute)
		sooner := notify("c", "slack")
		sooner.Due = began.Add(40 * time.Minute)
		w.want(sooner)
		time.Sleep(2 * time.Hour)
		stop()
		if at["a"] != 0 || at["b"] != time.Hour || at["c"] != 40*time.Minute {
			t.Errorf("delivered %v", at)
		}
	})
}

func TestTurnIsDeliveredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(notify("a", "slack"))
		w.hold = true
		calls := 0
		stop := run(t, w, func(ctx context.Context, e state.Effect) outbox.Result { calls++; return done(ctx, e) })
		for range 5 { // appended, not applied, and the source signals a change
			synctest.Wait()
			w.mu.Lock()
			w.tell()
			w.mu.Unlock()
		}
		synctest.Wait()
		if calls != 1 {
			t.Errorf("one turn was delivered %d times", calls)
		}
		w.want(notify("a", "slack")) // a new turn
		synctest.Wait()
		if calls != 2 {
			t.Errorf("two turns were delivered %d times", calls)
		}
		stop()
	})
}

func TestEffectIsInDeliveryOnceDespiteNewTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(notify("a", "slack"))
		now, most := 0, 0
		stop := run(t, w, func(ctx context.Context, e state.Effect) outbox.Result {
			now++
			most = max(most, now)
			time.Sleep(time.Second)
			now--
			return done(ctx, e)
		})
		synctest.Wait()
		w.want(notify("a", "slack"))
		time.Sleep(time.Minute)
		stop()
		if most != 1 || w.left() != 0 || len(w.outcomes()) != 2 {
			t.Errorf("%d at a time, %d left, %d outcomes; want 1, 0, 2", most, w.left(), len(w.outcomes()))
		}
	})
}

func TestDeadSlackDoesNotDelayPagerDuty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for i := range 50 {
			w.want(notify(fmt.Sprintf("a%02d", i), "slack")) // sorts first
		}
		w.want(notify("page", "pagerduty"))
		w.want(state.Effect{ID: "run:1", Kind: state.EffectRun})
		began := time.Now()
		at := map[state.EffectID]time.Duration{}
		slack, most := 0, 0
		var mu sync.Mutex
		stop := run(t, w, func(ctx context.Context, e state.Effect) outbox.Result {
			if e.Channel != "slack" {
				mu.Lock()
				defer mu.Unlock()
				at[e.ID] = time.Since(began)
				return done(ctx, e)
			}
			mu.Lock()
			slack++
			most = max(most, slack)
			mu.Unlock()
			res := hang(ctx, e)
			mu.Lock()
			slack--
			mu.Unlock()
			return res
		})
		time.Sleep(time.Hour)
		stop()
		if len(at) != 2 || at["page"] != 0 || at["run:1"] != 0 {
			t.Errorf("behind a dead Slack the others were delivered at %v, want at once", at)
		}
		if most != 4 {
			t.Errorf("%d calls to Slack at a time, want 4", most)
		}
	})
}

// A channel with a limit of one message a second gets what is first in order at each second.
func TestUrgentMessageGoesFirstAtTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, free := newWorld(), time.Now()
		for i := range 30 {
			w.want(notify(fmt.Sprintf("b%02d", i), "pagerduty"))
		}
		var mu sync.Mutex
		var got []string
		stop := run(t, w, func(ctx context.Context, e state.Effect) outbox.Result {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, string(e.ID))
			free = time.Now().Add(time.Second)
			return done(ctx, e)
		}, func(c *outbox.Config) {
			c.Free = func(_ state.Channel, now time.Time) (int, time.Time) {
				mu.Lock()
				defer mu.Unlock()
				if now.Before(free) {
					return 0, free
				}
				return 1, now.Add(time.Second)
			}
		})
		time.Sleep(4500 * time.Millisecond)
		w.want(notify("a", "pagerduty")) // the world sorts by ID
		time.Sleep(2 * time.Second)
		stop()
		if want := []string{"b00", "b01", "b02", "b03", "b04", "a", "b05"}; !slices.Equal(got, want) {
			t.Errorf("delivered %v, want %v", got, want)
		}
	})
}

// Evidence takes the time that alerts need, so it waits while they do. It never stops.
func TestEvidenceYieldsToTriage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, began := newWorld(), time.Now()
		for i := range 100 {
			w.want(state.Effect{ID: state.EffectID(fmt.Sprintf("e%02d", i)), Kind: state.EffectEnrich, Cluster: "prod"})
		}
		w.want(notify("n", "slack"))
		var mu sync.Mutex
		gathered, told := 0, time.Duration(-1)
		stop := run(t, w, func(ctx context.Context, e state.Effect) outbox.Result {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == state.EffectNotify {
				told = time.Since(began)
			} else {
				gathered++
			}
			return done(ctx, e)
		}, func(c *outbox.Config) {
			c.Busy = func() bool { return time.Since(began) < 2*time.Second }
		})
		time.Sleep(1975 * time.Millisecond)
		mu.Lock()
		if gathered != 40 || told != 0 {
			t.Errorf("in two busy seconds, %d gatherings and the message after %s, want 20 a second and the message at once", gathered, told)
		}
		mu.Unlock()
		time.Sleep(time.Second)
		if n := w.left(); n > 0 {
			t.Errorf("%d effects are left a second later", n)
		}
		stop()
	})
}

func TestDeadlineEndsDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(notify("a", "slack"))
		stop := run(t, w, hang, func(c *outbox.Config) {
			c.Lanes = map[state.EffectKind]outbox.Lane{state.EffectNotify: {Workers: 1, Deadline: 7 * time.Second}}
		})
		time.Sleep(7*time.Second + time.Millisecond)
		synctest.Wait()
		if all := w.outcomes(); len(all) != 1 || all[0].Done || !strings.Contains(all[0].Error, "deadline") ||
			!all[0].RetryAt.After(time.Now()) {
			t.Errorf("outcomes %+v, want one that is tried again", all)
		}
		stop()
	})
}

func TestPanicIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(notify("a", "slack"), notify("b", "slack"))
		var seen []outbox.Attempt
		var mu sync.Mutex
		calls := 0
		stop := run(t, w, func(ctx context.Context, e state.Effect) outbox.Result {
			mu.Lock()
			defer mu.Unlock()
			if calls++; e.ID == "a" && e.Attempts == 0 {
				panic("token xoxb-secret")
			}
			return done(ctx, e)
		}, func(c *outbox.Config) {
			c.Observe = func(a outbox.Attempt) { mu.Lock(); defer mu.Unlock(); seen = append(seen, a) }
		})
		time.Sleep(time.Minute)
		stop()
		if w.left() != 0 || calls != 3 {
			t.Errorf("%d effects left after %d calls, want 0 after 3", w.left(), calls)
		}
		panics := 0
		for _, a := range seen {
			if a.Panic {
				panics++
				if strings.Contains(a.Error, "xoxb") {
					t.Errorf("the outcome tells the panic's text: %s", a.Error)
				}
			}
		}
		if panics != 1 || len(seen) != 3 {
			t.Errorf("observed %+v, want three attempts and one panic", seen)
		}
	})
}

func TestBackoffDoublesToFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(notify("a", "slack"))
		var at []time.Time
		stop := run(t, w, func(context.Context, state.Effect) outbox.Result {
			at = append(at, time.Now())
			return outbox.Result{Outcome: state.Outcome{Error: "503", RetryAt: time.Now().Add(-time.Hour)}} // a time in the past is ignored
		})
		time.Sleep(2 * time.Hour)
		stop()
		for i := range 12 {
			want := min(5*time.Minute, 2*time.Second<<i)
			got := at[i+1].Sub(at[i])
			if got < want*8/10 || got > min(5*time.Minute, want*12/10) {
				t.Errorf("wait %d is %s, want about %s", i, got, want)
			}
		}
	})
}

func TestHandlerChoosesRetryTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(notify("a", "slack"))
		want := time.Now().Add(42 * time.Second)
		stop := run(t, w, func(ctx context.Context, e state.Effect) outbox.Result {
			if e.Attempts == 0 {
				return outbox.Result{Outcome: state.Outcome{Error: "429", RetryAt: want}}
			}
			if !time.Now().Equal(want) {
				t.Errorf("tried again at %s, want %s", time.Now(), want)
			}
			return done(ctx, e)
		})
		time.Sleep(time.Minute)
		stop()
		if w.left() != 0 {
			t.Error("it was not tried again")
		}
	})
}

func TestOutcomeWaitsForTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(notify("a", "slack"))
		w.fail(fmt.Errorf("%w: disk full", state.ErrUnavailable))
		calls := 0
		stop := run(t, w, func(ctx context.Context, e state.Effect) outbox.Result { calls++; return done(ctx, e) })
		time.Sleep(10 * time.Minute)
		w.fail(nil)
		time.Sleep(10 * time.Second)
		stop()
		if calls != 1 || w.left() != 0 {
			t.Errorf("delivered %d times, %d left; want once and recorded", calls, w.left())
		}
	})
}

func TestOversizedResultIsReportedAsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(state.Effect{ID: "enrich:1", Kind: state.EffectEnrich})
		w.fail(errors.New("input has 9 GB"))
		stop := run(t, w, func(context.Context, state.Effect) outbox.Result {
			return outbox.Result{Outcome: state.Outcome{Done: true}, Inputs: []state.Input{{Evidence: &state.Evidence{}}}}
		})
		synctest.Wait()
		w.fail(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		if all := w.outcomes(); len(all) != 1 || all[0].Done || !strings.Contains(all[0].Error, "9 GB") || len(w.appended[0]) != 1 {
			t.Errorf("outcomes %+v, want one failure that says why", all)
		}
		stop()
	})
}

func TestKindWithoutHandlerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(state.Effect{ID: "note:1", Kind: state.EffectNote}, state.Effect{ID: "odd:1", Kind: "odd"})
		stop := run(t, w, done)
		synctest.Wait()
		stop()
		if all := w.outcomes(); len(all) != 2 || !all[0].Done || !strings.Contains(all[0].Error, "has no handler of") {
			t.Errorf("outcomes %+v", all)
		}
	})
}

func TestShutdownLetsDeliveriesFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(notify("quick", "pagerduty"), notify("stuck", "slack"))
		began := time.Now()
		stop := run(t, w, func(ctx context.Context, e state.Effect) outbox.Result {
			if e.ID == "stuck" {
				return hang(ctx, e)
			}
			select {
			case <-time.After(3 * time.Second):
				return done(ctx, e)
			case <-ctx.Done():
				return outbox.Result{}
			}
		})
		synctest.Wait()
		err := stop()
		if took := time.Since(began); err != nil || took != 5*time.Second {
			t.Errorf("stopped after %s with %v, want the grace period of 5s and no error", took, err)
		}
		if all := w.outcomes(); len(all) != 1 || all[0].Effect != "quick" || !all[0].Done {
			t.Errorf("outcomes %+v, want the one that could finish; the other is no failure of the neighbour's", all)
		}
	})
}

func TestShutdownDoesNotWaitForStuckHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(notify("deaf", "slack"))
		release := make(chan struct{})
		stop := run(t, w, func(ctx context.Context, e state.Effect) outbox.Result { <-release; return done(ctx, e) })
		synctest.Wait()
		if err := stop(); err == nil || !strings.Contains(err.Error(), "1 deliveries") {
			t.Errorf("stopped with %v", err)
		}
		close(release)
		synctest.Wait()
		if all := w.outcomes(); len(all) != 1 {
			t.Errorf("what was done late is recorded all the same: %+v", all)
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	w := newWorld()
	for _, cfg := range []outbox.Config{
		{},
		{Source: w, Log: w},
		{Source: w, Log: w, Clock: state.SystemClock{}, Lanes: map[state.EffectKind]outbox.Lane{state.EffectRun: {Workers: 1}}},
	} {
		if _, err := outbox.New(cfg); err == nil {
			t.Errorf("made a dispatcher of %+v", cfg)
		}
	}
}
