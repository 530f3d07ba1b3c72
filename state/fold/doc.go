// Package fold applies inputs to what one partition remembers.
//
// A [Fold] changes a [Board] input by input. It is pure: the same inputs and the same rules make
// the same board. It neither reads a clock nor does I/O. The board notes what was changed, and
// [Board.Take] returns that as records and timeline entries to commit. [LoadBoard] makes a board
// from such records again.
//
// Each input changes a bounded number of records, so that a commit stays small.
package fold
