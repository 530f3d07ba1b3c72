package stats

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"paramedic/state"
)

// A Summary has the figures of the incidents that opened between From and To. Lists are never null.
type Summary struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// All and Causes leave out merged incidents: each counts with its root. The other figures
	// include them.
	All    Group   `json:"all"`
	Causes []Cause `json:"causes"` // the most frequent first
	Open   int     `json:"open"`   // incidents that are not resolved
	Merged int     `json:"merged"`
	Pages  int     `json:"pages"` // incidents with a page in PagerDuty
	// NoisyRules has the noisiest rules, at most 20.
	NoisyRules []Rule     `json:"noisy_rules"`
	FirstAid   Runs       `json:"first_aid"`
	Feedback   []Feedback `json:"feedback"`
}

// A Group has the times of a group of incidents, all from the opening.
type Group struct {
	Incidents   int   `json:"incidents"`
	Diagnose    Times `json:"diagnose"`    // until the first verdict, which may be unknown
	Acknowledge Times `json:"acknowledge"` // until the acknowledgement that stands
	// Mitigate ends at the resolution, or at the first run of first aid that was verified to have
	// helped, whichever is earlier.
	Mitigate Times `json:"mitigate"`
}

// Times sums up durations. Each percentile is one of them: the smallest that the share does not
// exceed. It is null without durations.
type Times struct {
	Count  int      `json:"count"` // incidents that have come so far
	Median *float64 `json:"median_s"`
	P90    *float64 `json:"p90_s"`
}

// A Cause has the times of the incidents with one verdict.
type Cause struct {
	Cause state.Cause `json:"cause"`
	Group
}

// A Rule counts the incidents of an alert rule. Noisy incidents are benign or ended by themselves.
type Rule struct {
	Rule      string `json:"rule"`
	Incidents int    `json:"incidents"`
	Noisy     int    `json:"noisy"`
	Benign    int    `json:"benign"` // the verdict is benign_alert
	// EndedAlone counts incidents that their alerts ended, without an acknowledgement and without a
	// write of first aid.
	EndedAlone int `json:"ended_alone"`
}

// Runs counts runs of first aid by their outcome.
type Runs struct {
	Helped     int `json:"helped"` // verified
	RolledBack int `json:"rolled_back"`
	Failed     int `json:"failed"` // neither proven nor undone: a person was needed
	Denied     int `json:"denied"` // by a guard or a person
	Expired    int `json:"expired"`
	Cancelled  int `json:"cancelled"`
	Superseded int `json:"superseded"`
	Suggested  int `json:"suggested"` // planned in a mode that writes nothing
	Unfinished int `json:"unfinished"`
}

// Feedback counts the opinions on the verdicts of one cause, the last one of each person on an
// incident.
type Feedback struct {
	Cause state.Cause `json:"cause"`
	Right int         `json:"right"`
	Wrong int         `json:"wrong"`
}

// A Source lists incidents and their actions. [state.View] is one.
type Source interface {
	ListIncidents(q state.IncidentQuery) state.IncidentPage
	ActionsOf(id state.IncidentID) []state.Action
}

const (
	page      = 200 // incidents in memory at once
	mostRules = 20
)

// Sum returns the figures of the incidents that opened between from and to. It keeps durations and
// counts only, not the incidents. It returns an error if the context ends before.
func Sum(ctx context.Context, source Source, from, to time.Time) (Summary, error) {
	s := sums{causes: map[state.Cause]*group{}, rules: map[string]*Rule{}, feedback: map[state.Cause]*Feedback{}}
	q := state.IncidentQuery{Since: from, Limit: page}
	for more := true; more; more = q.After != nil {
		if err := ctx.Err(); err != nil {
			return Summary{}, fmt.Errorf("summing up the incidents: %w", err)
		}
		got := source.ListIncidents(q)
		for i := range got.Incidents {
			if in := &got.Incidents[i]; !in.OpenedAt.After(to) {
				s.add(in, source.ActionsOf(in.ID))
			}
		}
		q.After = got.Next
	}
	return s.summary(from, to), nil
}

// A group collects the durations of a Group.
type group struct {
	incidents                       int
	diagnose, acknowledge, mitigate []time.Duration
}

type sums struct {
	all      group
	causes   map[state.Cause]*group
	rules    map[string]*Rule
	feedback map[state.Cause]*Feedback
	out      Summary
}

func (s *sums) add(in *state.Incident, actions []state.Action) {
	if in.Told.Ref(state.ChannelPagerDuty, "status") != "" {
		s.out.Pages++
	}
	for i := range actions {
		s.out.FirstAid.add(&actions[i])
	}
	s.addFeedback(in)
	if in.MergedInto != "" {
		s.out.Merged++
		return
	}
	if in.Open() {
		s.out.Open++
	}
	for _, g := range []*group{&s.all, entry(s.causes, in.Cause(), group{})} {
		g.incidents++
		g.diagnose = timed(g.diagnose, in, in.DiagnosedAt)
		g.acknowledge = timed(g.acknowledge, in, in.AckedAt)
		g.mitigate = timed(g.mitigate, in, mitigated(in, actions))
	}
	s.addRules(in, actions)
}

