package fold

import (
	"slices"
	"time"

	"paramedic/state"
)

// supersedes reports whether a new verdict replaces the one that was published.
//
// The evidence fades with the trouble. A verdict is therefore not replaced by unknown, by benign,
// or by a mere consequence. It is not replaced at all after the bot has acted on it, or while a
// person does. Only a benign verdict is replaced by unknown, if an alert fires that it does not
// explain. None of this applies to a new trouble after the end of the first one.
func (x *step) supersedes(in *state.Incident, d state.Diagnosis) bool {
	if d.Cause == in.Cause() {
		fades := d.Score < in.Diagnosis.Score && len(d.Scope.Pods) < len(in.Diagnosis.Scope.Pods)
		return in.ActiveAlerts > 0 && in.Status != state.StatusMitigating && !fades // the report keeps the peak
	}
	if in.Cause() == state.Unknown {
		return true
	}
	if len(in.Pools) > 1 && in.Cause().IsShared() {
		return false // the evidence of one pool does not speak for the others
	}
	if in.Cause() == state.BenignAlert && d.Cause == state.Unknown {
		return hasUnexplainedAlert(in)
	}
	if d.Cause == state.Unknown || d.Cause == state.BenignAlert || in.ActiveAlerts == 0 || x.belongsToOther(in, d) ||
		x.restsOnMissing(in, d) || x.followsRollout(in) {
		return false
	}
	if isNewTrouble(in, d) {
		return !x.hasOpenWrite(in)
	}
	if x.isAftermath(in, d) || slices.Contains(in.RuledOut, d.Cause) {
		return false
	}
	return !x.hasActed(in)
}

// hasActed reports whether the bot has acted on the incident's verdict, or a person does.
func (x *step) hasActed(in *state.Incident) bool {
	return slices.ContainsFunc(in.Actions, func(id state.ActionID) bool {
		a := x.actions[id]
		s := a.State
		return !s.BeforeEffect() && s != state.Denied && s != state.Expired && s != state.Cancelled &&
			(s != state.Superseded || a.Reached(state.Applied))
	})
}

// takeCautions replaces what holds back the steps of a verdict that stays by what holds them back
// in the light of the newest evidence. What was begun goes on, and so does the advice after the end
// of the trouble, when its evidence has faded.
func (x *step) takeCautions(in *state.Incident, d state.Diagnosis) {
	switch {
	case in.ActiveAlerts == 0 || in.Status == state.StatusMitigating || x.hasActed(in):
	case d.Cause == in.Cause():
		in.Diagnosis.Story.Cautions = d.Story.Cautions
	default:
		in.Diagnosis.Story.Cautions = d.Doubts
	}
}

// isNewTrouble reports whether a verdict is about a new trouble that came within the hold, after
// all alerts of the first had resolved. It explains a symptom that the first trouble neither had
// nor leads to.
func isNewTrouble(in *state.Incident, d state.Diagnosis) bool {
	return len(in.Over) > 0 && slices.ContainsFunc(in.Symptoms, func(s state.SymptomCount) bool {
		return s.Active > 0 && !slices.Contains(in.Over, s.Symptom) &&
			!slices.Contains(in.Diagnosis.Explains, s.Symptom) && slices.Contains(d.Explains, s.Symptom)
	})
}

// hasUnexplainedAlert reports whether an active symptom is neither explained by the verdict nor
// among its findings.
func hasUnexplainedAlert(in *state.Incident) bool {
	return slices.ContainsFunc(in.Symptoms, func(s state.SymptomCount) bool {
		weighed := func(f state.Finding) bool { return f.Signal == "symptom:"+string(s.Symptom) }
		return s.Active > 0 && s.Symptom != state.Unclassified && !slices.Contains(in.Diagnosis.Explains, s.Symptom) &&
			!slices.ContainsFunc(in.Diagnosis.Findings, weighed)
	})
}

