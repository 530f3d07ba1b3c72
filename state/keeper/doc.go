// Package keeper runs the partitions: it reads their inputs, applies them with a fold, commits the
// changes, and answers questions about what was committed.
//
// A [Keeper] implements state.View and state.Log, and gives the outbox the effects that are due. It
// appends a tick when a timer on a board expires. If another reader commits to a partition, the
// keeper drops the board and reads the records again. If the records are damaged, it makes them
// again from the log.
package keeper
