package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"paramedic/internal/text"
	"paramedic/state"
)

// PartialHeader asks for a page's content alone, by which the script replaces the old content. The
// content has no relative times, so that its ETag changes only with the content. nowHeader holds
// the server's time.
const (
	PartialHeader = "X-Paramedic-Partial"
	nowHeader     = "X-Paramedic-Now"
)

// A view is one page: its template, title and data.
type view struct {
	page     string
	title    string
	nav      string // the entry of the navigation that it belongs to
	about    string // what changes it: an incident's ID, everything, or nothing
	status   int
	data     any
	redirect string // redirect there instead
}

// everything is the subject of a page that shows more than one incident.
const everything = "all"

// frame holds the data of every template.
type frame struct {
	Title, Nav, Mode, Version string
	User                      string
	By                        state.Actor
	LoggedIn                  bool
	Known                     bool // the login has a name, so the page asks for none
	CanAct                    bool // may acknowledge and deny
	CanHalt                   bool
	// the reader has not logged in: no data of the fleet and no links are shown
	Outside               bool
	Now                   time.Time
	Halts                 []halt
	Follower              *follower
	Loading               error // why incidents are missing; nil: none are
	Clusters              []string
	Data                  any
	About                 string
	Partial               bool
	JS, CSS, Stream, ETag string
}

// Incomplete reports whether incidents may be missing from the page.
func (f frame) Incomplete() bool {
	return f.Loading != nil || f.Follower != nil && f.Follower.AsOf.IsZero()
}

// A follower describes the copy of a replica that is not active. If the copy is as good as new, the
// text has no time, so that it does not change with every second.
type follower struct {
	Fresh  bool // at most freshFor old
	AsOf   time.Time
	Inputs int
}

const freshFor = 10 * time.Second

// follower returns nil if this process is active.
func (h *Handler) follower() *follower {
	if h.cfg.Replica == nil {
		return nil
	}
	r := h.cfg.Replica()
	if r.Active {
		return nil
	}
	return &follower{Fresh: h.now().Sub(r.AsOf) <= freshFor, AsOf: r.AsOf, Inputs: r.Inputs}
}

type halt struct {
	Cluster string
	state.Halt
}

// A pageError is shown to the reader with its status.
type pageError struct {
	status int
	text   string
	links  []link
}

type link struct{ URL, Text string }

func (e *pageError) Error() string { return e.text }

func notFound(text string) error { return &pageError{status: http.StatusNotFound, text: text} }

// guard checks that the reader may see the page, makes it and writes it.
func (h *Handler) guard(page func(*http.Request) (view, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := frame{By: state.Actor{Role: state.Admin, Unverified: true}}
		if h.cfg.Authenticate != nil {
			by, ok := h.cfg.Authenticate(r)
			if !ok {
				h.askLogin(w, r)
				return
			}
			f.User, f.By, f.LoggedIn, f.Known = by.Name, by, true, by.Name != ""
		}
		v, err := page(r)
		if err != nil {
			v = h.failed(r, err)
		}
		if v.redirect != "" {
			w.Header().Set("Cache-Control", "no-store")
			http.Redirect(w, r, v.redirect, http.StatusFound)
			return
		}
		h.write(w, r, v, f)
	})
}

// failed returns the page that shows an error.
func (h *Handler) failed(r *http.Request, err error) view {
	var pe *pageError
	if !errors.As(err, &pe) {
		h.cfg.Logger.ErrorContext(r.Context(), "page cannot be made", "err", err)
		pe = &pageError{status: http.StatusInternalServerError,
			text: "Paramedic could not make the page. The reason is in its log."}
	}
	return view{page: "error", title: http.StatusText(pe.status), status: pe.status,
		data: struct {
			Text  string
			Links []link
		}{pe.text, pe.links}}
}

