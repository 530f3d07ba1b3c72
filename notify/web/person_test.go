package web

import (
	"testing"

	"paramedic/state"
)

func TestRunThatNeedsAPersonHasAButton(t *testing.T) {
	for _, as := range []state.ActionState{state.NeedsHuman, "evacuating"} {
		v := fixture()
		a := &v.actions[0]
		a.State = as
		for _, page := range []string{"/actions", "/incidents/" + string(a.Incident)} {
			_, body := get(t, handler(t, v, nil), page, nil)
			contains(t, body, `data-post="/api/v1/actions/`+string(a.ID)+`/cancel"`, "It is taken care of", "gets no other first aid")
		}
		a.Journal = map[string]string{state.Released: "asha"}
		if c := newActionCard(*a); c.CanCancel || c.Waits || c.Tone != "mute" {
			t.Errorf("%+v", c)
		}
		_, body := get(t, handler(t, v, nil), "/actions", nil)
		contains(t, body, "Taken care of by asha.")
	}
}
