// Package policy holds what an operator allows first aid to do: the mode, the policies that tighten
// it, the limits with their hard bounds, the freeze windows, and the times of a run.
//
// [Rules.For] returns the [Rule] for one action in one place. Of the general settings and of every
// policy that matches, the strictest of each holds. A zero value is the safest one.
package policy