// write renders the page before it answers, so that a template's error never leaves half a page.
func (h *Handler) write(w http.ResponseWriter, r *http.Request, v view, f frame) {
	f.Title, f.Nav, f.Mode, f.Version, f.Now, f.Data = v.title, v.nav, h.cfg.Mode, h.cfg.Version, h.now(), v.data
	f.CanAct, f.CanHalt = f.By.Role.Allows(state.Responder), f.By.Role.Allows(state.Admin)
	f.JS, f.CSS, f.Stream = h.static["app.js"].url, h.static["app.css"].url, h.static["stream.js"].url
	f.About, f.Partial = v.about, r.Header.Get(PartialHeader) != ""
	f.Clusters = h.cfg.Clusters
	f.Outside = v.page == "login"
	if !f.Outside {
		f.Follower = h.follower()
		if h.cfg.Loading != nil {
			f.Loading = h.cfg.Loading()
		}
	}
	for _, c := range h.cfg.Clusters {
		if f.Outside {
			break
		}
		if halted, ok := h.cfg.View.Halted(c); ok {
			f.Halts = append(f.Halts, halt{c, halted})
		}
	}
	asked := f.Partial
	f.Partial = true
	out, err := render(h.partials[v.page], "inner", f)
	f.ETag = etagOf(out)
	if !asked && err == nil {
		f.Partial = false
		out, err = render(h.pages[v.page], "layout", f)
	}
	if err != nil {
		h.cfg.Logger.ErrorContext(r.Context(), "page cannot be rendered", "page", v.page, "err", err)
		http.Error(w, "Paramedic could not render the page. The reason is in its log.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Vary", PartialHeader+", Cookie, Authorization")
	if v.status == 0 {
		v.status = http.StatusOK
	}
	if asked {
		w.Header().Set("ETag", f.ETag)
		w.Header().Set(nowHeader, f.Now.UTC().Format(time.RFC3339))
		if v.status == http.StatusOK && r.Header.Get("If-None-Match") == f.ETag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	w.WriteHeader(v.status)
	_, _ = w.Write(out)
}

func render(t *template.Template, name string, f frame) ([]byte, error) {
	var out bytes.Buffer
	if err := t.ExecuteTemplate(&out, name, f); err != nil {
		return nil, fmt.Errorf("rendering %s: %w", name, err)
	}
	// hidden characters in a label's name would reorder the text around them
	return []byte(text.Lines(out.String())), nil
}

func etagOf(data []byte) string {
	sum := sha256.Sum256(data)
	return `"` + hex.EncodeToString(sum[:8]) + `"`
}

// parse reads the templates: each page with the layout and the shared parts.
func (h *Handler) parse(funcs template.FuncMap) (map[string]*template.Template, error) {
	pages := map[string]*template.Template{}
	for _, name := range []string{"index", "incident", "actions", "playbooks", "playbook", "fleet", "login", "error"} {
		t, err := template.New(name).Funcs(funcs).ParseFS(files, "templates/layout.html", "templates/parts.html",
			"templates/"+name+".html")
		if err != nil {
			return nil, fmt.Errorf("parsing the page %s: %w", name, err)
		}
		pages[name] = t
	}
	return pages, nil
}

// An asset is a static file. Its address has a hash of its content, so that no cache hides a new
// version.
type asset struct {
	data []byte
	kind string
	etag string
	url  string
}

func loadAssets() (map[string]asset, error) {
	entries, err := files.ReadDir("static")
	if err != nil {
		return nil, fmt.Errorf("reading static files: %w", err)
	}
	out := map[string]asset{}
	for _, e := range entries {
		data, err := files.ReadFile("static/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("reading static files: %w", err)
		}
		etag := etagOf(data)
		kind := mime.TypeByExtension(path.Ext(e.Name()))
		if strings.HasSuffix(e.Name(), ".js") {
			kind = "text/javascript; charset=utf-8"
		}
		out[e.Name()] = asset{data: data, kind: kind, etag: etag, url: "/static/" + e.Name() + "?v=" + strings.Trim(etag, `"`)}
	}
	return out, nil
}

func (h *Handler) serveStatic(w http.ResponseWriter, r *http.Request) {
	a, ok := h.static[r.PathValue("file")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("ETag", a.etag)
	w.Header().Set("Cache-Control", "public, max-age=300")
	if `"`+r.URL.Query().Get("v")+`"` == a.etag {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.data))
}
