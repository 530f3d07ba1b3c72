// Package pagerdutytest is a stateful fake of PagerDuty's Events API v2, for alerts and changes,
// and of the part of its REST API that finds incidents and writes notes. It is a real HTTP server,
// and as strict as PagerDuty.
//
// It keeps incidents by deduplication key as PagerDuty does: a trigger folds into an open incident,
// and opens a new one after a resolve. It enforces routing keys, the limits of every field and of
// the body, and the rate. It records as a failure what PagerDuty would refuse or drop: a test
// asserts that Server.Failures is empty. [Server.Inject] injects faults.
//
// [Webhook] makes what PagerDuty would send, and [Sign] signs it.
package pagerdutytest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"paramedic/notify/notifytest"
)

// Options configure a fake account. The zero value accepts any routing key of 32 characters and any
// token.
type Options struct {
	RoutingKey string
	Token      string
	From       []string // the e-mail addresses of users; empty: any
	ReadOnly   bool     // the token may only read
	PerMinute  int      // events a minute; 0: no limit
	Now        func() time.Time
}

// An Incident is an incident as PagerDuty stores it.
type Incident struct {
	ID       string // "P1", "P2", …
	Key      string
	Status   string // triggered, acknowledged, resolved
	Severity string
	Summary  string
	Details  map[string]any
	Links    []map[string]string
	Triggers int // triggers that were folded into it, including the first
}

// A FaultKind is a way to fail.
type FaultKind int

// The ways to fail.
const (
	Unavailable FaultKind = iota // 503; nothing happened
	Lost                         // it happened, and the answer is a 500
	Hang                         // nothing happens until the client's timeout
	Limited                      // 429, with Retry-After if After is set
	Invalid                      // 400
	Garbage                      // 202 with Text as the body; it happened
)

// A Fault makes requests fail.
type Fault struct {
	Path  string // a part of the path; empty: any
	Kind  FaultKind
	Text  string
	Times int // 0: once
	After time.Duration
}

// A Server is the fake. It is safe for concurrent use.
type Server struct {
	notifytest.FailureLog
	opt   Options
	http  *httptest.Server
	serve http.Handler
	done  chan struct{}
	once  sync.Once

	mu        sync.Mutex
	incidents []*Incident
	notes     map[string][]string
	events    []string
	dropped   []string
	changes   []string
	faults    notifytest.Faults[Fault]
	times     []time.Time
	limited   int
}

// New starts the fake.
func New(opt Options) *Server {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	s := &Server{opt: opt, done: make(chan struct{}), notes: map[string][]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v2/enqueue", s.enqueue)
	mux.HandleFunc("POST /v2/change/enqueue", s.change)
	mux.HandleFunc("GET /users", s.rest(s.listUsers))
	mux.HandleFunc("GET /incidents", s.rest(s.listIncidents))
	mux.HandleFunc("GET /incidents/{id}/notes", s.rest(s.listNotes))
	mux.HandleFunc("POST /incidents/{id}/notes", s.rest(s.addNote))
	mux.HandleFunc("POST /webhook_subscriptions", s.rest(s.subscribe))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.Fail("%s %s is not known", r.Method, r.URL.Path)
		http.NotFound(w, r)
	})
	s.serve = s.faulty(mux)
	s.http = httptest.NewServer(s.serve)
	return s
}

// Close stops the fake. Calls that hang end.
func (s *Server) Close() {
	s.once.Do(func() { close(s.done) })
	s.http.Close()
}

// URL returns the base of both APIs, without a path.
func (s *Server) URL() string { return s.http.URL }

// Client returns a client that calls the fake without a socket. In a synctest bubble it runs on the
// bubble's clock.
func (s *Server) Client() *http.Client { return &http.Client{Transport: direct{s.serve}} }

// A direct passes requests to a handler.
type direct struct{ http.Handler }

// RoundTrip answers the request.
func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	r = r.Clone(r.Context()) // a transport must not change its request
	if r.Body == nil {
		r.Body = http.NoBody
	}
	d.ServeHTTP(w, r)
	return w.Result(), nil
}

// Incidents returns the incidents, oldest first.
func (s *Server) Incidents() []Incident {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Incident
	for _, in := range s.incidents {
		out = append(out, *in)
	}
	return out
}

// Events returns the events that were accepted, as "trigger KEY".
func (s *Server) Events() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// Dropped returns the events that changed nothing, because no incident with their key was open.
func (s *Server) Dropped() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.dropped)
}

// Changes returns the summaries of the change events that were accepted.
func (s *Server) Changes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.changes)
}

// Notes returns the notes of an incident.
func (s *Server) Notes(id string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.notes[id])
}

// Limited returns the number of events that exceeded the rate.
func (s *Server) Limited() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limited
}

// Inject makes the next matching requests fail.
func (s *Server) Inject(f Fault) { s.faults.Add(f, f.Times) }

func (s *Server) faulty(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, faulty := s.faults.Take(func(f Fault) bool { return strings.Contains(r.URL.Path, f.Path) })
		if !faulty {
			next.ServeHTTP(w, r)
			return
		}
		switch f.Kind {
		case Unavailable:
			http.Error(w, "unavailable", http.StatusServiceUnavailable)
		case Lost:
			next.ServeHTTP(httptest.NewRecorder(), r)
			http.Error(w, "lost", http.StatusInternalServerError)
		case Garbage:
			next.ServeHTTP(httptest.NewRecorder(), r)
			w.WriteHeader(http.StatusAccepted)
			io.WriteString(w, f.Text)
		case Limited:
			if f.After > 0 {
				w.Header().Set("Retry-After", fmt.Sprint(int(f.After.Seconds())))
			}
			http.Error(w, `{"status":"throttle exceeded"}`, http.StatusTooManyRequests)
		case Invalid:
			refuse(w, f.Text)
		case Hang:
			select {
			case <-r.Context().Done():
			case <-s.done:
			}
		}
	})
}

func refuse(w http.ResponseWriter, errs ...string) {
	answer(w, http.StatusBadRequest, map[string]any{"status": "invalid event", "message": "Event object is invalid", "errors": errs})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}