// entry returns the value of a key. If there is none, it stores fresh.
func entry[K comparable, V any](m map[K]*V, key K, fresh V) *V {
	if m[key] == nil {
		m[key] = &fresh
	}
	return m[key]
}

// timed appends the time from the opening to the moment at, if that has come.
func timed(list []time.Duration, in *state.Incident, at time.Time) []time.Duration {
	if at.IsZero() {
		return list
	}
	return append(list, max(0, at.Sub(in.OpenedAt)))
}

// mitigated returns the moment at which the incident resolved or first aid was verified to have
// helped, whichever is earlier.
func mitigated(in *state.Incident, actions []state.Action) time.Time {
	at := in.ResolvedAt
	for _, a := range actions {
		for _, step := range a.Steps {
			if step.State == state.Succeeded && (at.IsZero() || step.At.Before(at)) {
				at = step.At
			}
		}
	}
	return at
}

func (s *sums) addRules(in *state.Incident, actions []state.Action) {
	benign := in.Cause() == state.BenignAlert
	alone := !in.Open() && in.AckedAt.IsZero() && (in.ResolvedBy == "" || in.ResolvedBy == "alerts") &&
		!slices.ContainsFunc(actions, func(a state.Action) bool { return a.Wrote() })
	names := map[string]bool{}
	for _, symptom := range in.Symptoms {
		for _, name := range symptom.Rules {
			names[name] = true
		}
	}
	for name := range names {
		r := entry(s.rules, name, Rule{Rule: name})
		r.Incidents++
		if benign {
			r.Benign++
		}
		if alone {
			r.EndedAlone++
		}
		if benign || alone {
			r.Noisy++
		}
	}
}

func (s *sums) addFeedback(in *state.Incident) {
	last := map[string]bool{}
	for _, f := range in.Feedback {
		last[cmp.Or(f.Actor.ID, f.Actor.Name)] = f.Right
	}
	for _, right := range last {
		if f := entry(s.feedback, in.Cause(), Feedback{Cause: in.Cause()}); right {
			f.Right++
		} else {
			f.Wrong++
		}
	}
}

func (r *Runs) add(a *state.Action) {
	switch {
	case a.Mode == "observe" || a.Mode == "suggest":
		r.Suggested++
	case a.State == state.Succeeded:
		r.Helped++
	case a.State == state.RolledBack:
		r.RolledBack++
	case a.State == state.NeedsHuman:
		r.Failed++
	case a.State == state.Denied:
		r.Denied++
	case a.State == state.Expired:
		r.Expired++
	case a.State == state.Cancelled:
		r.Cancelled++
	case a.State == state.Superseded:
		r.Superseded++
	default:
		r.Unfinished++
	}
}

func (s *sums) summary(from, to time.Time) Summary {
	out := s.out
	out.From, out.To, out.All = from.UTC(), to.UTC(), s.all.times()
	out.Causes, out.NoisyRules, out.Feedback = []Cause{}, []Rule{}, []Feedback{}
	for cause, g := range s.causes {
		out.Causes = append(out.Causes, Cause{Cause: cause, Group: g.times()})
	}
	slices.SortFunc(out.Causes, func(a, b Cause) int {
		return cmp.Or(b.Incidents-a.Incidents, cmp.Compare(a.Cause, b.Cause))
	})
	for _, r := range s.rules {
		if r.Noisy > 0 {
			out.NoisyRules = append(out.NoisyRules, *r)
		}
	}
	slices.SortFunc(out.NoisyRules, func(a, b Rule) int {
		return cmp.Or(b.Noisy-a.Noisy, cmp.Compare(a.Rule, b.Rule))
	})
	out.NoisyRules = out.NoisyRules[:min(len(out.NoisyRules), mostRules)]
	for _, cause := range slices.Sorted(maps.Keys(s.feedback)) {
		out.Feedback = append(out.Feedback, *s.feedback[cause])
	}
	return out
}

func (g *group) times() Group {
	return Group{Incidents: g.incidents, Diagnose: timesOf(g.diagnose), Acknowledge: timesOf(g.acknowledge),
		Mitigate: timesOf(g.mitigate)}
}

func timesOf(list []time.Duration) Times {
	if len(list) == 0 {
		return Times{}
	}
	slices.Sort(list)
	rank := func(percent int) *float64 {
		seconds := list[(len(list)*percent+99)/100-1].Seconds()
		return &seconds
	}
	return Times{Count: len(list), Median: rank(50), P90: rank(90)}
}
