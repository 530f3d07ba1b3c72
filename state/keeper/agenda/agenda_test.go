package agenda

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"paramedic/state"
)

// An agendaWorld is an agenda with one lane for gathering evidence, and a clock.
type agendaWorld struct {
	*Agenda
	now time.Time
}

func newAgendaWorld() *agendaWorld {
	return &agendaWorld{Agenda: New(), now: time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)}
}

// want puts an effect on the agenda that has been due for a time.
func (w *agendaWorld) want(id string, s state.Severity, waited time.Duration) {
	e := state.Effect{ID: state.EffectID(id), Kind: state.EffectEnrich, Due: w.now.Add(-waited), Since: w.now.Add(-waited), Turn: 1}
	w.Apply(0, []Move{{id: e.ID, effect: &e, lane: Lane{Kind: state.EffectEnrich}, urgency: urgency{severity: s.Rank()}}})
}

// next takes n effects, and returns their IDs in order.
func (w *agendaWorld) next(n int) (ids []string) {
	tasks, _ := w.Take(w.now, func(Lane) int { return n })
	for _, t := range tasks {
		ids = append(ids, string(t.Effect.ID))
	}
	return ids
}

func TestAgendaTakesCriticalFirst(t *testing.T) {
	w := newAgendaWorld()
	for i := range 1000 {
		w.want(fmt.Sprintf("warning-%03d", i), state.Warning, 30*time.Second-time.Duration(i)*time.Millisecond)
	}
	w.want("critical-b", state.Critical, time.Second)
	w.want("info", state.Info, 40*time.Second)
	w.want("critical-a", state.Critical, 2*time.Second)
	if got, want := w.next(4), []string{"critical-a", "critical-b", "warning-000", "warning-001"}; !slices.Equal(got, want) {
		t.Errorf("taken %v, want %v", got, want)
	}
}

func TestFirstMessagesGoBySeveritySizeAge(t *testing.T) {
	w := newAgendaWorld()
	lane := Lane{Kind: state.EffectNotify, Channel: state.ChannelPagerDuty, First: true}
	for _, in := range []state.Incident{
		{ID: "old", Severity: state.Warning, ActiveAlerts: 1},
		{ID: "young", Severity: state.Warning, ActiveAlerts: 1},
		{ID: "wide", Severity: state.Warning, Scope: state.Scope{Pods: make([]string, 9)}},
		{ID: "loud", Severity: state.Warning, ActiveAlerts: 4},
		{ID: "critical", Severity: state.Critical, ActiveAlerts: 1},
	} {
		w.now = w.now.Add(time.Second)
		e := state.Effect{ID: state.EffectID(in.ID), Kind: state.EffectNotify, Due: w.now, Since: w.now}
		w.Apply(0, []Move{{id: e.ID, effect: &e, lane: lane, urgency: urgencyOf(&in, lane)}})
	}
	if got, want := w.next(5), []string{"critical", "wide", "loud", "old", "young"}; !slices.Equal(got, want) {
		t.Errorf("taken %v, want %v", got, want)
	}
}

func TestAgendaFollowsRisingSeverity(t *testing.T) {
	w := newAgendaWorld()
	w.want("a", state.Warning, 3*time.Second)
	w.want("b", state.Warning, 2*time.Second)
	w.want("c", state.Warning, time.Second)
	w.want("c", state.Critical, time.Second)
	if got := w.next(1); !slices.Equal(got, []string{"c"}) {
		t.Errorf("taken %v, want the incident that became critical", got)
	}
}

func TestAgendaTakesFirstEvidenceFirst(t *testing.T) {
	w := newAgendaWorld()
	for i, again := range []bool{true, false} {
		e := state.Effect{ID: state.EffectID(fmt.Sprint("again=", again)), Kind: state.EffectEnrich,
			Since: w.now, Due: w.now.Add(time.Duration(i-10) * time.Second)}
		w.Apply(0, []Move{{id: e.ID, effect: &e, lane: Lane{Kind: state.EffectEnrich}, urgency: urgency{severity: 2, diagnosed: again}}})
	}
	if got := w.next(1); !slices.Equal(got, []string{"again=false"}) {
		t.Errorf("taken %v, want the incident without a verdict", got)
	}
}

