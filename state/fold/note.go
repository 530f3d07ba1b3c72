package fold

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"paramedic/state"
)

// The first note in another tool's incident waits this long for a named cause. A note follows
// whenever the cause changes, mostNotes in all: whom that tool has paged reads them all.
const (
	noteWait  = time.Minute
	mostNotes = 4
)

// noteExternals wants the verdict written into the incidents of other tools about the same trouble.
func (x *step) noteExternals(in *state.Incident) {
	if in.DiagnosedAt.IsZero() {
		return
	}
	for i, ext := range in.External {
		due := x.now
		switch {
		case ext.Noted && ext.Cause == "": // by an older version, which wrote one note whatever became of the verdict
			in.External = slices.Clone(in.External)
			in.External[i].Cause, in.External[i].Notes = in.Cause(), 1
			x.changedIncident(in)
			continue
		case ext.Noted && (ext.Cause == in.Cause() || ext.Notes >= mostNotes):
			continue
		case !ext.Noted && in.Cause() == state.Unknown:
			if until := in.DiagnosedAt.Add(noteWait); until.After(due) {
				due = until
			}
		}
		x.put(state.Effect{ID: noteID(ext), Kind: state.EffectNote, Cluster: in.Cluster, Incident: in.ID, Channel: state.ChannelPagerDuty, Ref: ext.ID, Due: due})
	}
}

func noteID(ext state.External) state.EffectID {
	return state.EffectID(fmt.Sprintf("note:%s:%s", ext.Source, ext.ID))
}

// noted remembers which cause a note names, and wants another where the cause has changed since it
// was composed.
func (x *step) noted(in *state.Incident, e *state.Effect, o state.Outcome) {
	in.External = slices.Clone(in.External)
	for i := range in.External {
		if ext := &in.External[i]; ext.ID == e.Ref {
			ext.Noted, ext.Cause = true, cmp.Or(state.Cause(o.Ref[state.RefCause]), in.Cause())
			ext.Notes++
		}
	}
	text := "the diagnosis was written into " + e.Ref
	if o.Error != "" {
		text = fmt.Sprintf("the diagnosis could not be written into %s: %s", e.Ref, o.Error)
	}
	x.record(in, state.Entry{Kind: "notified", Quiet: true, Text: text})
	x.noteExternals(in)
}

// inheritExternals makes other tools' incidents about a part of a trouble the whole trouble's.
func (x *step) inheritExternals(root, other *state.Incident) {
	for _, ext := range other.External {
		x.drop(noteID(ext)) // it would tell the part's verdict
	}
	root.External = append(root.External, other.External...)
	other.External = nil
	x.noteExternals(root)
}
