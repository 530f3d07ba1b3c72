package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"paramedic/state"
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

// allow is nil where the request may pass. A secret that cannot be read now is a reason to try
// again, not to lose an alert.
func (a AlertmanagerAuth) allow(r *http.Request) (deny error, cause error) {
	if !a.Configured() {
		if a.Open {
			return nil, nil
		}
		return fail(http.StatusForbidden, "no authentication is configured for alerts: set auth.alertmanager in paramedic.yaml"), nil
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
		return fail(http.StatusServiceUnavailable, "the secret for alerts cannot be read now; try again"), cause
	}
	return fail(http.StatusUnauthorized, "not authenticated: give Alertmanager's webhook_config the http_config that auth.alertmanager asks for"), nil
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

// Authenticate says who sends a request to the API or the pages. It is false for nobody, and for a
// write that another site's page may have caused.
func (s *Server) Authenticate(r *http.Request) (state.Actor, bool) {
	who, err := s.identify(r)
	return who.actor, err == nil
}

// A caller is who sends a request.
type caller struct{ actor state.Actor }

func (s *Server) identify(r *http.Request) (caller, error) {
	via := "api"
	if strings.HasPrefix(r.UserAgent(), "paramedic/") {
		via = "cli"
	}
	if s.API.Tokens == nil {
		if !s.API.Open {
			return caller{}, fail(http.StatusForbidden, "no authentication is configured for the API: set auth.api.tokens_file in paramedic.yaml")
		}
		if err := s.local(r); err != nil {
			return caller{}, err
		}
		if err := s.ownWrite(r); err != nil {
			return caller{}, err
		}
		return caller{actor: state.Actor{ID: "local", Via: via, Role: state.Admin, Unverified: true}}, nil
	}
	token, given := bearer(r)
	if !given {
		return s.loggedIn(r)
	}
	t, err := s.known(r, token)
	switch {
	case errors.Is(err, ErrGuesses):
		a := fail(http.StatusTooManyRequests, "%s", err)
		a.retryAfter = int(time.Minute / time.Second)
		return caller{}, a
	case err != nil:
		return caller{}, fail(http.StatusUnauthorized, "the token is not in auth.api.tokens_file")
	}
	return callerOf(t, via), nil
}

// loggedIn returns who sends a request with the cookie of a login.
func (s *Server) loggedIn(r *http.Request) (caller, error) {
	refused := fail(http.StatusUnauthorized, "not authenticated: send a token of auth.api.tokens_file as Authorization: Bearer")
	cookie, err := r.Cookie(SessionCookie)
	if err != nil {
		return caller{}, refused
	}
	if err := s.ownWrite(r); err != nil {
		return caller{}, err
	}
	sum, ok := s.Sessions.token(cookie.Value, s.Clock.Now())
	if !ok {
		return caller{}, refused
	}
	t, ok, err := s.API.Tokens.bySum(sum)
	if err != nil {
		s.Logger.Warn("changed tokens file is not applied", "err", err)
	}
	if !ok {
		s.Sessions.end(cookie.Value)
		return caller{}, refused
	}
	return callerOf(t, "page"), nil
}

func callerOf(t Token, via string) caller {
	who := caller{actor: state.Actor{ID: t.Name, Name: t.Name, Via: via, Role: t.Role, Alias: t.SlackUser}}
	if t.Name == "" {
		who.actor.ID, who.actor.Unverified = "token", true
	}
	return who
}

// need lets a request pass whose sender has the role. Reads without it are only refused; writes are
// refused by the handlers of the verbs, which record it.
func (s *Server) need(role state.Role, h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		who, err := s.identify(r)
		if err != nil {
			var a *answer
			if errors.As(err, &a) && a.code == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", `Bearer realm="paramedic"`)
			}
			return err
		}
		if !who.actor.Role.Allows(role) {
			return fail(http.StatusForbidden, "%s", roleTooLow(who.actor, role))
		}
		return h(w, r)
	}
}

func roleTooLow(a state.Actor, need state.Role) string {
	return fmt.Sprintf("the role %s may not do this: it needs %s", a.Role, need)
}
