package slack

import (
	"encoding/json"
	"strings"
	"testing"

	"paramedic/notify"
	"paramedic/notify/notifytest"
	"paramedic/state"
)

func TestRunThatNeedsAPersonHasAButton(t *testing.T) {
	f := notifytest.Facts(t)
	a := &f.Actions[0]
	a.State, a.Reason, a.Verify = state.NeedsHuman, "inconclusive, the change is kept", state.Verification{}
	shown := func(secret string) string {
		b, err := json.Marshal((&Notifier{cfg: Config{SigningSecretFile: secret}}).render(notify.Compose(f)))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	value := string(a.ID) + "|" + a.PlanHash
	if got := shown("secret"); !strings.Contains(got, ActionCancel) || !strings.Contains(got, value) ||
		!strings.Contains(got, "needs a person") || !strings.Contains(got, a.Reason) {
		t.Errorf("%s", got)
	}
	if got := shown(""); strings.Contains(got, ActionCancel) || !strings.Contains(got, "paramedic cancel "+string(a.ID)) {
		t.Errorf("nobody's clicks are heard: %s", got)
	}
	a.Journal = map[string]string{state.Released: "ana"}
	if got := shown("secret"); strings.Contains(got, ActionCancel) || strings.Contains(got, "needs a person") ||
		!strings.Contains(got, "taken care of by ana") {
		t.Errorf("%s", got)
	}
}
