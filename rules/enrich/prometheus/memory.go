package prometheus

import (
	"fmt"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"paramedic/rules/enrich"
)

const (
	// remembered is how long an answer is used again: what comes in late, or from a store that did
	// not answer, is seen after that.
	remembered = 30 * time.Minute
	// mostAnswers is how many are remembered: those of ten incidents, about 36 MB for pools of 64
	// workers.
	mostAnswers = 64
	// shortly is how long what may soon be another is used again: that there is nothing, and, by
	// the one gathering that it was asked ahead for, which engines there are. What comes up
	// meanwhile is seen by the next. An incident's first gathering is ten seconds after its
	// opening.
	shortly = 30 * time.Second
	// late is how long after its moment a sample may come in: the longest interval at which engines
	// are usually scraped.
	late = time.Minute
)

// A memory keeps what Prometheus said of the past. The evidence of an open incident is gathered
// again and again, and more than half of what that costs Prometheus is of what is over and does not
// change: the charts up to the onset, the hour before it, the day and the week before.
type memory struct {
	answers *lru.Cache[question, recollection]
	looks   *lru.Cache[place, recentLook]
}

func newMemory() (*memory, error) {
	answers, err := lru.New[question, recollection](mostAnswers)
	if err != nil {
		return nil, fmt.Errorf("making a memory of %d answers: %w", mostAnswers, err)
	}
	looks, err := lru.New[place, recentLook](mostAnswers)
	if err != nil {
		return nil, fmt.Errorf("making a memory of %d looks: %w", mostAnswers, err)
	}
	return &memory{answers, looks}, nil
}

// place is what a look at the engines is about.
type place struct {
	namespace, pool string
	named, compared bool
	onset           time.Time
	jobs            string
}

func placeOf(q enrich.Query) place {
	return place{q.Scope.Namespace, q.Scope.Pool, byName(q.Scope), comparing(q), q.Onset.Round(0).UTC(), strings.Join(q.Jobs, "\n")}
}

type recentLook struct {
	look
	at time.Time
}

// looked is the look that was taken ahead, once.
func (m *memory) looked(q enrich.Query) (look, bool) {
	of := placeOf(q)
	l, ok := m.looks.Get(of)
	m.looks.Remove(of)
	return l.look, ok && within(shortly, l.at, q.Now)
}

// crowded says that there is no room for more answers but that of those that came shortly before:
// in a storm of incidents those asked ahead would push each other out before anybody wants them.
func (m *memory) crowded(more int, now time.Time) bool {
	_, oldest, ok := m.answers.GetOldest()
	return ok && m.answers.Len()+more > mostAnswers && within(shortly, oldest.asked, now)
}

// within says whether a moment came so long after another at most, and not before it.
func within(most time.Duration, from, to time.Time) bool {
	return !to.Before(from) && to.Sub(from) <= most
}

// question is what an answer is to.
type question struct {
	query   string
	chart   bool // a range; of few signals its query reads as an instant's
	settled time.Time
}

func (j job) question() question { return question{j.query, j.span != nil, j.settled} }

// recollection is what is remembered of an answer: nothing that is later than the question's
// moment, or may still have changed.
type recollection struct {
	asked  time.Time // when
	until  time.Time
	span   *v1.Range // that was asked for
	series []series
}

// holds says whether it can be used. That there is nothing may be so because of a store that was
// not there.
func (r recollection) holds(now time.Time) bool {
	return !r.asked.IsZero() && (len(r.series) > 0 || within(shortly, r.asked, now))
}

// known is a job with its answer.
type known struct {
	job
	series []series
}

// recall divides jobs into what is known of them now and what has to be asked. Charts are known all
// or none: what moved together is told by points of the same moments, and those of two gatherings
// before the onset are others.
func (m *memory) recall(jobs []job, now time.Time) (answered []known, rest []job) {
	found := make([]recollection, len(jobs))
	var drawn []time.Time // when the charts that have points were asked for, zero where one is not known
	for i, j := range jobs {
		if r, ok := m.answers.Get(j.question()); ok && within(remembered, r.asked, now) {
			found[i] = r
		}
		if r := found[i]; j.span != nil && (r.asked.IsZero() || len(r.series) > 0) {
			drawn = append(drawn, r.asked)
		}
	}
	apart := len(slices.Compact(drawn)) > 1
	for i, j := range jobs {
		r := found[i]
		if !r.holds(now) || j.span != nil && apart {
			rest = append(rest, j)
			continue
		}
		past := j
		past.span = r.span
		if j.span != nil {
			past.moments = j.but(present)
			since := j
			since.moments = j.but(baseline)
			since.settled = time.Time{}
			since.span = after(j.span, r.until)
			rest = append(rest, since)
		}
		answered = append(answered, known{past, r.series})
	}
	return answered, rest
}

// keep remembers what is settled of an answer. One that is not whole may be so because of what did
// not answer behind the server.
func (m *memory) keep(j job, a answer, now time.Time) {
	if j.settled.IsZero() || a.err != nil || a.partial {
		return
	}
	last := j.settled
	if latest := now.Add(-late); latest.Before(last) {
		last = latest
	}
	m.answers.Add(j.question(), recollection{asked: now, until: last, span: j.span, series: until(a.series, last)})
}

// until are the series without their points after a moment.
func until(all []series, moment time.Time) []series {
	out := make([]series, 0, len(all))
	for _, s := range all {
		n, _ := slices.BinarySearchFunc(s.points, moment, func(p point, t time.Time) int {
			if p.at.After(t) {
				return 1
			}
			return -1
		})
		if n > 0 {
			out = append(out, series{s.labels, slices.Clone(s.points[:n])}) // or the later points would be kept with them
		}
	}
	return out
}

// after is the part of a range that is later than a moment.
func after(span *v1.Range, moment time.Time) *v1.Range {
	steps := span.End.Sub(moment.Add(1)) / span.Step
	return &v1.Range{Start: span.End.Add(-steps * span.Step), End: span.End, Step: span.Step}
}
