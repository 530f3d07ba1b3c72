package fold

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"paramedic/state"
)

// The first note in another tool's incident waits noteWait for a named cause. Another note follows
// each change of the cause, at most maxNotes in all, because the person who was paged reads them
// all.
const (
	noteWait = time.Minute
	maxNotes = 4
)

// noteExternals wants notes with the verdict in the other tools' incidents about the same trouble.
func (x *step) noteExternals(in *state.Incident) {
	if in.DiagnosedAt.IsZero() {
		return
	}
	for i, ext := range in.External {
		due := x.now
		switch {
		case ext.Noted && ext.Cause == "": // written by an older version, which wrote one note only
			in.External = slices.Clone(in.External)
			in.External[i].Cause, in.External[i].Notes = in.Cause(), 1
			x.changedIncident(in)
			continue
		case ext.Noted && (ext.Cause == in.Cause() || ext.Notes >= maxNotes):
			continue
		case !ext.Noted && in.Cause() == state.Unknown:
			if until := in.DiagnosedAt.Add(noteWait); until.After(due) {
				due = until
			}
		}
		x.wantEffect(state.Effect{ID: noteID(ext), Kind: state.EffectNote, Cluster: in.Cluster, Incident: in.ID,
			Channel: state.ChannelPagerDuty, Ref: ext.ID, Due: due})
	}
}

func noteID(ext state.External) state.EffectID {
	return state.EffectID(fmt.Sprintf("note:%s:%s", ext.Source, ext.ID))
}

// recordNote records the cause that a note names. If the cause has changed since, it wants another
// note.
func (x *step) recordNote(in *state.Incident, e *state.Effect, o state.Outcome) {
	in.External = slices.Clone(in.External)
	for i := range in.External {
		if ext := &in.External[i]; ext.ID == e.Ref {
			ext.Noted, ext.Cause = true, cmp.Or(state.Cause(o.Ref[state.RefCause]), in.Cause())
			ext.Notes++
		}
	}
	text := "Paramedic wrote the diagnosis into " + e.Ref
	if o.Error != "" {
		text = fmt.Sprintf("Paramedic could not write the diagnosis into %s: %s", e.Ref, o.Error)
	}
	x.record(in, state.Entry{Kind: "notified", Quiet: true, Text: text})
	x.noteExternals(in)
}

// inheritExternals moves the other tools' incidents of a merged incident to its root.
func (x *step) inheritExternals(root, other *state.Incident) {
	for _, ext := range other.External {
		x.dropEffect(noteID(ext)) // its text has the verdict of the part
	}
	root.External = append(root.External, other.External...)
	other.External = nil
	x.noteExternals(root)
}
