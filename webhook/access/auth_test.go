package access_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"paramedic/webhook"
	"paramedic/webhook/access"
	"paramedic/webhook/hooktest"
)

func TestAlertmanagerAuthentication(t *testing.T) {
	dir := t.TempDir()
	file := func(name, value string) *access.Secret {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
		return access.NewSecret(path)
	}
	token, password := file("token", "s3cret-token\n"), file("password", "pa55\n")
	basic := func(user, pass string) string {
		r, _ := http.NewRequest("GET", "/", nil)
		r.SetBasicAuth(user, pass)
		return r.Header.Get("Authorization")
	}
	all := access.AlertmanagerAuth{Bearer: token, BasicUser: "am", BasicPassword: password, ClientCert: true}
	for name, c := range map[string]struct {
		auth   access.AlertmanagerAuth
		header string
		cert   bool
		code   int
	}{
		"nothing configured, not open": {access.AlertmanagerAuth{}, "", false, 403},
		"nothing configured, open":     {access.AlertmanagerAuth{Open: true}, "", false, 200},
		"configured, open is ignored":  {access.AlertmanagerAuth{Open: true, Bearer: token}, "", false, 401},
		"no credentials":               {all, "", false, 401},
		"bearer":                       {all, "Bearer s3cret-token", false, 200},
		"wrong bearer":                 {all, "Bearer s3cret-tokem", false, 401},
		"empty bearer":                 {all, "Bearer ", false, 401},
		"basic":                        {all, basic("am", "pa55"), false, 200},
		"wrong user":                   {all, basic("root", "pa55"), false, 401},
		"wrong password":               {all, basic("am", "pa56"), false, 401},
		"client certificate":           {all, "", true, 200},
		"certificate not asked for":    {access.AlertmanagerAuth{Bearer: token}, "", true, 401},
		"secret file is gone": {access.AlertmanagerAuth{Bearer: access.NewSecret(filepath.Join(dir, "none"))}, "Bearer x", false,
			503},
		"secret file is empty": {access.AlertmanagerAuth{Bearer: file("empty", "\n")}, "Bearer ", false, 503},
	} {
		t.Run(name, func(t *testing.T) {
			w := hooktest.NewWorld()
			s, _ := hooktest.Serve(t, w, func(cfg *webhook.Config) { cfg.Alertmanager = c.auth })
			r := hooktest.Request("POST", "127.0.0.1", "/webhook/alertmanager", hooktest.Payload(hooktest.Alert("prod", 1)),
				"Content-Type", "application/json")
			if c.header != "" {
				r.Header.Set("Authorization", c.header)
			}
			if c.cert {
				r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{}}}}
			}
			got := httptest.NewRecorder()
			s.ServeHTTP(got, r)
			hooktest.Expect(t, got, c.code)
			if (w.Calls > 0) != (c.code == 200) {
				t.Errorf("%d appends", w.Calls)
			}
			if strings.Contains(got.Body.String(), "s3cret") {
				t.Error("the answer tells the secret")
			}
		})
	}
}
