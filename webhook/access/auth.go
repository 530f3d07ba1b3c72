package access

import (
	"net/http"
	"strings"

	"paramedic/webhook/httpio"
)

// AlertmanagerAuth holds the ways in which Alertmanager may prove who it is. Any one of the
// configured ways is enough.
type AlertmanagerAuth struct {
	Bearer        *Secret
	BasicUser     string
	BasicPassword *Secret
	// ClientCert accepts any client whose certificate the TLS layer verified. Set
	// tls.Config.ClientCAs to the CA and ClientAuth to tls.VerifyClientCertIfGiven.
	ClientCert bool
	// Open accepts every request if nothing else is configured. It is for a listener on loopback
	// only.
	Open bool
}

// Configured reports whether there is any way to authenticate.
func (a AlertmanagerAuth) Configured() bool {
	return a.Bearer != nil || a.BasicPassword != nil || a.ClientCert
}

// Allow returns nil if the request may pass. If a secret cannot be read now, the sender is asked to
// retry, so that no alert is lost; cause is the error to log.
func (a AlertmanagerAuth) Allow(r *http.Request) (deny, cause error) {
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
	// Every configured secret is compared, so that the time taken does not show which one nearly
	// matched.
	ok := false
	if a.Bearer != nil {
		want, err := a.Bearer.Value()
		if err != nil {
			cause = err
		} else if got, given := bearer(r); given && equal(got, want) {
			ok = true
		}
	}
	if a.BasicPassword != nil {
		want, err := a.BasicPassword.Value()
		if err != nil {
			cause = err
		} else if user, password, given := r.BasicAuth(); given && equal(user, a.BasicUser) && equal(password, want) {
			ok = true
		}
	}
	switch {
	case ok:
		return nil, nil
	case cause != nil:
		return httpio.Fail(http.StatusServiceUnavailable, "Paramedic cannot read the secret for alerts now: try again"), cause
	}
	return httpio.Fail(http.StatusUnauthorized,
		"not authenticated: set http_config in Alertmanager's webhook_config to the credentials of auth.alertmanager"), nil
}

func bearer(r *http.Request) (string, bool) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	return strings.TrimSpace(token), true
}

// APIAuth decides who may use the API and the pages.
type APIAuth struct {
	Tokens *Tokens
	// Open makes every sender an admin if there are no tokens. It is for a listener on loopback
	// only. Requests that another site's page could have sent are refused even so.
	Open bool
}
