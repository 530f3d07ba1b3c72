package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v2"

	"paramedic/webhook"
	"paramedic/webhook/hooktest"
	"paramedic/webhook/httpio"
)

// A wrong method on a path that exists lists the allowed ones. A wrong path of a webhook lists the
// right ones.
func TestWrongMethodListsAllowedMethods(t *testing.T) {
	s, _ := hooktest.Serve(t, hooktest.NewWorld().Populate(), func(c *webhook.Config) { c.Pages, c.Metrics = http.NotFoundHandler(), http.NotFoundHandler() })
	for _, c := range []struct{ method, path, allow string }{
		{"GET", "/webhook/alertmanager", "POST"},
		{"PUT", "/webhook/alertmanager", "POST"},
		{"DELETE", "/api/v1/incidents", "GET, HEAD"},
		{"POST", "/api/v1/incidents/42", "GET, HEAD"},
		{"GET", "/api/v1/incidents/42/ack", "POST"},
		{"GET", "/api/v1/halt", "POST"},
		{"POST", "/healthz", "GET, HEAD"},
		{"POST", "/readyz", "GET, HEAD"},
		{"DELETE", "/metrics", "GET, HEAD"},
		{"POST", "/openapi.yaml", "GET, HEAD"},
		{"POST", "/debug/pprof/profile", "GET, HEAD"},
	} {
		got := hooktest.Do(s, c.method, c.path, "")
		hooktest.Expect(t, got, 405, "use "+c.allow)
		if allow := got.Header().Get("Allow"); allow != c.allow {
			t.Errorf("%s %s: Allow %q, want %q", c.method, c.path, allow, c.allow)
		}
	}
	hooktest.Expect(t, hooktest.Do(s, "POST", "/webhook/slack", ""), 404, "/webhook/slack/command")
	hooktest.Expect(t, hooktest.Do(s, "POST", "/webhook/alertmanager/", "{}"), 404, "sends to /webhook/alertmanager, ")
	hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v2/incidents", ""), 404, "/openapi.yaml")
}

// Profiles show what the process has in memory, so only an admin gets them.
func TestProfilesNeedAnAdmin(t *testing.T) {
	s, _ := hooktest.Serve(t, hooktest.NewWorld().Populate(), hooktest.WithTokens(t))
	for token, want := range map[string]int{"admin-token": 200, "responder-token": 403, "": 401} {
		var headers []string
		if token != "" {
			headers = []string{"Authorization", "Bearer " + token}
		}
		for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/trace?seconds=0.01"} {
			if got := hooktest.Do(s, "GET", path, "", headers...); got.Code != want {
				t.Errorf("%s with the token %q: %d, want %d", path, token, got.Code, want)
			}
		}
	}
	hooktest.Expect(t, hooktest.Do(s, "GET", "/debug/pprof/heap", "", "Authorization", "Bearer viewer-token"), 403, "needs admin")
}

func TestHealthHeadersAndPanics(t *testing.T) {
	ready := errors.New("NATS is away")
	s, _ := hooktest.Serve(t, hooktest.NewWorld(), func(c *webhook.Config) {
		c.Ready = func(context.Context) error { return ready }
		c.Fleet = func(context.Context) (any, error) { panic("secret-panic") }
	})
	hooktest.Expect(t, hooktest.Do(s, "GET", "/healthz", ""), 200)
	hooktest.Expect(t, hooktest.Do(s, "GET", "/readyz", ""), 503, "NATS is away")
	got := hooktest.Do(s, "GET", "/api/v1/fleet", "", "X-Request-Id", "bad id\n")
	hooktest.Expect(t, got, 500)
	if strings.Contains(got.Body.String(), "secret-panic") || got.Header().Get("X-Content-Type-Options") != "nosniff" ||
		!httpio.PlainID(got.Header().Get("X-Request-Id"), 64) {
		t.Errorf("%v %s", got.Header(), got.Body)
	}
}

func TestOpenAPIDescribesEveryPath(t *testing.T) {
	var doc struct {
		Paths map[string]map[string]any `yaml:"paths"`
	}
	if err := yaml.Unmarshal(webhook.OpenAPI, &doc); err != nil {
		t.Fatal(err)
	}
	var described, routed []string
	for path, item := range doc.Paths {
		for method, op := range item {
			if method == "parameters" {
				continue
			}
			described = append(described, strings.ToUpper(method)+" "+path)
			if said := fmt.Sprint(op); !strings.Contains(said, "default:map[$ref:#/components/responses/Error]") {
				t.Errorf("%s %s has no answer for other errors, such as 401, 403 and 429: %s", method, path, said)
			}
		}
	}
	s, _ := hooktest.Serve(t, hooktest.NewWorld(), nil)
	for pattern := range s.Routes() {
		if strings.Contains(pattern, " ") {
			routed = append(routed, pattern)
		}
	}
	slices.Sort(described)
	slices.Sort(routed)
	if !slices.Equal(described, routed) {
		t.Errorf("described %q\nrouted %q", described, routed)
	}
	hooktest.Expect(t, hooktest.Do(s, "GET", "/openapi.yaml", ""), 200, "openapi: 3",
		"For unknown it is one minus the sum of the candidates' probabilities")
}
