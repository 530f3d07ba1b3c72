package remediate

import (
	"cmp"

	"paramedic/remediate/cluster"
	"paramedic/remediate/engineflag"
	"paramedic/state"
)

// putBack reports whether another hand undid the run's write: the value is the one from before the
// write. A flag that was appended is gone, and not only moved.
func putBack(w cluster.Workload, wr state.Write) bool {
	if wr.Old == "" {
		p, err := engineflag.Locate(w.Containers, engineflag.CapFlag(w.Containers))
		return w.UID == wr.UID && err == nil && p.Absent
	}
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
