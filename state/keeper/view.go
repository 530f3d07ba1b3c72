package keeper

import (
	"context"
	"maps"
	"time"

	"paramedic/state"
	"paramedic/state/fold"
)

// find calls look with every board until it returns true.
func (k *Keeper) find(look func(b *fold.Board) bool) {
	for _, p := range k.parts {
		p.mu.RLock()
		found := look(p.board)
		p.mu.RUnlock()
		if found {
			return
		}
	}
}

// Incident returns a copy of the incident.
func (k *Keeper) Incident(id state.IncidentID) (out state.Incident, ok bool) {
	k.find(func(b *fold.Board) bool {
		if in := b.Incident(id); in != nil {
			out, ok = in.Clone(), true
		}
		return ok
	})
	return out, ok
}

// Incidents returns copies of all incidents within retention, newest first. If a page is enough,
// use ListIncidents.
func (k *Keeper) Incidents() []state.Incident {
	return k.ListIncidents(state.IncidentQuery{}).Incidents
}

// Action returns a copy of the action.
func (k *Keeper) Action(id state.ActionID) (out state.Action, ok bool) {
	k.find(func(b *fold.Board) bool {
		if a := b.Action(id); a != nil {
			out, ok = a.Clone(), true
		}
		return ok
	})
	return out, ok
}

// Evidence returns the incident's newest evidence. What it points to is never changed.
func (k *Keeper) Evidence(id state.IncidentID) (out state.Evidence, ok bool) {
	k.find(func(b *fold.Board) bool {
		if ev := b.Evidence(id); ev != nil {
			out, ok = *ev, true
		}
		return ok
	})
	return out, ok
}

// Alerts returns the alerts of an incident and of those merged into it, the earliest first.
func (k *Keeper) Alerts(id state.IncidentID) []state.AlertRecord {
	var out []state.AlertRecord
	k.find(func(b *fold.Board) bool {
		in := b.Incident(id)
		if in == nil {
			return false
		}
		out = b.AlertsOf(in)
		return true
	})
	return out
}

// Firing returns the alerts that a cluster's Alertmanager reported and that count as firing, with
// the times at which it reported them last.
func (k *Keeper) Firing(cluster string) map[state.Fingerprint]time.Time {
	out := map[state.Fingerprint]time.Time{}
	k.find(func(b *fold.Board) bool {
		maps.Copy(out, b.Firing(cluster))
		return false
	})
	return out
}

// Halted reports whether first aid is halted in a cluster.
func (k *Keeper) Halted(cluster string) (halt state.Halt, ok bool) {
	k.find(func(b *fold.Board) bool {
		if h := b.Halt(cluster); h != nil {
			halt, ok = *h, true
		}
		return ok
	})
	return halt, ok
}

// subscription is the number of entries that a subscriber may lag behind before it loses some.
const subscription = 256

// Subscribe sends every timeline entry from now on, until the context ends. Then it closes the
// channel.
func (k *Keeper) Subscribe(ctx context.Context) <-chan state.Entry {
	ch := make(chan state.Entry, subscription)
	k.mu.Lock()
	k.subs[ch] = true
	k.mu.Unlock()
	context.AfterFunc(ctx, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.subs, ch)
		close(ch)
	})
	return ch
}

// publish sends entries to the subscribers, and with own, those that this process has committed, to
// Published.
func (k *Keeper) publish(entries []state.Entry, own bool) {
	if k.cfg.Published != nil && len(entries) > 0 && own {
		k.cfg.Published(entries)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for ch := range k.subs {
		for _, e := range entries {
			select {
			case ch <- e:
			default:
			}
		}
	}
}