func TestAgendaReservesShareForOverdue(t *testing.T) {
	w := newAgendaWorld()
	w.want("warning", state.Warning, 2*time.Minute)
	for i := range 20 {
		w.want(fmt.Sprintf("critical-%02d", i), state.Critical, time.Second)
	}
	got := w.next(8)
	if at := slices.Index(got, "warning"); at < 0 || at > maxPassed {
		t.Errorf("taken %v, want the overdue warning after %d criticals", got, maxPassed)
	}
}

func TestAgendaKeepsLanesApart(t *testing.T) {
	w := newAgendaWorld()
	add := func(id string, l Lane) {
		w.Apply(0, []Move{{id: state.EffectID(id), effect: &state.Effect{ID: state.EffectID(id), Kind: l.Kind, Due: w.now}, lane: l}})
	}
	slack := Lane{Kind: state.EffectNotify, Channel: state.ChannelSlack}
	for i := range 50 {
		add(fmt.Sprint("edit", i), slack)
	}
	add("page", Lane{Kind: state.EffectNotify, Channel: state.ChannelPagerDuty})
	add("post", Lane{Kind: state.EffectNotify, Channel: state.ChannelSlack, First: true})
	tasks, _ := w.Take(w.now, func(l Lane) int {
		if l == slack {
			return 0 // all workers are busy
		}
		return 1
	})
	if len(tasks) != 2 {
		t.Errorf("taken %v, want the page and the first message", tasks)
	}
}

func TestAgendaHandsOutEachTurnOnce(t *testing.T) {
	w := newAgendaWorld()
	lane := Lane{Kind: state.EffectEnrich}
	set := func(turn uint64) {
		e := state.Effect{ID: "a", Kind: state.EffectEnrich, Since: w.now, Due: w.now, Turn: turn}
		w.Apply(0, []Move{{id: "a", effect: &e, lane: lane}})
	}
	take := func() (Task, bool) {
		tasks, _ := w.Take(w.now, func(Lane) int { return 4 })
		if len(tasks) == 0 {
			return Task{}, false
		}
		return tasks[0], true
	}
	set(1)
	first, ok := take()
	if !ok {
		t.Fatal("the effect is not given out")
	}
	set(2)
	if _, ok := take(); ok {
		t.Error("an effect in delivery is given out again")
	}
	w.Finish(first, true)
	second, ok := take()
	if !ok || second.Effect.Turn != 2 {
		t.Errorf("after the delivery came turn %d (%v), want 2", second.Effect.Turn, ok)
	}
	w.Finish(second, true)
	if _, ok := take(); ok {
		t.Error("a turn whose outcome is in the log is given out again")
	}
	set(3)
	third, ok := take()
	if !ok {
		t.Fatal("the next turn is not given out")
	}
	w.Finish(third, false)
	if _, ok = take(); !ok {
		t.Error("a delivery without an outcome is not made again")
	}
}

func TestAgendaKeepsDeliveriesAcrossLoad(t *testing.T) {
	w := newAgendaWorld()
	w.want("a", state.Warning, time.Second)
	w.want("b", state.Warning, 0)
	tasks, _ := w.Take(w.now, func(Lane) int { return 1 })
	again := []Move{}
	for _, id := range []state.EffectID{"a", "b"} {
		again = append(again, Move{id: id, effect: &state.Effect{ID: id, Kind: state.EffectEnrich, Since: w.now, Due: w.now, Turn: 1},
			lane: Lane{Kind: state.EffectEnrich}})
	}
	w.Unload(0)
	if got := w.next(4); len(got) != 0 {
		t.Errorf("taken %v of a partition that is not loaded", got)
	}
	w.Load(0, again)
	if got := w.next(4); !slices.Equal(got, []string{"b"}) {
		t.Errorf("taken %v after the load, want b alone: a is in delivery", got)
	}
	w.Finish(tasks[0], true)
	if got := w.next(4); len(got) != 0 {
		t.Errorf("taken %v, want nothing: the outcome of a is in the log", got)
	}
}

