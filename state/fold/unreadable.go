package fold

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"paramedic/state"
)

// unreadable is the journal key that lists the fields of a run's record that could not be read.
const unreadable = "unreadable"

// decodeAction returns the run of a record. If a part of the record cannot be read, only that run
// stops, not the partition. The run keeps the readable fields, waits for a person, and keeps its
// lock until then.
func decodeAction(r state.Record) *state.Action {
	a, err := decode[state.Action](r.Value)
	if err == nil && a.State != "" && recordKey(kindAction, string(a.ID)) == r.Key {
		return a
	}
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(r.Value, &fields) // a value that is no object yields no fields
	a = &state.Action{}
	lost := map[string]bool{}
	for name, raw := range fields {
		next := *a
		one, err := json.Marshal(map[string]json.RawMessage{name: raw})
		if err == nil {
			err = json.Unmarshal(one, &next)
		}
		if err != nil {
			lost[name] = true
			continue
		}
		*a = next
	}
	if recordKey(kindAction, string(a.ID)) != r.Key {
		_, id, _ := strings.Cut(r.Key, ".")
		a.ID, lost["id"] = state.ActionID(id), true
	}
	for name, missing := range map[string]bool{"state": a.State == "", "incident": a.Incident == "",
		"kind": a.Kind == "", "steps": len(a.Steps) == 0} {
		if missing {
			lost[name] = true
		}
	}
	a.Journal = maps.Clone(a.Journal)
	if a.Journal == nil {
		a.Journal = map[string]string{}
	}
	a.Journal[unreadable] = strings.Join(slices.Sorted(maps.Keys(lost)), ", ")
	if a.State.Done() && !slices.ContainsFunc([]string{"id", "incident", "kind", "state", "steps", "target"},
		func(name string) bool { return lost[name] }) {
		return a // it has ended, and the fields that guards count are readable
	}
	if a.Change == "" {
		a.Change = "action " + string(a.ID)
	}
	a.State = state.NeedsHuman
	a.Reason = "Paramedic cannot read its record (" + a.Journal[unreadable] + "): check what it did, then cancel it"
	return a
}

// completeUnreadable completes the unreadable runs of an incident from the incident itself, and
// sets a timer for it.
func (b *Board) completeUnreadable(in *state.Incident) {
	for _, id := range in.Actions {
		a := b.actions[id]
		if a == nil || a.Journal[unreadable] == "" || !a.NeedsPerson() {
			continue
		}
		if a.Incident == "" {
			a.Incident = in.ID
		}
		if a.Target.Name == "" && a.Target.Pool == "" {
			a.Target = state.Target{Cluster: in.Cluster, Namespace: in.Scope.Namespace, Kind: "Deployment",
				Name: in.Scope.Pool, Pool: in.Scope.Pool}
		}
		b.setTimer(in, in.OpenedAt)
	}
}
