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
	return k.agenda.FirstWaiting(ch)
}
