package api_test

import (
	"testing"
	"time"

	"paramedic/webhook"
	"paramedic/webhook/hooktest"
)

func TestStatsSumUpTheWindow(t *testing.T) {
	s, clock := hooktest.Serve(t, crowd(120), func(c *webhook.Config) { c.Retain = 48 * time.Hour })
	clock.Advance(2 * time.Minute)
	path := "/api/v1/stats"
	hooktest.Expect(t, hooktest.Do(s, "GET", path, ""), 200, `"from":"2026-11-19T03:02:00Z","to":"2026-11-21T03:02:00Z","all":{"incidents":120,`,
		`"diagnose":{"count":0,"median_s":null,"p90_s":null}`, `"open":96`, `"noisy_rules":[]`, `"feedback":[]`)
	hooktest.Expect(t, hooktest.Do(s, "GET", path+"?since=30s", ""), 200, `"all":{"incidents":30,`)
	hooktest.Expect(t, hooktest.Do(s, "GET", path+"?since=2d", ""), 200, `"all":{"incidents":120,`)
	hooktest.Expect(t, hooktest.Do(s, "GET", path+"?since=3d", ""), 400, "since 3d is longer than incidents are kept: use at most 2d (state.retain)")
	for _, wrong := range []string{"-1h", "0", "yesterday"} {
		hooktest.Expect(t, hooktest.Do(s, "GET", path+"?since="+wrong, ""), 400, "such as 30d or 12h")
	}
}

func TestStatsNeedAToken(t *testing.T) {
	s, _ := hooktest.Serve(t, crowd(1), hooktest.WithTokens(t))
	hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/stats", ""), 401)
	hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/stats", "", "Authorization", "Bearer viewer-token"), 200, `"causes":[{"cause":"unknown",`)
}
