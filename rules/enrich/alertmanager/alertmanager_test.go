package alertmanager

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paramedic/state"
)

func TestPresent(t *testing.T) {
	for name, c := range map[string]struct {
		code int
		body string
		want []state.Fingerprint
		err  string
	}{
		"alerts":         {200, `[{"fingerprint":"b000000000000001","status":{"state":"suppressed"}},{"fingerprint":"a000000000000001"}]`, []state.Fingerprint{"a000000000000001", "b000000000000001"}, ""},
		"none":           {200, `[]`, nil, ""},
		"failing":        {500, `[]`, nil, "answers 500"},
		"cut":            {200, `[{"fingerprint":"a0`, nil, "not a list"},
		"no fingerprint": {200, `[{}]`, nil, "without a fingerprint"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for _, k := range []string{"active", "silenced", "inhibited"} {
					if r.URL.Query().Get(k) != "true" {
						t.Errorf("%s is not asked for", k)
					}
				}
				if r.URL.Path != "/am/api/v2/alerts" || r.Method != http.MethodGet {
					t.Errorf("%s %s", r.Method, r.URL.Path)
				}
				w.WriteHeader(c.code)
				_, _ = w.Write([]byte(c.body))
			}))
			defer srv.Close()
			client, err := New(Config{URL: srv.URL + "/am"})
			if err != nil {
				t.Fatal(err)
			}
			got, err := client.Present(t.Context())
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// The alerts of another server do not count.
func TestRedirectIsNotFollowed(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("[]")) }))
	defer elsewhere.Close()
	srv := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusFound))
	defer srv.Close()
	client, err := New(Config{URL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := client.Present(t.Context()); err == nil ||
		err.Error() != "Alertmanager: it redirects to another address; the bot follows no redirects" {
		t.Errorf("got %v, %v", got, err)
	}
}