// belongsToOther reports whether a verdict is about other pods than the incident, and these have an
// incident with the same cause. When the evidence of one trouble fades, only that of the other
// remains.
func (x *step) belongsToOther(in *state.Incident, d state.Diagnosis) bool {
	if len(in.Diagnosis.Scope.Pods) == 0 || intersect(in.Diagnosis.Scope.Pods, d.Scope.Pods) {
		return false
	}
	return slices.ContainsFunc(x.nearby(in.Cluster, d.Scope), func(other *state.Incident) bool {
		return other.ID != in.ID && other.Open() && other.Cause() == d.Cause &&
			intersect(other.Diagnosis.Scope.Pods, d.Scope.Pods)
	})
}

// fadeTime is the time that the consequences of a trouble may look like another trouble. It covers
// the longest windows of rules and signals, and the time that rules wait before they fire.
const fadeTime = 15 * time.Minute

// isAftermath reports whether a verdict has a lower score than the one before it and comes soon
// after. While a trouble ends, draining queues and returning clients look like a trouble of their
// own, and the evidence of the real one is gone. A root cause of the first verdict is no aftermath
// if an alert or a broken worker or node shows it, or while no alert has resolved: rates look back
// minutes, so the score of the root still grows.
func (x *step) isAftermath(in *state.Incident, d state.Diagnosis) bool {
	if in.Relapses > 0 && slices.Contains(in.Diagnosis.LeadsTo, d.Cause) {
		return true // the trouble is back, and shows its consequence first
	}
	unexplained := func(s state.SymptomCount) bool {
		return s.Active > 0 && s.Symptom != state.Unclassified && !slices.Contains(in.Diagnosis.Explains, s.Symptom)
	}
	resolved := func(s state.SymptomCount) bool { return s.Active < s.Alerts }
	broken := len(d.Scope.Pods)+len(d.Scope.Nodes) > 0
	root := slices.Contains(d.LeadsTo, in.Cause()) && (broken || slices.ContainsFunc(in.Symptoms, unexplained) ||
		!slices.ContainsFunc(in.Symptoms, resolved))
	return in.Cause() != state.BenignAlert && d.Score < in.Diagnosis.Score && x.now.Sub(in.Diagnosis.At) <= fadeTime &&
		!root
}

// rolloutTime is the time that a rollout explains new symptoms. Queues move to workers with cold
// caches, and some workers have the new settings while others have the old.
const rolloutTime = 15 * time.Minute

// followsRollout reports whether someone started a rollout of the incident's pool soon after the
// verdict. A change after the verdict cannot be its root cause.
func (x *step) followsRollout(in *state.Incident) bool {
	ev := x.evidence[in.ID]
	return ev != nil && slices.ContainsFunc(ev.Samples, func(s state.Sample) bool {
		if s.Signal != "rollout_age" || in.Scope.Pool != "" && s.Entity.Pool != "" && s.Entity.Pool != in.Scope.Pool {
			return false
		}
		began := s.At.Add(-time.Duration(s.Value * float64(time.Second)))
		return began.After(in.NamedAt) && x.now.Sub(began) <= rolloutTime
	})
}

// scrapeGap is the time that a verdict is kept although its signals cannot be read. After that the
// missing signals are themselves a symptom.
const scrapeGap = 3 * time.Minute

// restsOnMissing reports whether a verdict is different only because signals of the one before it
// could not be read this time. A failed scrape is no evidence against the earlier verdict. The
// missing findings count twice, because they may also have spoken against the new cause.
func (x *step) restsOnMissing(in *state.Incident, d state.Diagnosis) bool {
	ev := x.evidence[in.ID]
	i := slices.IndexFunc(d.Alternatives, func(a state.Alternative) bool { return a.Cause == in.Cause() })
	if ev == nil || i < 0 || x.now.Sub(in.Diagnosis.At) > scrapeGap {
		return false
	}
	unread := 0.0
	for _, f := range in.Diagnosis.Findings {
		if f.Weight > 0 &&
			slices.ContainsFunc(f.Reads, func(signal string) bool { return ev.Lacks(signal, f.Pod) }) {
			unread += f.Weight
		}
	}
	return unread > 0 && d.Alternatives[i].Score+2*unread >= d.Score
}
