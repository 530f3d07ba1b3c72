package access_test

import (
	"fmt"
	"net/http"
	"testing"

	"paramedic/webhook"
	"paramedic/webhook/access"
	"paramedic/webhook/hooktest"
)

// pages adds handlers for the incident pages and the metrics.
func pages(c *webhook.Config) {
	ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "shown") })
	c.Pages, c.Metrics, c.PublicURL = ok, ok, "https://oncall.example/paramedic"
}

// firing is a payload of one alert.
var firing = hooktest.Payload(hooktest.Alert("prod", 1))

var openPaths = []string{"/", "/incidents", "/incidents/42", "/fleet", "/actions", "/playbooks/kv_leak", "/metrics", "/readyz",
	"/openapi.yaml",
	"/api/v1/incidents", "/api/v1/incidents/42/report", "/api/v1/actions", "/api/v1/events", "/webhook/alertmanager"}

// A host name that another site points at this machine (DNS rebinding) opens no path of a bot that
// is open on loopback.
func TestForeignHostNamesAreRefused(t *testing.T) {
	s, _ := hooktest.Serve(t, hooktest.NewWorld().Populate(), pages)
	for _, path := range openPaths {
		for _, host := range []string{"rebound.example:8080", "127.0.0.1.rebound.example", "localhost.rebound.example"} {
			hooktest.Expect(t, hooktest.Answer(s, hooktest.Request("GET", host, path, "")), 403, "another name")
		}
	}
	hooktest.Expect(t, hooktest.Answer(s, hooktest.Request("POST", "rebound.example:8080", "/webhook/alertmanager", firing,
		"Content-Type", "application/json")), 403, "another name")
	for _, path := range []string{"/", "/incidents/42", "/fleet", "/actions", "/metrics", "/api/v1/incidents"} {
		for _, host := range []string{"127.0.0.1:8080", "localhost:8080", "LOCALHOST", "[::1]:8080", "oncall.example"} {
			hooktest.Expect(t, hooktest.Answer(s, hooktest.Request("GET", host, path, "")), 200)
		}
	}
}

// A page of another site cannot send alerts and cannot read in the background. It may link to a
// page.
func TestForeignSitesCannotSendAlerts(t *testing.T) {
	w := hooktest.NewWorld().Populate()
	s, _ := hooktest.Serve(t, w, pages)
	const json = "application/json"
	for name, headers := range map[string][]string{
		"origin":         {"Origin", "https://evil.example", "Content-Type", json},
		"another port":   {"Origin", "http://127.0.0.1:9999", "Content-Type", json},
		"opaque origin":  {"Origin", "null", "Content-Type", json},
		"fetch metadata": {"Sec-Fetch-Site", "cross-site", "Content-Type", json},
		"same site":      {"Sec-Fetch-Site", "same-site", "Content-Type", json},
		"no-cors request": {"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Content-Type",
			"text/plain;charset=UTF-8"},
	} {
		if got := hooktest.Answer(s,
			hooktest.Request("POST", "127.0.0.1:8080", "/webhook/alertmanager", firing, headers...)); got.Code != 403 {
			t.Errorf("%s: answered %d: %s", name, got.Code, got.Body)
		}
	}
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded"} {
		got := hooktest.Answer(s, hooktest.Request("POST", "127.0.0.1:8080", "/webhook/alertmanager", firing, "Content-Type", kind))
		hooktest.Expect(t, got, 415, "Content-Type: application/json")
	}
	if len(w.Inputs) != 0 {
		t.Fatalf("%d inputs were taken", len(w.Inputs))
	}
	for _, path := range openPaths[:len(openPaths)-1] {
		if path == "/metrics" {
			continue
		}
		hooktest.Expect(t, hooktest.Answer(s, hooktest.Request("GET", "127.0.0.1:8080", path, "", "Sec-Fetch-Site", "cross-site",
			"Sec-Fetch-Mode", "no-cors")), 403, "another site")
	}
	hooktest.Expect(t, hooktest.Answer(s,
		hooktest.Request("GET", "127.0.0.1:8080", "/incidents/42", "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate")), 200)
	hooktest.Expect(t, hooktest.Answer(s,
		hooktest.Request("POST", "127.0.0.1:8080", "/webhook/alertmanager", firing, "Content-Type", json)), 200)
}

// A proxy in front of a bot that asks for tokens may use any host name. So may Slack and PagerDuty,
// which sign their requests.
func TestAuthenticatedRequestsMayUseAnyHostName(t *testing.T) {
	s, _ := hooktest.Serve(t, hooktest.NewWorld().Populate(), func(c *webhook.Config) {
		hooktest.WithTokens(t)(c)
		pages(c)
		c.API.Open = true
		c.Alertmanager.Bearer = access.LiteralSecret("alerts")
	})
	const host = "paramedic.internal"
	hooktest.Expect(t, hooktest.Answer(s, hooktest.Request("GET", host, "/api/v1/incidents", "", "Authorization", "Bearer viewer-token")),
		200)
	hooktest.Expect(t, hooktest.Answer(s, hooktest.Request("GET", host, "/incidents", "")), 200)
	hooktest.Expect(t, hooktest.Answer(s, hooktest.Request("GET", host, "/metrics", "")), 403, "another name")
	alerts := []string{"Authorization", "Bearer alerts", "Content-Type", "application/json"}
	hooktest.Expect(t, hooktest.Answer(s, hooktest.Request("POST", host, "/webhook/alertmanager", firing, alerts...)), 200)
	hooktest.Expect(t, hooktest.Answer(s, hooktest.Request("POST", host, "/webhook/alertmanager", firing,
		append(alerts, "Origin", "https://evil.example")...)), 403, "another site")
	for _, path := range []string{"/webhook/slack/command", "/webhook/pagerduty"} { // closed here: no secret is configured
		hooktest.Expect(t, hooktest.Answer(s, hooktest.Request("POST", host, path, "")), 404, "not configured")
	}
}

// The bot's own page may write through a proxy that uses another host name than the browser.
func TestPagesWriteThroughProxy(t *testing.T) {
	s, _ := hooktest.Serve(t, hooktest.NewWorld().Populate(), func(c *webhook.Config) {
		hooktest.WithTokens(t)(c)
		pages(c)
	})
	hooktest.Expect(t, hooktest.Answer(s,
		hooktest.Request("POST", "127.0.0.1:8080", "/api/v1/incidents/42/ack", "", "Cookie", hooktest.Login(t, s, "responder-token"),
			"Origin", "https://oncall.example", "Content-Type", "application/json")), 200)
}
