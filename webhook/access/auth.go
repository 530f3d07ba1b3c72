package access

import (
	"net/http"
	"strings"

	"paramedic/webhook/httpio"
)

// AlertmanagerAuth says how Alertmanager proves who it is. Any one of the configured ways is
// enough.
type AlertmanagerAuth struct {
	Bearer        *Secret
	BasicUser     string
	BasicPassword *Secret
	// ClientCert takes any client whose certificate the TLS layer verified: set
	// tls.Config.ClientCAs to the CA and ClientAuth to tls.VerifyClientCertIfGiven.
	ClientCert bool
	// Open takes everybody where nothing else is configured. It is for a listener on loopback only.
	Open bool
}

// Configured says whether there is any way to prove oneself.
func (a AlertmanagerAuth) Configured() bool {
	return a.Bearer != nil || a.BasicPassword != nil || a.ClientCert
}

// Allow is nil where the request may pass. A secret that cannot be read now is a reason to try
// again, not to lose an alert.
func (a AlertmanagerAuth) Allow(r *http.Request) (deny error, cause error) {
	if !a.Configured() {
		if a.Open {
			return nil, nil
		}
		return httpio.Fail(http.StatusForbidden,
			"no authentication is configured for alerts: set auth.alertmanager in paramedic.yaml"), nil
	}
	if a.ClientCert && r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		return nil, nil
	}
	// Every configured secret is compared, so that the time taken does not tell which one came
	// close.
	ok := false
	if a.Bearer != nil {
		want, err := a.Bearer.Value()
		if err != nil {
			cause = err
		} else if got, given := bearer(r); given && same(got, want) {
			ok = true
		}
	}
	if a.BasicPassword != nil {
		want, err := a.BasicPassword.Value()
		if err != nil {
			cause = err
		} else if user, password, given := r.BasicAuth(); given && same(user, a.BasicUser) && same(password, want) {
			ok = true
		}
	}
	switch {
	case ok:
		return nil, nil
	case cause != nil:
		return httpio.Fail(http.StatusServiceUnavailable, "the secret for alerts cannot be read now; try again"), cause
	}
	return httpio.Fail(http.StatusUnauthorized,
		"not authenticated: give Alertmanager's webhook_config the http_config that auth.alertmanager asks for"), nil
}

func bearer(r *http.Request) (string, bool) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	return strings.TrimSpace(token), true
}

// APIAuth says who may use the API and the pages.
type APIAuth struct {
	Tokens *Tokens
	// Open makes everybody an admin where there are no tokens. It is for a listener on loopback
	// only; requests that another site's page could have sent are refused all the same.
	Open bool
}
