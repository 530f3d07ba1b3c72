package access

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"paramedic/internal/text"
	"paramedic/state"
	"paramedic/webhook/httpio"
)

// A Config holds the ways in which each kind of sender proves who it is. If none is configured,
// every request is refused.
type Config struct {
	Alertmanager AlertmanagerAuth
	API          APIAuth
	Sessions     *Sessions // the logins to the pages
	Clock        state.Clock
	Logger       *slog.Logger
	// PublicURL is the bot's address for people. Requests may use its host name for an open API,
	// besides localhost and plain IP addresses.
	PublicURL string
}

// A Control decides which requests pass, and identifies their senders.
type Control struct {
	Config
	origins *http.CrossOriginProtection
	guesses guesses
}

// New returns a Control with the configuration c.
func New(c Config) *Control {
	return &Control{Config: c, origins: newOrigins(c.PublicURL)}
}

// Authenticate returns the sender of a request to the API or the pages. It returns false for an
// unknown sender, and for a write that another site's page may have caused.
func (c *Control) Authenticate(r *http.Request) (state.Actor, bool) {
	who, err := c.Identify(r)
	return who, err == nil
}

// Identify returns the sender of a request, or the reason to refuse it.
func (c *Control) Identify(r *http.Request) (state.Actor, error) {
	via := "api"
	if strings.HasPrefix(r.UserAgent(), "paramedic/") {
		via = "cli"
	}
	if c.API.Tokens == nil {
		if !c.API.Open {
			return state.Actor{}, httpio.Fail(http.StatusForbidden,
				"no authentication is configured for the API: set auth.api.tokens_file in paramedic.yaml")
		}
		if err := c.local(r); err != nil {
			return state.Actor{}, err
		}
		if err := c.ownWrite(r); err != nil {
			return state.Actor{}, err
		}
		return state.Actor{ID: "local", Via: via, Role: state.Admin, Unverified: true}, nil
	}
	token, given := bearer(r)
	if !given {
		return c.loggedIn(r)
	}
	t, err := c.known(r, token)
	switch {
	case errors.Is(err, ErrGuesses):
		a := httpio.Fail(http.StatusTooManyRequests, "%s", err)
		a.RetryAfter = int(time.Minute / time.Second)
		return state.Actor{}, a
	case err != nil:
		return state.Actor{}, httpio.Fail(http.StatusUnauthorized, "the token is not in auth.api.tokens_file")
	}
	return actorOf(t, via), nil
}

// loggedIn identifies the sender of a request by its session cookie.
func (c *Control) loggedIn(r *http.Request) (state.Actor, error) {
	refused := httpio.Fail(http.StatusUnauthorized,
		"not authenticated: send a token of auth.api.tokens_file as Authorization: Bearer")
	cookie, err := r.Cookie(SessionCookie)
	if err != nil {
		return state.Actor{}, refused
	}
	if err := c.ownWrite(r); err != nil {
		return state.Actor{}, err
	}
	sum, ok := c.Sessions.token(cookie.Value, c.Clock.Now())
	if !ok {
		return state.Actor{}, refused
	}
	t, ok, err := c.API.Tokens.bySum(sum)
	if err != nil {
		c.Logger.WarnContext(r.Context(), "the changed tokens file is not valid and not applied", "err", err)
	}
	if !ok {
		c.Sessions.end(cookie.Value)
		return state.Actor{}, refused
	}
	return actorOf(t, "page"), nil
}

func actorOf(t Token, via string) state.Actor {
	who := state.Actor{ID: t.Name, Name: t.Name, Via: via, Role: t.Role, Alias: t.SlackUser}
	if t.Name == "" {
		who.ID, who.Unverified = "token", true
	}
	return who
}

// Need wraps h: requests pass if their sender has the role. Use it for reads, which leave no
// record. The handlers of writes refuse too low a role themselves, and record it.
func (c *Control) Need(role state.Role, h httpio.Handler) httpio.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		who, err := c.Identify(r)
		if err != nil {
			var a *httpio.Error
			if errors.As(err, &a) && a.Code == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", `Bearer realm="paramedic"`)
			}
			return err
		}
		if !who.Role.Allows(role) {
			return httpio.Fail(http.StatusForbidden, "%s", RoleTooLow(who, role))
		}
		return h(w, r)
	}
}

// RoleTooLow returns the refusal for an actor whose role is lower than needed.
func RoleTooLow(a state.Actor, need state.Role) string {
	return fmt.Sprintf("the role %s may not do this: it needs %s", a.Role, need)
}

// Login begins a session for a token and returns its ID, for the cookie [SessionCookie].
func (c *Control) Login(r *http.Request, token string) (id string, err error) {
	if c.API.Tokens == nil {
		return "", ErrLogin
	}
	if _, err := c.known(r, token); err != nil {
		return "", err
	}
	return c.Sessions.begin(token, c.Clock.Now()), nil
}

// Logout ends the session of a request, if it has one.
func (c *Control) Logout(r *http.Request) {
	if cookie, err := r.Cookie(SessionCookie); err == nil {
		c.Sessions.end(cookie.Value)
	}
}

// known returns the entry of a presented token. A wrong token counts as a guess.
func (c *Control) known(r *http.Request, token string) (Token, error) {
	now, from := c.Clock.Now(), source(r)
	if !c.guesses.allowed(from, token, now) {
		return Token{}, ErrGuesses
	}
	t, ok, err := c.API.Tokens.lookup(token)
	if err != nil {
		c.Logger.WarnContext(r.Context(), "the changed tokens file is not valid and not applied", "err", err)
	}
	if ok {
		return t, nil
	}
	if counted, last := c.guesses.count(from, token, now); counted {
		c.Logger.WarnContext(r.Context(), "a client sent a token that is not in auth.api.tokens_file", "source", from, "path",
			text.Line(r.URL.Path, 100), "refused_from_now", last)
	}
	return Token{}, ErrLogin
}
