package webhook_test

import (
	"testing"
	"time"

	"paramedic/state"
	"paramedic/webhook"
	"paramedic/webhook/hooktest"
)

// The status names the role of a replica, and the age of the copy that it shows.
func TestStatusShowsTheReplica(t *testing.T) {
	since := hooktest.Start.Add(-time.Hour)
	for want, r := range map[string]state.Replica{
		`"replica":{"role":"active","since":"2026-11-21T02:00:00Z","copy":null}`: {Active: true, Since: since},
		`"role":"follower","since":"2026-11-21T02:00:00Z","copy":{"as_of":"2026-11-21T02:59:57Z","age_s":3,"inputs":2}`: {Since: since,
			AsOf: hooktest.Start.Add(-3 * time.Second), Inputs: 2},
		`"copy":{"as_of":null,"age_s":null,"inputs":0}`: {Since: since},
	} {
		s, _ := hooktest.Serve(t, hooktest.NewWorld(), func(c *webhook.Config) { c.Replica = func() state.Replica { return r } })
		hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/status", ""), 200, want)
	}
}
