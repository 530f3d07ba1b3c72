package slack

import (
	"strings"
	"testing"

	"paramedic/notify"
	"paramedic/notify/notifytest"
	"paramedic/notify/slack/slacktest"
	"paramedic/state"
)

// The operator's own texts replace the built-in ones, within Slack's limits. The parts that a
// person decides on stay.
func TestOperatorTextsKeepLimitsAndButtons(t *testing.T) {
	n, s := bench(t, Config{SigningSecretFile: "x"}, slacktest.Options{})
	m := notify.Compose(notifytest.Facts(t))
	m.Words = notify.Words{Title: strings.Repeat("own title ", 50), Text: strings.Repeat("*own* text\n", 1000),
		Footer: strings.Repeat("own footer ", 100),
		Links:  []notify.Link{{URL: "https://grafana.example/d/1", Text: "Dashboard"}}, Failed: []string{"paramedic.links failed"}}
	if _, err := n.Show(t.Context(), m, state.Told{}, true); err != nil {
		t.Fatal(err)
	}
	got := string(s.Messages()[0].Blocks)
	for _, want := range []string{"🔴 #42 own title", "*own* text", `"verbatim":true`, "own footer", "https://grafana.example/d/1", "paramedic.links failed", ActionApprove, ActionAck} {
		if !strings.Contains(got, want) {
			t.Errorf("it lacks %q: %.3000s", want, got)
		}
	}
	if strings.Contains(got, "What is wrong") || strings.Contains(got, "Checked for you") {
		t.Errorf("the built-in words stand there too: %.3000s", got)
	}
	m.Status, m.ResolvedBy = state.StatusResolved, "alerts"
	if _, err := n.Show(t.Context(), m, state.Told{}, true); err != nil {
		t.Fatal(err)
	}
	if got := string(s.Messages()[1].Blocks); !strings.Contains(got, "Resolved.") || !strings.Contains(got, "*own* text") ||
		strings.Contains(got, "The diagnosis was") {
		t.Errorf("resolved: %.3000s", got)
	}
}
