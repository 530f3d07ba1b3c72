package remediate

import (
	"cmp"

	"paramedic/remediate/cluster"
	"paramedic/state"
)

// putBack reports whether another hand undid the run's write: the value is the one from before the
// write.
func putBack(w cluster.Workload, wr state.Write) bool {
	live, ok := valueAt(w, wr.Path)
	return w.UID == wr.UID && ok && live == wr.Old
}

// handedOff ends a run whose write was put back by another hand. Nothing is left to verify or to
// undo.
func handedOff(w cluster.Workload) advance {
	text := "another client put the old value back: Paramedic does not write it again"
	if owner := cmp.Or(w.Declared(), w.HelmRelease()); owner != "" {
		text += "; " + owner + ": make the change in its source"
	}
	return advance{to: state.Superseded, text: text}
}
