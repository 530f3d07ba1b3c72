package webhook

import (
	"context"
	_ "embed"
	"log/slog"
	"maps"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync"
	"time"

	"paramedic/state"
	"paramedic/webhook/access"
	"paramedic/webhook/alertmanager"
	"paramedic/webhook/api"
	"paramedic/webhook/chat"
	"paramedic/webhook/command"
	"paramedic/webhook/httpio"
)

//go:embed openapi.yaml
var openAPI []byte

// A Config holds the parts and settings of a Server. Log and View are required. The other fields
// have safe defaults: without authentication every request is refused, and without a secret the
// paths of Slack and PagerDuty answer 404.
type Config struct {
	Log    state.Log
	View   state.View
	Clock  state.Clock
	Logger *slog.Logger
	// Clusters are the values of the label cluster that are accepted. The first cluster gets every
	// other alert.
	Clusters []string
	// Titles holds the titles of signals and symptoms, for reports.
	Titles state.Titles
	// Causes holds the IDs that feedback may name. Empty: any ID of the form of a cause's.
	Causes []state.Cause
	// Retain is how long a resolved incident is stored; 0: state.DefaultSettings.
	Retain time.Duration

	Alertmanager access.AlertmanagerAuth
	API          access.APIAuth
	Slack        chat.Config
	PagerDuty    PagerDuty
	Limits       Limits

	// Fleet returns the health of every pool, as a value for JSON.
	Fleet func(ctx context.Context) (any, error)
	// Live and Ready answer /healthz and /readyz. nil means healthy.
	Live  func(ctx context.Context) error
	Ready func(ctx context.Context) error
	// Loading returns an error while View lacks incidents. nil: it lacks none.
	Loading func() error
	// Backlog reports how far triage is behind. If it is nil, alerts are never refused for that.
	Backlog Backlog
	// Skipped returns how many inputs were set aside because they cannot be applied, and the
	// newest. nil: none are.
	Skipped func() (n uint64, newest state.SkippedInput)
	// Replica returns what this process does. nil: it is not one of several.
	Replica func() state.Replica
	// Observe is called for every answered request. n is the number of alerts that it made durable.
	Observe func(route string, code int, d time.Duration, n int)
	// ObserveAside is called for alerts that were set aside, by reason.
	ObserveAside func(reason string, n uint64)
	// Aside remembers the alerts that were set aside. If it is nil, the server makes one.
	Aside *alertmanager.Aside
	// Sessions holds the logins. If it is nil, the server makes one.
	Sessions *access.Sessions
	// Pages serves every other path. It sets its own Content-Security-Policy.
	Pages http.Handler
	// Metrics serves /metrics.
	Metrics http.Handler
	// PublicURL is the bot's address for people. Requests may use its host name for an open API,
	// besides localhost and plain IP addresses.
	PublicURL string
}

// Limits bounds what a request may cost. Zero values mean the defaults.
type Limits struct {
	Body        int64         // largest Alertmanager payload in bytes; 8 MiB
	Alerts      int           // most alerts in one payload; 50000
	Concurrency int           // payloads read and appended at once; 64
	QueueWait   time.Duration // how long a payload waits for a slot; 1 s
	ReadTimeout time.Duration // how long a body may take to arrive; 10 s
	Append      time.Duration // how long making it durable may take; 8 s
	ApplyWait   time.Duration // how long a write waits to be applied before it is answered with 202; 2 s
	Streams     int           // event streams at once; 256
	Lag         time.Duration // how far triage may be behind before alerts are refused; zero: no bound
}

func (l Limits) withDefaults() Limits {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	wait := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	if l.Body <= 0 {
		l.Body = 8 << 20
	}
	def(&l.Alerts, 50_000)
	def(&l.Concurrency, 64)
	def(&l.Streams, 256)
	wait(&l.QueueWait, time.Second)
	wait(&l.ReadTimeout, 10*time.Second)
	wait(&l.Append, 8*time.Second)
	wait(&l.ApplyWait, 2*time.Second)
	return l
}

// A Server answers every request to the bot. It is an http.Handler.
type Server struct {
	Config
	mux      *http.ServeMux
	access   *access.Control
	commands *command.Runner
	api      *api.API
	chat     *chat.Chat
	slots    *slots
	refusals refusals
	gate     gate
	pager    *access.Replays // PagerDuty deliveries that are already durable
	done     chan struct{}
	end      sync.Once
}

