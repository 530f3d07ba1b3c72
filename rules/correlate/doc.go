// Package correlate decides which alerts belong together: the open incident that a sign joins, and
// the incident that absorbs another as its consequence. The outcome does not depend on the order in
// which the incidents are given.
package correlate
