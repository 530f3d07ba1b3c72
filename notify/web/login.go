package web

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
)

const (
	// CookieName is the cookie with the ID of a login, for the pages and for their script's
	// requests to the API.
	CookieName = "paramedic_session"
	// oldCookie held the token itself, in versions before sessions. The server removes it from a
	// browser that still has it.
	oldCookie = "paramedic_token"
	// loginTime bounds how long a browser keeps the cookie, in seconds. The session may end
	// sooner.
	loginTime = 12 * 3600
)

// ErrTooManyLogins reports that a login was not checked, because too many were wrong.
var ErrTooManyLogins = errors.New("too many logins were wrong")

// maxToken bounds the length of a token.
const maxToken = 4096

type loginData struct {
	Next  string
	Wrong string
}

// askLogin redirects an unknown reader to the login page. A script gets a 401.
func (h *Handler) askLogin(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get(PartialHeader) != "" {
		http.Error(w, "not logged in", http.StatusUnauthorized)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, "/login?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
}

func (h *Handler) showLogin(w http.ResponseWriter, r *http.Request) {
	next := localPath(r.URL.Query().Get("next"))
	if h.cfg.Authenticate == nil {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	h.write(w, r, view{page: "login", title: "Log in", data: loginData{Next: next}}, frame{})
}

func (h *Handler) login(w http.ResponseWriter, r *http.Request) {
	if h.cfg.Authenticate == nil {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	if !sameOrigin(r) {
		http.Error(w, "Paramedic refused the login: it must come from Paramedic's own page.", http.StatusForbidden)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, 2*maxToken)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "Paramedic could not read the login form.", http.StatusBadRequest)
		return
	}
	token, next := strings.TrimSpace(r.PostForm.Get("token")), localPath(r.PostForm.Get("next"))
	wrong := view{page: "login", title: "Log in", status: http.StatusForbidden,
		data: loginData{Next: next,
			Wrong: "Paramedic does not know this token. The file of auth.api.tokens_file lists the tokens."}}
	if !validToken(token) {
		h.write(w, r, wrong, frame{})
		return
	}
	session, err := h.cfg.Login(r, token)
	switch {
	case errors.Is(err, ErrTooManyLogins):
		w.Header().Set("Retry-After", "60")
		wrong.status, wrong.data = http.StatusTooManyRequests,
			loginData{Next: next, Wrong: "Too many logins failed. Wait a minute, then try again."}
		h.write(w, r, wrong, frame{})
		return
	case err != nil:
		h.write(w, r, wrong, frame{})
		return
	}
	http.SetCookie(w, h.cookie(r, CookieName, session, loginTime))
	h.dropOldCookie(w, r)
	http.Redirect(w, r, next, http.StatusSeeOther)
}

func (h *Handler) logout(w http.ResponseWriter, r *http.Request) {
	if !sameOrigin(r) {
		http.Error(w, "Paramedic refused the logout: it must come from Paramedic's own page.", http.StatusForbidden)
		return
	}
	if h.cfg.Logout != nil {
		h.cfg.Logout(r)
	}
	http.SetCookie(w, h.cookie(r, CookieName, "", -1))
	h.dropOldCookie(w, r)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// cookie returns a cookie that scripts and other sites cannot read, and that stays on TLS if the
// page came over TLS.
func (h *Handler) cookie(r *http.Request, name, value string, maxAge int) *http.Cookie {
	return &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
		Secure:   r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")}
}

// dropOldCookie removes the token that an earlier version left in a browser.
func (h *Handler) dropOldCookie(w http.ResponseWriter, r *http.Request) {
	if _, err := r.Cookie(oldCookie); err == nil {
		http.SetCookie(w, h.cookie(r, oldCookie, "", -1))
	}
}

// validToken refuses a token that a header or a cookie cannot carry.
func validToken(token string) bool {
	if token == "" || len(token) > maxToken {
		return false
	}
	return !strings.ContainsFunc(token,
		func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == ';' || r == ',' || r == '\\' })
}

// sameOrigin reports whether one of our own pages sent a form.
func sameOrigin(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") { // by the browser, which pages cannot change
	case "same-origin":
		return true // also if a proxy has replaced the host
	case "":
	default:
		return false
	}
	u, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// localPath keeps a redirect on this site.
func localPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") ||
		strings.ContainsAny(next, "\\\r\n\t") {
		return "/"
	}
	return next
}