func TestOldestOwedCountsFailures(t *testing.T) {
	w := newAgendaWorld()
	if since, n := w.OldestOwed(w.now); n != 0 || !since.IsZero() {
		t.Errorf("nothing is owed, and it says %d since %s", n, since)
	}
	w.want("due", state.Warning, 5*time.Second)
	w.want("later", state.Warning, -time.Minute)
	failing := state.Effect{ID: "failing", Kind: state.EffectEnrich, Since: w.now.Add(-time.Hour), Due: w.now.Add(time.Minute), Attempts: 9}
	w.Apply(0, []Move{{id: failing.ID, effect: &failing, lane: Lane{Kind: state.EffectEnrich}}})
	if since, n := w.OldestOwed(w.now); n != 2 || !since.Equal(failing.Since) {
		t.Errorf("%d since %s, want 2 since %s", n, since, failing.Since)
	}
	w.next(4)
	if _, n := w.OldestOwed(w.now); n != 2 {
		t.Errorf("%d are owed while one is in delivery, want 2", n)
	}
	w.Apply(0, []Move{{id: "due", gone: true}, {id: "failing", gone: true}})
	if _, n := w.OldestOwed(w.now); n != 0 {
		t.Errorf("%d are owed after both were delivered", n)
	}
}

// A delivery may end while its partition is loaded again. Its outcome is in the log and not
// applied.
func TestAgendaForgetsDeliveriesEndedBeforeLoad(t *testing.T) {
	w := newAgendaWorld()
	w.Load(0, nil)
	w.want("a", state.Warning, time.Second)
	w.want("b", state.Warning, 0)
	tasks, _ := w.Take(w.now, func(Lane) int { return 4 })
	loaded := func(turn uint64) (moves []Move) {
		for _, id := range []state.EffectID{"a", "b"} {
			moves = append(moves, Move{id: id, effect: &state.Effect{ID: id, Kind: state.EffectEnrich, Since: w.now, Due: w.now, Turn: turn},
				lane: Lane{Kind: state.EffectEnrich}})
		}
		return moves
	}
	w.Unload(0)
	for _, task := range tasks {
		w.Finish(task, task.Effect.ID == "a")
	}
	w.Load(0, loaded(1))
	if got := w.next(4); !slices.Equal(got, []string{"b"}) {
		t.Errorf("taken %v after the load, want b alone: the outcome of a is in the log", got)
	}
	w.Apply(0, loaded(2)[:1])
	if got := w.next(4); !slices.Equal(got, []string{"a"}) {
		t.Errorf("taken %v, want a: its outcome was applied", got)
	}
	w.Unload(0)
	w.Finish(tasks[0], true)
	if w.Load(0, nil); len(w.deliveries) != 1 {
		t.Errorf("%d loans, want that of b alone, which is in delivery", len(w.deliveries))
	}
}

// Two lanes of a channel share a limit of one message at a time.
func TestLanesOfAChannelTakeTurns(t *testing.T) {
	w := newAgendaWorld()
	for i := range 6 {
		lane := Lane{Kind: state.EffectNotify, Channel: state.ChannelPagerDuty, First: i%2 == 0}
		id := state.EffectID(fmt.Sprint(i))
		w.Apply(0, []Move{{id: id, effect: &state.Effect{ID: id, Kind: lane.Kind, Due: w.now}, lane: lane}})
	}
	first := map[bool]int{}
	for range 4 {
		free := 1
		tasks, _ := w.Take(w.now, func(Lane) int { free--; return free + 1 })
		for _, task := range tasks {
			first[task.Lane.First]++
		}
	}
	if first[true] != 2 || first[false] != 2 {
		t.Errorf("of four messages %d were first ones and %d later ones, want two and two", first[true], first[false])
	}
}

