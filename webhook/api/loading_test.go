package api_test

import (
	"errors"
	"testing"

	"paramedic/webhook"
	"paramedic/webhook/hooktest"
)

// While the state is loaded, no answer may say that an incident does not exist, and no list may
// lack one. An incident that is there already can be acted on.
func TestIncompleteStateIsNotShown(t *testing.T) {
	loading := errors.New("partition 1 of 4 is not loaded yet")
	s, _ := hooktest.Serve(t, hooktest.NewWorld().Populate(), func(c *webhook.Config) { c.Loading = func() error { return loading } })
	for _, path := range []string{"incidents", "incidents/77", "incidents/77/timeline", "actions", "actions/ACT-02", "stats"} {
		hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/"+path, ""), 503, "partition 1 of 4", "try again")
	}
	hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/incidents/"+string(hooktest.Incident), ""), 200)
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/incidents/77/ack", `{"actor":"ana"}`), 503, "try again")
	loading = nil
	hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/incidents", ""), 200)
	hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/incidents/77", ""), 404)
}
