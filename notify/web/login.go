package web

import (
	"net/http"
	"net/url"
	"strings"
)

// CookieName is the cookie that carries an API token for the pages and for what their script asks of the API.
const CookieName = "paramedic_token"

// maxToken bounds what is taken for a token.
const maxToken = 4096

type loginData struct {
	Next  string
	Wrong string
}

// askLogin sends a reader who is not known to the login page, and tells a script so.
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
		http.Error(w, "A login has to come from Paramedic's own page.", http.StatusForbidden)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, 2*maxToken)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "The login form could not be read.", http.StatusBadRequest)
		return
	}
	token, next := strings.TrimSpace(r.PostForm.Get("token")), localPath(r.PostForm.Get("next"))
	if !plausible(token) || !h.accepts(r, token) {
		h.write(w, r, view{page: "login", title: "Log in", status: http.StatusForbidden,
			data: loginData{Next: next, Wrong: "This token is not known. Tokens are listed in the file that auth.api.tokens_file names."}}, frame{})
		return
	}
	http.SetCookie(w, h.cookie(r, token, 12*3600))
	http.Redirect(w, r, next, http.StatusSeeOther)
}

func (h *Handler) logout(w http.ResponseWriter, r *http.Request) {
	if !sameOrigin(r) {
		http.Error(w, "A logout has to come from Paramedic's own page.", http.StatusForbidden)
		return
	}
	http.SetCookie(w, h.cookie(r, "", -1))
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// cookie is out of scripts' and other sites' reach, and never leaves TLS where the page came over it.
func (h *Handler) cookie(r *http.Request, token string, maxAge int) *http.Cookie {
	return &http.Cookie{Name: CookieName, Value: token, Path: "/", MaxAge: maxAge, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")}
}

// accepts asks the same authentication that requests go through whether it knows the token.
func (h *Handler) accepts(r *http.Request, token string) bool {
	try := r.Clone(r.Context())
	try.Method, try.Body = http.MethodGet, http.NoBody
	try.Header.Del("Cookie")
	try.Header.Set("Authorization", "Bearer "+token)
	_, _, ok := h.cfg.Authenticate(try)
	return ok
}

// plausible holds back what a header or a cookie could not carry.
func plausible(token string) bool {
	if token == "" || len(token) > maxToken {
		return false
	}
	return !strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == ';' || r == ',' || r == '\\' })
}

// sameOrigin says whether a form was sent by one of our own pages.
func sameOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return r.Header.Get("Sec-Fetch-Site") == "same-origin"
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// localPath keeps a redirect on this site.
func localPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n\t") {
		return "/"
	}
	return next
}
