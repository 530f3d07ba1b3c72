package web

import (
	"context"
	"embed"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"time"

	"paramedic/state"
)

// A Playbook is a rendered playbook. Its checks are answered if it is shown with an incident.
type Playbook struct {
	ID       string
	Title    string
	Cause    string
	Severity string
	Body     template.HTML // from a renderer that passes no raw HTML
	Checks   []Check
	FirstAid []Step
	Worse    []string
	Escalate string
}

// A Check is one question of a playbook with its answer.
type Check struct {
	ID        string
	Ask       string
	State     string // ok, warn, bad, info or unknown
	Answer    string // empty if the playbook is shown without an incident
	Limit     string // the thresholds in words
	ByHand    string // commands
	Signal    string
	Threshold *float64 // drawn in the signal's chart; nil for a limit on the sum of pods, which no single line reaches
}

// A Step is one step of first aid.
type Step struct {
	Text   string
	When   string
	Action string // the action of Paramedic; empty: for people
}

// Config configures the pages.
type Config struct {
	View state.View
	// Playbook returns an incident's playbook, or one by its ID if incident and evidence are nil.
	Playbook func(id string, in *state.Incident, ev *state.Evidence) (Playbook, bool)
	// Playbooks returns the IDs; nil if there is no list.
	Playbooks func() []string
	// Fleet returns the health of every pool now; nil if no source is configured.
	Fleet func(context.Context) (Fleet, error)
	// Intake returns the state of the intake; nil if the pages do not show it.
	Intake func() Intake
	// Replica returns what this process does; nil if it is not one of several.
	Replica func() state.Replica
	// Loading returns an error while View lacks incidents; nil if it lacks none.
	Loading func() error
	// Titles holds the titles of signals by ID, and those of symptoms by "symptom:" and the ID.
	// Without a title, the page shows the words of the ID.
	Titles map[string]string
	// Causes holds those that feedback may name. Without any, the page asks for no cause.
	Causes []state.Cause
	// Units holds the units of signals, for values without one.
	Units map[string]string
	// Mode is the remediation mode: observe, suggest, approve or auto.
	Mode    string
	Version string
	Clock   state.Clock
	// Clusters names the clusters whose halt the pages show. Empty means "default".
	Clusters []string
	// Authenticate returns the sender of a request, by its cookie [CookieName] or its Authorization
	// header. If the actor has no name, or Authenticate is nil, the page asks for a name at every
	// decision.
	Authenticate func(*http.Request) (by state.Actor, ok bool)
	// Login begins a session for a token and returns its ID. Logout ends the session of a request.
	// Both belong to Authenticate.
	Login  func(r *http.Request, token string) (session string, err error)
	Logout func(*http.Request)
	Logger *slog.Logger
}

//go:embed templates/*.html static/*
var files embed.FS

// A Handler serves the pages.
type Handler struct {
	cfg      Config
	pages    map[string]*template.Template
	partials map[string]*template.Template // the same without relative times
	static   map[string]asset
	mux      *http.ServeMux
	causes   map[string]bool // the IDs of playbooks, which are those of causes
}

// New returns the pages' handler. It serves /, /incidents/, /actions, /playbooks/, /fleet,
// /static/, /login and /logout.
func New(cfg Config) (*Handler, error) {
	if cfg.View == nil || cfg.Clock == nil {
		return nil, errors.New("the pages need a view and a clock")
	}
	if cfg.Authenticate != nil && cfg.Login == nil {
		return nil, errors.New("pages that ask who reads them need a login")
	}
	if cfg.Playbook == nil {
		cfg.Playbook = func(string, *state.Incident, *state.Evidence) (Playbook, bool) { return Playbook{}, false }
	}
	if len(cfg.Clusters) == 0 {
		cfg.Clusters = []string{"default"}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	h := &Handler{cfg: cfg, mux: http.NewServeMux(), causes: map[string]bool{}}
	if cfg.Playbooks != nil {
		for _, id := range cfg.Playbooks() {
			h.causes[id] = true
		}
	}
	var err error
	if h.static, err = loadAssets(); err != nil {
		return nil, err
	}
	funcs := h.funcs()
	if h.pages, err = h.parse(funcs); err != nil {
		return nil, err
	}
	funcs["ago"] = func(time.Time) string { return "" } // the script writes it every second
	if h.partials, err = h.parse(funcs); err != nil {
		return nil, err
	}
	h.mux.HandleFunc("GET /static/{file}", h.serveStatic)
	h.mux.HandleFunc("GET /login", h.showLogin)
	h.mux.HandleFunc("POST /login", h.login)
	h.mux.HandleFunc("POST /logout", h.logout)
	for pattern, page := range map[string]func(*http.Request) (view, error){
		"GET /{$}": h.index, "GET /incidents": h.index, "GET /incidents/{id}": h.incident, "GET /actions": h.actions,
		"GET /actions/{id}": h.action, "GET /playbooks": h.playbooks, "GET /playbooks/{id}": h.playbook, "GET /fleet": h.fleet,
		"GET /": func(*http.Request) (view, error) { return view{}, notFound("There is no such page.") },
	} {
		h.mux.Handle(pattern, h.guard(page))
	}
	return h, nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy",
		"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "+
			"form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("X-Frame-Options", "DENY")
	head.Set("Referrer-Policy", "same-origin")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.mux.ServeHTTP(w, r)
}

func (h *Handler) now() time.Time { return h.cfg.Clock.Now() }