// A first gathering is prepared while its incident settles, once, and not after it has begun.
func TestAgendaPreparesFirstGathering(t *testing.T) {
	w := newAgendaWorld()
	gather := func(id string, due time.Duration, diagnosed bool) {
		e := state.Effect{ID: state.EffectID(id), Kind: state.EffectEnrich, Since: w.now, Due: w.now.Add(due), Turn: 1}
		w.Apply(0, []Move{{id: e.ID, effect: &e, lane: Lane{Kind: state.EffectEnrich}, urgency: urgency{diagnosed: diagnosed}}})
	}
	take := func(kind state.EffectKind) (ids []string) {
		tasks, _ := w.Take(w.now, func(l Lane) int {
			if l.Kind == kind {
				return 9
			}
			return 0
		})
		for _, task := range tasks {
			if task.Ahead != (kind == state.EffectPrepare) || task.Effect.Kind != kind {
				t.Errorf("a task of kind %s is ahead: %v", task.Effect.Kind, task.Ahead)
			}
			ids = append(ids, string(task.Effect.ID))
			w.Finish(task, !task.Ahead)
		}
		return ids
	}
	gather("diagnosed", 10*time.Second, true)
	gather("opened", 10*time.Second, false)
	gather("begun", 10*time.Second, false)
	gather("begun", 0, false) // a critical alert came
	gather("verdict", 10*time.Second, false)
	gather("verdict", 10*time.Second, true)
	gather("ended", 10*time.Second, false)
	w.Apply(0, []Move{{id: "ended", gone: true}})
	if got := take(state.EffectEnrich); !slices.Equal(got, []string{"begun"}) {
		t.Errorf("gathered %v, want the one that is due", got)
	}
	if got := take(state.EffectPrepare); !slices.Equal(got, []string{"opened"}) {
		t.Errorf("prepared %v, want the one that was opened and has not begun", got)
	}
	w.now = w.now.Add(10 * time.Second)
	gather("opened", 0, false)
	if got := take(state.EffectPrepare); len(got) != 0 {
		t.Errorf("prepared %v again", got)
	}
	if got := take(state.EffectEnrich); len(got) != 3 {
		t.Errorf("gathered %v, want the three that have become due", got)
	}
	w.Apply(0, []Move{{id: "opened", gone: true}, {id: "diagnosed", gone: true}, {id: "begun", gone: true}, {id: "verdict", gone: true}})
	if _, n := w.OldestOwed(w.now); n != 0 || len(w.items) != 0 {
		t.Errorf("%d are owed of %d, after all are gone", n, len(w.items))
	}
}

// Stores of older versions have an effect for each preparation. It has an outcome.
func TestOldPreparationHasAnOutcome(t *testing.T) {
	w := newAgendaWorld()
	e := state.Effect{ID: "prepare:INC-1", Kind: state.EffectPrepare, Since: w.now, Due: w.now, Turn: 1}
	w.Apply(0, []Move{{id: e.ID, effect: &e, lane: Lane{Kind: state.EffectPrepare}}})
	tasks, _ := w.Take(w.now, func(Lane) int { return 9 })
	if len(tasks) != 1 || tasks[0].Ahead {
		t.Fatalf("taken %+v, want the effect, which is not ahead of another", tasks)
	}
	w.Finish(tasks[0], true)
	if got := w.next(9); len(got) != 0 {
		t.Errorf("taken %v again, though its outcome is in the log", got)
	}
}

func TestPreparationFollowsRisingSeverity(t *testing.T) {
	w := newAgendaWorld()
	open := func(id string, s state.Severity) {
		e := state.Effect{ID: state.EffectID(id), Kind: state.EffectEnrich, Since: w.now, Due: w.now.Add(10 * time.Second), Turn: 1}
		w.Apply(0, []Move{{id: e.ID, effect: &e, lane: Lane{Kind: state.EffectEnrich}, urgency: urgency{severity: s.Rank()}}})
	}
	open("a", state.Warning)
	open("b", state.Warning)
	open("b", state.Critical)
	if got := w.next(1); !slices.Equal(got, []string{"b"}) {
		t.Errorf("prepared %v first, want the incident that became critical", got)
	}
}
