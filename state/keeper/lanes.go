package keeper

import (
	"cmp"
	"maps"
	"slices"
)

// inTurn returns the lanes, the one that was served longest ago first. Lanes of one channel share
// its limit, and each gets its turn.
func (a *agenda) inTurn() []Lane {
	lanes := slices.Collect(maps.Keys(a.lanes))
	slices.SortFunc(lanes, func(x, y Lane) int { return cmp.Compare(a.lanes[x].served, a.lanes[y].served) })
	return lanes
}