// New returns a server. It panics if c has no log or no view. Call Close when the HTTP server shuts
// down (http.Server.RegisterOnShutdown); otherwise open event streams hold up the shutdown.
func New(c Config) *Server {
	if c.Log == nil || c.View == nil {
		panic("webhook: Config needs a Log and a View")
	}
	if len(c.Clusters) == 0 {
		c.Clusters = []string{"default"}
	}
	if c.Clock == nil {
		c.Clock = state.SystemClock{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Aside == nil {
		c.Aside = &alertmanager.Aside{}
	}
	if c.Sessions == nil {
		c.Sessions = &access.Sessions{}
	}
	if c.Retain <= 0 {
		c.Retain = state.DefaultSettings().Retain
	}
	c.Limits = c.Limits.withDefaults()
	s := &Server{
		Config: c, mux: http.NewServeMux(), done: make(chan struct{}), slots: newSlots(c.Limits.Concurrency),
		pager: access.NewReplays(time.Hour, 10_000),
	}
	s.access = access.New(access.Config{
		Alertmanager: c.Alertmanager, API: c.API, Sessions: c.Sessions, Clock: c.Clock, Logger: c.Logger, PublicURL: c.PublicURL,
	})
	s.commands = &command.Runner{
		Log: c.Log, View: c.View, Clock: c.Clock, Logger: c.Logger, Clusters: c.Clusters, Loading: c.Loading, Timeout: c.Limits.Append,
	}
	s.api = api.New(api.Config{
		Runner: s.commands, Access: s.access, Fleet: c.Fleet, BodyTimeout: c.Limits.ReadTimeout, ApplyWait: c.Limits.ApplyWait,
		Streams: c.Limits.Streams, Done: s.done, Titles: c.Titles, Causes: c.Causes, Retain: c.Retain,
	})
	c.Slack.Titles = c.Titles
	s.chat = chat.New(c.Slack, s.commands, c.API.Tokens, c.Limits.ReadTimeout)
	for pattern, h := range s.routes() {
		s.mux.Handle(pattern, s.handle(h))
	}
	if c.Metrics != nil {
		s.mux.Handle("GET /metrics", c.Metrics)
	}
	if c.Pages != nil {
		s.mux.Handle("/", c.Pages)
	}
	return s
}

// routes returns the handlers by pattern. openapi.yaml describes each.
func (s *Server) routes() map[string]httpio.Handler {
	routes := map[string]httpio.Handler{
		"POST /webhook/alertmanager":      s.alertmanager,
		"POST /webhook/slack/command":     s.chat.Command,
		"POST /webhook/slack/interaction": s.chat.Interaction,
		"POST /webhook/pagerduty":         s.pagerDuty,

		"GET /api/v1/status": s.access.Need(state.Viewer, s.status),

		"GET /openapi.yaml": func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "application/yaml")
			_, err := w.Write(openAPI)
			return err
		},
		"GET /healthz": s.health(func() func(context.Context) error { return s.Live }),
		"GET /readyz":  s.health(func() func(context.Context) error { return s.Ready }, s.Refusing),

		"GET /debug/pprof/":        s.access.Need(state.Admin, plain(pprof.Index)),
		"GET /debug/pprof/profile": s.access.Need(state.Admin, plain(pprof.Profile)),
		"GET /debug/pprof/trace":   s.access.Need(state.Admin, plain(pprof.Trace)),
	}
	for _, path := range []string{"/api/", "/webhook/", "/debug/pprof/", "/healthz", "/readyz", "/metrics", "/openapi.yaml"} {
		routes[path] = s.noSuchPath
	}
	maps.Copy(routes, s.api.Routes())
	return routes
}

// plain makes a handler without an error of one of net/http.
func plain(h http.HandlerFunc) httpio.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		h(w, r)
		return nil
	}
}

// noSuchPath answers a request that no other pattern matches. For a path that exists it lists the
// allowed methods.
func (s *Server) noSuchPath(w http.ResponseWriter, r *http.Request) error {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		probe := http.Request{Method: method, Host: r.Host, URL: r.URL}
		if _, pattern := s.mux.Handler(&probe); strings.Contains(pattern, " ") { // only the patterns of real paths name a method
			allowed = append(allowed, method)
		}
	}
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		return httpio.Fail(http.StatusMethodNotAllowed,
			"%s %s is not allowed: use %s; /openapi.yaml lists the paths and their methods", r.Method,
			r.URL.Path, strings.Join(allowed, ", "))
	}
	if strings.HasPrefix(r.URL.Path, "/webhook/") {
		return httpio.Fail(http.StatusNotFound, "%s does not exist: Alertmanager sends to /webhook/alertmanager, PagerDuty to "+
			"/webhook/pagerduty, and Slack to /webhook/slack/command (slash command) and /webhook/slack/interaction (buttons)", r.URL.Path)
	}
	return httpio.Fail(http.StatusNotFound, "%s %s does not exist; /openapi.yaml lists the paths and their methods",
		r.Method, r.URL.Path)
}

// health answers a probe. A note does not change a good answer: while alerts are refused, people
// must still reach the bot to approve and halt.
func (s *Server) health(probe func() func(context.Context) error, notes ...func() string) httpio.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if check := probe(); check != nil {
			if err := check(r.Context()); err != nil {
				return httpio.Fail(http.StatusServiceUnavailable, "%s", err)
			}
		}
		answer := map[string]string{"status": "ok"}
		for _, note := range notes {
			if text := note(); text != "" {
				answer["note"] = text
			}
		}
		return httpio.WriteJSON(w, http.StatusOK, answer)
	}
}

// Close ends the event streams and waits for replies under way. It may be called more than once.
func (s *Server) Close() {
	s.end.Do(func() { close(s.done) })
	s.chat.Close()
}

// Authenticate returns the sender of a request to the API or the pages. It returns false for an
// unknown sender, and for a write that another site's page may have caused.
func (s *Server) Authenticate(r *http.Request) (state.Actor, bool) { return s.access.Authenticate(r) }

// Login begins a session for a token and returns its ID, for the cookie [access.SessionCookie].
func (s *Server) Login(r *http.Request, token string) (id string, err error) {
	return s.access.Login(r, token)
}

// Logout ends the session of a request, if it has one.
func (s *Server) Logout(r *http.Request) { s.access.Logout(r) }
