package keeper

import "paramedic/state"

// Flood returns the flood of a channel, if there is one.
func (k *Keeper) Flood(ch state.Channel) (state.Flood, bool) {
	p := k.parts[k.cfg.Store.Partition("")]
	p.mu.RLock()
	defer p.mu.RUnlock()
	if f := p.board.Flood(ch); f != nil {
		return *f, true
	}
	return state.Flood{}, false
}

// FirstWaiting counts the open incidents that wait for their first message on a channel. It returns
// false unless this process delivers the effects of every partition.
func (k *Keeper) FirstWaiting(ch state.Channel) (state.FloodCount, bool) {
	for _, p := range k.parts {
		p.mu.RLock()
		delivers := p.delivers
		p.mu.RUnlock()
		if !delivers {
			return state.FloodCount{}, false
		}
	}
	return k.agenda.firstWaiting(ch)
}

func (a *agenda) firstWaiting(ch state.Channel) (state.FloodCount, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	count := state.FloodCount{Channel: ch}
	q := a.lanes[Lane{Kind: state.EffectNotify, Channel: ch, First: true}]
	if len(a.unloaded) > 0 || q == nil {
		return count, len(a.unloaded) == 0
	}
	causes, severity := map[state.Cause]int{}, 0
	for _, p := range []effectHeap{q.urgent, q.waiting} {
		for _, it := range p.items {
			if it.cause == "" {
				continue // it has ended
			}
			count.Waiting++
			causes[it.cause]++
			severity = max(severity, it.urgency.severity)
		}
	}
	for _, s := range []state.Severity{state.Info, state.Warning, state.Critical} {
		if s.Rank() == severity {
			count.Severity = s
		}
	}
	for cause, n := range causes {
		count.Causes = append(count.Causes, state.CauseCount{Cause: cause, N: n})
	}
	state.SortCauses(count.Causes)
	return count, true
}
